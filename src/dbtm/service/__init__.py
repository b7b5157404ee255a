"""Requests and results between the library and its front ends: commands, the studio, scripts.

A request is a frozen dataclass of plain values, a result one of arrays and numbers. Long work takes `progress`, a
`Progress`, which receives its progress and can cancel it. Nothing here prints, or parses a command line.
"""
