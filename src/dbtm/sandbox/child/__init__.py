"""What runs inside the program's own process: imported there as a package of its own, with the standard library alone.

`main` reads the program, `confine` locks the process, `allowlist` reads the program's syntax tree, `program` runs it.
"""
