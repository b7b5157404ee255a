"""Benchmarks on this machine: ratios measured in one run, next to lower bounds counted by hand (`dbtm bench`)."""
