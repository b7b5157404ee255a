"""Training: the loop, optimizers, EMA, checkpoints, several devices, metrics."""
