"""Reasoning tasks besides Sudoku: shortest paths in mazes, graph colouring, 3-SAT.

`base` has the common part, and one module per task has layout, metric and text. `*_making` are the compiled generators,
imported only when problems are generated, so that answering one starts fast.
"""
