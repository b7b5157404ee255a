"""Reasoning tasks beside Sudoku: shortest paths in mazes, graph colouring, 3-SAT.

`base` is what they share, and one module each has layout, metric and text. `*_making` hold the compiled generators,
which are imported where problems are made, so that answering one starts fast.
"""
