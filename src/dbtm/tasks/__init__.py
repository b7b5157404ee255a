"""Tasks: where data comes from, what is given and what is generated, and how success is measured."""

from dbtm.tasks.base import Batch, Task, register

__all__ = ["Batch", "Task", "register"]
