"""A user's rows: tokens from a .npy file, or symbols from CSV, JSON lines, FASTA and plain text."""

from dbtm.tasks.own.task import Own

__all__ = ["Own"]
