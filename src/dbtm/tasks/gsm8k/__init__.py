"""Grade-school maths as programs: a problem in words is given, the program that solves it is generated and run.

`data` reads problems, `synthetic` makes them without end, `layout` writes them as tokens, `prepared` keeps the tokens,
`answers` compares numbers, and `task` puts them together. Programs run in `dbtm.sandbox`, never in this process.
"""
