"""Sudoku, the paper's reasoning task, for 9 x 9 grids (box size 3) and 4 x 4 grids (box size 2).

`generate` makes puzzles with `solver`, `symmetry` augments them, `layout` writes them as tokens, `csvfile` stores them,
and `puzzle` reads and checks a user's input. Import the modules by name: only `generate`, `solver`, `symmetry` and
`csvfile` import numba, so that answering one puzzle starts fast.
"""
