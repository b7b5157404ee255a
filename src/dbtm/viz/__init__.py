"""Things to look at: traces in the terminal and as pages that replay them, frontiers, the map on the 2-simplex."""
