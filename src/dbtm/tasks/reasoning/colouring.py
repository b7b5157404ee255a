"""Graph colouring: the pairs i <= j row by row, where i < j is an edge or not, and i = j has the colour of i.

A node's colour is where its row and its column of edges meet. Training uses the first colouring in alphabetical order;
any colouring without equal neighbours is right.

Shapes: B graphs, n nodes, L = n (n + 1) / 2 tokens.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.tasks.base import register
from dbtm.tasks.reasoning.base import Reasoning, in_threads

NO_EDGE, EDGE, COLOURS = range(3)
"""Tokens; the colours are those from COLOURS on."""
MOST_NODES, MOST_COLOURS = 60, 26
TRIES = 10_000


@register
@dataclass(frozen=True)
class Colouring(Reasoning):
    """Random colourable graphs (found by a solver, not planted): each example is a new graph."""

    name = "colouring"

    nodes: int = 30
    """Nodes of a graph."""
    colours: int = 3
    """Colours."""
    degree: float = 4.5
    """Mean number of neighbours; beyond about 4.7 large graphs have no colouring with 3 colours."""
    seed: int = 1
    """Seed of the graphs."""
    evaluate_n: int = 256
    """Graphs of the quick evaluation."""

    def __post_init__(self):
        if not 2 <= self.nodes <= MOST_NODES or not 2 <= self.colours <= MOST_COLOURS:
            raise UsageError(
                f"task.nodes={self.nodes} must be from 2 to {MOST_NODES}, task.colours={self.colours} from 2 to "
                f"{MOST_COLOURS}"
            )
        if not 0 < self.degree <= self.nodes - 1:
            raise UsageError(f"task.degree={self.degree} must be positive and below task.nodes={self.nodes}")
        self.check_counts()

    @property
    def vocab(self) -> int:  # type: ignore[override]
        return COLOURS + self.colours

    @property
    def length(self) -> int:  # type: ignore[override]
        return self.nodes * (self.nodes + 1) // 2

    @property
    def edges(self) -> int:
        return round(self.nodes * self.degree / 2)

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """i and j of every position, (L,) each."""
        return np.triu_indices(self.nodes)

    def answer(self) -> np.ndarray:
        i_L, j_L = self.pairs
        return i_L == j_L

    def position_ids(self) -> np.ndarray:
        """Row and column of each position, and whether it is a colour, (L, 3)."""
        return np.stack([*self.pairs, self.answer().astype(np.int64)], axis=1)

    def make(self, keys_B: np.ndarray) -> np.ndarray:
        from dbtm.tasks.reasoning import colouring_making  # imported here because it compiles

        def chunk(keys_B: np.ndarray) -> np.ndarray:
            adjacent_Bnn = np.zeros((len(keys_B), self.nodes, self.nodes), np.int64)
            colour_Bn = np.zeros((len(keys_B), self.nodes), np.int64)
            if colouring_making.make(keys_B, self.edges, self.colours, TRIES, adjacent_Bnn, colour_Bn) < len(keys_B):
                raise UsageError(
                    f"no graph with task.nodes={self.nodes} and task.degree={self.degree} has a colouring with "
                    f"{self.colours} colours: use fewer edges (task.degree) or more colours"
                )
            i_L, j_L = self.pairs
            return np.where(i_L == j_L, COLOURS + colour_Bn[:, i_L], adjacent_Bnn[:, i_L, j_L])

        return in_threads(chunk, keys_B)

    def complaint(self, tokens_L: np.ndarray) -> str | None:
        colour_n = tokens_L[self.answer()] - COLOURS
        if (colour_n < 0).any():
            return f"node {int(np.argmax(colour_n < 0)) + 1} has no colour"
        i_L, j_L = self.pairs
        clash_L = (i_L != j_L) & (tokens_L == EDGE) & (colour_n[i_L] == colour_n[j_L])
        if clash_L.any():
            at = int(np.argmax(clash_L))
            return f"nodes {i_L[at] + 1} and {j_L[at] + 1} are neighbours and have the same colour"
        return None

    def parse(self, text: str) -> np.ndarray:
        """A graph in DIMACS format: a line `e i j` per edge; lines that begin with c or p are ignored."""
        tokens_L = np.where(self.answer(), COLOURS, NO_EDGE)
        where = {pair: at for at, pair in enumerate(zip(*(x.tolist() for x in self.pairs), strict=True))}
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.split()
            if not words or words[0] in ("c", "p", "v"):
                continue
            ends = [int(word) for word in words[1:] if word.isdecimal() and len(word) < 9]
            if words[0] != "e" or len(words) != 3 or len(ends) != 2 or ends[0] == ends[1]:
                raise UsageError(f"line {number}: {line.strip()!r} is not an edge: write 'e 1 2' for one from 1 to 2")
            if not all(1 <= end <= self.nodes for end in ends):
                raise UsageError(
                    f"line {number}: nodes are numbered from 1 to {self.nodes} in this checkpoint's graphs"
                )
            tokens_L[where[min(ends) - 1, max(ends) - 1]] = EDGE
        return tokens_L

    def text(self, tokens: np.ndarray) -> str:
        """The colours, node by node, as letters; a question mark for any other token."""
        colour_n = np.asarray(tokens)[self.answer()] - COLOURS
        return "".join("?" if colour < 0 else chr(ord("a") + colour) for colour in colour_n)

    def problem(self, tokens: np.ndarray) -> str:
        """The graph in DIMACS format."""
        i_L, j_L = self.pairs
        edges = np.flatnonzero((i_L != j_L) & (np.asarray(tokens) == EDGE))
        return "\n".join([f"p edge {self.nodes} {len(edges)}", *(f"e {i_L[at] + 1} {j_L[at] + 1}" for at in edges)])
