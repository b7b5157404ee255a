"""Visualisations: traces in the terminal and as replay pages, frontiers, the map on the 2-simplex."""
