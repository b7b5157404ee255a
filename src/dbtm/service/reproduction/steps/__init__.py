"""The kinds of work that tables and figures are made of."""
