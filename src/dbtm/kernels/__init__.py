"""Backends and their dispatch: attention with its tangent (reference, Triton kernels and their operators), the gated
delta rule in chunks, the prior without stored noise, and matrix products with float32 results.
"""
