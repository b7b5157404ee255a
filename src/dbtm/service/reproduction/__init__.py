"""Every table and figure of the paper, reproduced: at a small scale on any machine, at the paper's on a GPU.

`registry.ENTRIES` has one small entry each: its caption, the steps of work at either scale, their needs, and how the
results become a table beside the paper's. `running.reproduce` does the steps that are not done yet.
"""
