"""Attention with its tangent: the specification (reference), the Triton kernels and their operators (ops), and the
choice between them (dispatch).
"""
