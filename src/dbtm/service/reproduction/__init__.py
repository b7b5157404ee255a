"""Every table and figure of the paper, reproduced: at a small scale on any machine, at the paper's on a GPU.

`registry.ENTRIES` has one small entry each: what it shows, the steps of work at either scale, what it needs, and how
the results become a table that stands beside the paper's. `running.reproduce` does the steps that are not done yet.
"""
