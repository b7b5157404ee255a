"""Grade-school maths as programs: given a word problem, the program that solves it is generated and run.

`data` reads problems, `synthetic` generates them, `layout` writes them as tokens, `prepared` keeps the tokens,
`answers` compares numbers, and `task` puts them together. Programs run in `dbtm.sandbox`, never in this process.
"""
