"""The README's moving picture: a Sudoku and a text as they are refined, and noise carried to the simplex's vertices.

    python benchmarks/picture.py            writes docs/refine.svg

Everything in it is computed: the Sudoku and the text by the packaged models, the paths by the exact flow.
"""

from html import escape
from pathlib import Path

import numpy as np

from dbtm.core.atomic import write_bytes
from dbtm.service.generation import InfillRequest, infill
from dbtm.service.solving import SolveRequest, solve
from dbtm.tasks.sudoku.puzzle import parse
from dbtm.theory.flow import trajectories
from dbtm.viz.spell import speller_of
from dbtm.viz.theory.style import to_plane
from dbtm.viz.token_trace import sample_of

OUT = Path(__file__).parents[1] / "docs" / "refine.svg"
PUZZLE = "850002400720000009004000000000107002305000900040000000000080070017000000000036040"
TEXT = ("The town is on the", None, " of the river, and was founded in", None, " by")
P = (0.5, 0.3, 0.2)
SECONDS = 8.0  # of the whole loop
ROWS = 6  # lines of the text that are shown
HOLD = 0.35  # share of it in which the last round stays
STYLE = """
svg { font-family: ui-sans-serif, system-ui, sans-serif; --ink: #1f2430; --soft: #6b7280; --line: #cfd4dc;
      --own: #0077a8; --open: #8e44ad; --paper: #ffffff; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e8eaf0; --soft: #9aa3b2; --line: #3b4252; --own: #4fc3f7; --open: #d7a3f0; --paper: #161a22; } }
.paper { fill: var(--paper); } .title { fill: var(--ink); font-size: 15px; font-weight: 600; }
.note { fill: var(--soft); font-size: 12px; } .line { stroke: var(--line); }
.thick { stroke: var(--soft); stroke-width: 1.6; }
.given { fill: var(--ink); } .done { fill: var(--own); font-weight: 600; } .open { fill: var(--open); opacity: .8; }
.cell { font-size: 17px; text-anchor: middle; } .word { font-size: 14px; font-family: ui-monospace, monospace; }
.edge { fill: none; stroke: var(--line); stroke-width: 1.4; }
"""


def frames(groups: list[str]) -> str:
    """Groups of elements that are shown one after the other, the last one longest."""
    n = len(groups)
    starts = [i * (1 - HOLD) / max(1, n - 1) for i in range(n)] + [1.0]
    out = []
    for i, group in enumerate(groups):
        values, times = ("1;0", (0, starts[1])) if i == 0 else ("0;1;0", (0, starts[i], starts[i + 1]))
        if i == n - 1:
            values, times = "0;1", (0, starts[i])
        keys = ";".join(f"{t:.3f}" for t in times)
        animation = f'<animate attributeName="opacity" values="{values}" keyTimes="{keys}" calcMode="discrete"'
        out.append(f'<g opacity="{int(i == n - 1)}">{group}{animation} dur="{SECONDS}s" repeatCount="indefinite"/></g>')
    return "".join(out)


def sudoku(x: float, y: float, size: float) -> str:
    """The grid, round by round."""
    result = solve(SolveRequest(puzzle_C=parse(PUZZLE), options={"nfe": 4}))
    step = size / 9
    lines = "".join(
        f'<path class="{"thick" if i % 3 == 0 else "line"}" d="M{x} {y + i * step}h{size}M{x + i * step} {y}v{size}"/>'
        for i in range(10)
    )
    groups = []
    for number, state in enumerate([None, *result.rounds]):
        cells = []
        for cell in range(81):
            row, column = divmod(cell, 9)
            clue = result.puzzle_C[cell]
            digit = clue if clue or state is None else state.values_C[cell]
            if not digit:
                continue
            done = state is not None and (state.committed_C is None or state.committed_C[cell])
            kind = "given" if clue else "done" if done else "open"
            at = f'x="{x + (column + 0.5) * step:.1f}" y="{y + (row + 0.5) * step + 6:.1f}"'
            cells.append(f'<text class="cell {kind}" {at}>{digit}</text>')
        note = "22 clues" if number == 0 else f"after {number} network evaluation{'s' if number > 1 else ''}"
        groups.append(f'<text class="note" x="{x}" y="{y + size + 20}">{note}</text>' + "".join(cells))
    return f'<text class="title" x="{x}" y="{y - 14}">A Sudoku</text>{lines}{frames(groups)}'


