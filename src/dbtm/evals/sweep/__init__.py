"""Sweeps of a text model over its sampler options: measurements, the folder with the results, and tables."""
