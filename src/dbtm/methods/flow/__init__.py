"""Flows between Gaussian noise and one-hot tokens, and maps along them: FLM, FMLM, FMLM+."""