def text(x: float, y: float, width: int) -> str:
    """A text whose holes are filled, round by round."""
    options = {"nfe": 4}
    result = infill(InfillRequest(checkpoint="text", parts=TEXT, hole=4, n=1, seed=3, options=options, trace=True))
    sample = sample_of(result.trace, 0, speller_of(result.task), result.task.vocab)
    groups = []
    for number, state in enumerate(sample.settled_states(), 1):
        words, column, row = [], 0, 0
        for part, given, committed in zip(state.parts_L, sample.given_L, state.committed_L, strict=True):
            shown = part.replace("\n", " ")
            if column + len(shown) > width:
                column, row, shown = 0, row + 1, shown.lstrip()
            if row > ROWS - 1:
                break
            kind = "given" if given else "done" if committed else "open"
            at = f'x="{x + 8.4 * column:.1f}" y="{y + 22 * row:.1f}"'
            words.append(f'<text class="word {kind}" xml:space="preserve" {at}>{escape(shown)}</text>')
            column += len(shown)
        note = f"after {number} network evaluation{'s' if number > 1 else ''}"
        groups.append(f'<text class="note" x="{x}" y="{y + 262}">{note}</text>' + "".join(words))
    return f'<text class="title" x="{x}" y="{y - 42}">A text with holes</text>{frames(groups)}'


def simplex(x: float, y: float, size: float, n: int = 60) -> str:
    """Noise carried to the vertices by the exact autonomous flow."""
    corners = to_plane(np.eye(3))
    low, high = corners.min(0), corners.max(0)
    scale = size / (high - low).max()
    x0 = np.random.default_rng(4).standard_normal((20 * n, 3))
    flat = to_plane(x0)
    inside = ((flat > low - 0.06) & (flat < high + 0.1)).all(-1)  # starts that the panel has room for
    paths = trajectories(x0[inside][:n], P)

    def place(points: np.ndarray) -> np.ndarray:
        flat = to_plane(points)
        return np.stack([x + (flat[:, 0] - low[0]) * scale, y + size * 0.87 - (flat[:, 1] - low[1]) * scale], axis=1)

    colours = ("#0072b2", "#d55e00", "#009e73")
    edge = " ".join(f"{a:.1f},{b:.1f}" for a, b in place(np.eye(3)))
    out = [f'<polygon class="edge" points="{edge}"/>']
    for path in paths:
        points = place(path[np.linspace(0, len(path) - 1, 14).astype(int)])
        colour = colours[int(path[-1].argmax())]
        keys = [*np.linspace(0.03, 1 - HOLD, len(points)), 1.0]
        times = ";".join(f"{key:.3f}" for key in (0, *keys[1:]))
        moves = ""
        for axis, name in enumerate(("cx", "cy")):
            values = ";".join(f"{v:.0f}" for v in (*points[:, axis], points[-1, axis]))
            moves += f'<animate attributeName="{name}" values="{values}" keyTimes="{times}" dur="{SECONDS}s" '
            moves += 'repeatCount="indefinite"/>'
        end = points[-1]
        out.append(
            f'<circle cx="{end[0]:.0f}" cy="{end[1]:.0f}" r="3.4" fill="{colour}" opacity=".85">{moves}</circle>'
        )
    note = "noise, carried by the exact flow to one token each"
    title = f'<text class="title" x="{x}" y="{y - 34}">The map on the simplex</text>'
    return f'{title}{"".join(out)}<text class="note" x="{x}" y="{y + 300}">{note}</text>'


def main() -> None:
    body = sudoku(24, 50, 270) + text(330, 78, 38) + simplex(690, 70, 240)
    label = "A Sudoku and a text refined round by round, and noise carried to the vertices of the simplex"
    size = 'viewBox="0 0 960 350" width="960" height="350"'
    paper = '<rect class="paper" width="960" height="350" rx="12"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">'
    svg = f"{head}<style>{STYLE}</style>{paper}{body}</svg>\n"
    write_bytes(OUT, svg.encode())
    print(f"{OUT.name}: {len(svg) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
