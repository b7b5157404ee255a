"""Drawings of the exact theory on the simplex: one module per figure, and the interactive page."""
