"""What runs where: attention with its tangent (reference, Triton kernels and their operators, and the choice between
them), the gated delta rule in chunks, the prior without its numbers, and products that keep their sums.
"""
