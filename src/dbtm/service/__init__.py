"""Requests and results between the library and its front ends: commands, the studio, scripts.

A request is a frozen dataclass of plain values, a result one of arrays and numbers. Long work takes `progress`, a
`Progress`, which is told how far it is and asked whether to go on. Nothing here prints, parses words or knows of
options on a command line.
"""
