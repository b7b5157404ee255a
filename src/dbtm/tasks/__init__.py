"""Tasks: the data, which tokens are given and which are generated, and how an answer is scored."""

from dbtm.tasks.base import Batch, Task, register

BUILT_IN = {
    "categorical": "dbtm.tasks.toy",
    "colouring": "dbtm.tasks.reasoning.colouring",
    "gsm8k": "dbtm.tasks.gsm8k.task",
    "markov": "dbtm.tasks.toy",
    "maze": "dbtm.tasks.reasoning.maze",
    "own": "dbtm.tasks.own",
    "sat": "dbtm.tasks.reasoning.sat",
    "sudoku": "dbtm.tasks.sudoku.task",
    "text": "dbtm.tasks.text.task",
}

__all__ = ["BUILT_IN", "Batch", "Task", "register"]
