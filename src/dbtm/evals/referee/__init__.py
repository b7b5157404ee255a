"""Comparison of methods at equal training cost: budgets, metrics with intervals, the folder, the outcome."""
