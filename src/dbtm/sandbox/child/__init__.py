"""The code inside the program's process: imported there as a separate package that uses only the standard library.

`main` reads the program, `confine` locks the process, `allowlist` checks the program's syntax tree, `program` runs it.
"""
