"""Methods compared at equal training cost: budgets, measures with intervals, the folder that remembers, the outcome."""
