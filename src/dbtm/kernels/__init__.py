"""Attention with its tangent: the specification (reference) and the choice of backend (dispatch)."""
