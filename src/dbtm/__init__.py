"""Discrete Beckmann Transport Models: one time-free map from noise to clean token sequences."""

__version__ = "0.1.0"
