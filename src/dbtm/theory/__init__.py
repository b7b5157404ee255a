"""Exact fields, flows, attractors and commitment times for one position on the simplex."""
