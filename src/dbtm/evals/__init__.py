"""Metrics of trained models, with intervals and all that is needed to reproduce them."""
