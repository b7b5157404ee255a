"""3-SAT: `three literals per clause, clause by clause, then a value per variable`.

Clauses and the literals in them are in order of their variables. Training uses the first solution in alphabetical
order, false before true; any assignment that satisfies all clauses is right.

Shapes: B formulas, M clauses, n variables, L = 3 M + n tokens.
"""

from dataclasses import dataclass

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.tasks.base import register
from dbtm.tasks.reasoning.base import Reasoning, in_threads

FALSE, TRUE, LITERALS = range(3)
"""Tokens; from LITERALS on: a variable, its negation, the next variable ..."""
MOST_VARIABLES = 100
TRIES = 10_000


@register
@dataclass(frozen=True)
class Sat(Reasoning):
    """Random satisfiable formulas (found by a solver, not planted): each example is a new formula."""

    name = "sat"

    variables: int = 50
    """Variables of a formula."""
    ratio: float = 4.26
    """Clauses per variable; beyond 4.26 most large formulas have no solution."""
    seed: int = 1
    """Seed of the formulas."""
    evaluate_n: int = 256
    """Formulas of the quick evaluation."""

    def __post_init__(self):
        if not 3 <= self.variables <= MOST_VARIABLES or not 0 < self.ratio <= 20 or self.clauses < 1:
            raise UsageError(
                f"task.variables={self.variables} must be from 3 to {MOST_VARIABLES}, task.ratio={self.ratio} positive "
                "and at most 20"
            )
        self.check_counts()

    @property
    def clauses(self) -> int:
        return round(self.variables * self.ratio)

    @property
    def vocab(self) -> int:  # type: ignore[override]
        return LITERALS + 2 * self.variables

    @property
    def length(self) -> int:  # type: ignore[override]
        return 3 * self.clauses + self.variables

    def answer(self) -> np.ndarray:
        return np.arange(self.length) >= 3 * self.clauses

    def position_ids(self) -> np.ndarray:
        """Clause, place in the clause, and variable of every position, (L, 3); the last entries stand for none."""
        clause_l, place_l = np.divmod(np.arange(3 * self.clauses), 3)
        literals_l3 = np.stack([clause_l, place_l, np.full_like(clause_l, self.variables)], axis=1)
        of_n = np.arange(self.variables)
        values_n3 = np.stack([np.full_like(of_n, self.clauses), np.full_like(of_n, 3), of_n], axis=1)
        return np.concatenate([literals_l3, values_n3])

    def make(self, keys_B: np.ndarray) -> np.ndarray:
        from dbtm.tasks.reasoning import sat_making  # imported here because it compiles

        def chunk(keys_B: np.ndarray) -> np.ndarray:
            clauses_BM3 = np.zeros((len(keys_B), self.clauses, 3), np.int64)
            value_Bn = np.zeros((len(keys_B), self.variables), np.int64)
            if sat_making.make(keys_B, TRIES, clauses_BM3, value_Bn) < len(keys_B):
                raise UsageError(
                    f"no formula with task.variables={self.variables} and task.ratio={self.ratio} has a solution: use "
                    "fewer clauses (task.ratio)"
                )
            return np.concatenate([LITERALS + clauses_BM3.reshape(len(keys_B), -1), value_Bn], axis=1)

        return in_threads(chunk, keys_B)

    def complaint(self, tokens_L: np.ndarray) -> str | None:
        literal_M3 = tokens_L[: 3 * self.clauses].reshape(-1, 3) - LITERALS
        value_n = tokens_L[3 * self.clauses :]
        if (value_n > TRUE).any():
            return f"variable {int(np.argmax(value_n > TRUE)) + 1} has no value"
        false_M = (value_n[literal_M3 >> 1] == (literal_M3 & 1)).all(-1)
        if false_M.any():
            words = " or ".join(map(_word, literal_M3[np.argmax(false_M)]))
            return f"{int(false_M.sum())} of {self.clauses} clauses are false, the first of them: {words}"
        return None

    def parse(self, text: str) -> np.ndarray:
        """A formula in DIMACS format: literals, a minus for a negation, and 0 after each clause. Missing clauses and
        literals are filled by repeating the last one, which changes nothing.
        """
        lines = [line for line in text.splitlines() if line.strip() and line.split()[0] not in ("c", "p", "v", "%")]
        clauses: list[list[int]] = [[]]
        for word in " ".join(lines).split():
            number = int(word) if word.removeprefix("-").isdecimal() and len(word) < 9 else None
            if number is None or abs(number) > self.variables:
                raise UsageError(
                    f"{word!r} is not a literal: write numbers from 1 to {self.variables}, - before a negation"
                )
            if number:
                clauses[-1].append(2 * abs(number) - 2 + (number < 0))
            else:
                clauses.append([])
        clauses = [sorted(clause) for clause in clauses if clause]
        if not 1 <= len(clauses) <= self.clauses or any(len(clause) > 3 for clause in clauses):
            raise UsageError(
                f"the formula has {len(clauses)} clauses, the longest of {max(map(len, clauses), default=0)} literals: "
                f"this checkpoint takes 1 to {self.clauses} clauses of at most 3 (each ends with 0)"
            )
        filled = sorted(clause + [clause[-1]] * (3 - len(clause)) for clause in clauses)
        filled += [filled[-1]] * (self.clauses - len(filled))
        literals = LITERALS + np.array(filled).reshape(-1)
        return np.concatenate([literals, np.full(self.variables, FALSE)])

    def text(self, tokens: np.ndarray) -> str:
        """The assignment in DIMACS format; a question mark for any other token."""
        values = np.asarray(tokens)[3 * self.clauses :]
        words = [{FALSE: f"-{v}", TRUE: f"{v}"}.get(int(value), "?") for v, value in enumerate(values, start=1)]
        return " ".join(["v", *words, "0"])

    def problem(self, tokens: np.ndarray) -> str:
        """The formula in DIMACS format."""
        literal_M3 = np.asarray(tokens)[: 3 * self.clauses].reshape(-1, 3) - LITERALS
        rows = (f"{' '.join(map(_word, clause_3))} 0" for clause_3 in literal_M3)
        return "\n".join([f"p cnf {self.variables} {self.clauses}", *rows])


def _word(literal: int) -> str:
    """A literal in DIMACS format."""
    return f"{'-' * (int(literal) & 1)}{(int(literal) >> 1) + 1}"
