"""Figures of the theory: exact fields on the simplex, the same at every scale."""

from dbtm.service.reproduction import results
from dbtm.service.reproduction.entry import Entry, Found, Plan, Size
from dbtm.service.reproduction.steps.plain import TheoryFigure
from dbtm.service.reproduction.table import Rows, Table


def simplex_rows(numbers: dict) -> Rows:
    """How much mass the exact transport map takes to each vertex."""
    mass = ", ".join(f"{share:.3f}" for share in numbers["pushforward"])
    target = ", ".join(f"{share:g}" for share in numbers["target"])
    row = "top: field and transport map on the 2-simplex"
    return {row: {"claim": f"{numbers['starts']:,} starts reach the vertices in shares {mass}; target {target}"}}


def _dynamics(found: Found) -> Table:
    return Table.of(_dynamics_rows(found["figure"]["numbers"]))


def _dynamics_rows(numbers: dict) -> Rows:
    at, ratio = numbers["attractors_at"], numbers["path_over_chord"]
    early, late = at["0.3"], at["0.8"]
    corner = min(max(point) for point in late)
    where = ", ".join(f"{x:.2f}" for x in early[0])
    return {
        "B: attractors of the time-dependent flow at t = 0.3": {"claim": f"{len(early)}, at ({where})"},
        "C: attractors of the time-dependent flow at t = 0.8": {
            "claim": f"{len(late)}, within {1 - corner:.1g} of the vertices"
        },
        "E, G: mean path over chord, autonomous": {"claim": round(ratio["autonomous_mean"], 4)},
        "E, G: mean path over chord, time-dependent": {"claim": round(ratio["time_dependent_mean"], 4)},
        "share of starts where the autonomous path is straighter": {
            "claim": round(ratio["share_autonomous_straighter"], 4)
        },
    }


def _basins_rows(numbers: dict) -> Rows:
    p = (0.4, 0.38, 0.2, 0.02)
    return {
        f"attractor of the vertex with p = {share:g}": {"appears at t": round(time, 4)}
        for share, time in zip(p, numbers["birth_times"], strict=True)
    }


def _births_rows(numbers: dict) -> Rows:
    error = max(each["max_error_m_of_the_proof"] for each in numbers["formula"].values())
    stated = max(each["max_error_m_of_the_statement"] for each in numbers["formula"].values())
    draws = (time for name, rows in numbers["earliest"].items() if "dirichlet" in name for row in rows for time in row)
    falls = all(
        later >= earlier
        for each in numbers["order"].values()
        for earlier, later in zip(each["t"], each["t"][1:], strict=False)
    )
    return {
        "A: largest error of the formula for t_j, V up to 100": {
            "claim": f"{error:.3f} with m as in the proof, {stated:.3f} as in the statement"
        },
        "B: earliest non-dominant attractor, V up to 5000": {"claim": f"t = {min(draws):.4f}"},
        "C: larger p_j form earlier": {"claim": "yes" if falls else "not always"},
    }


def _exact(label: str, caption: str, figure: str, rows, seconds: float) -> Entry:
    def plan(size: Size) -> Plan:
        step = TheoryFigure(figure=figure, seconds=seconds)
        return Plan({"figure": step}, lambda found: Table.of(rows(found["figure"]["numbers"])), files=("figure",))

    return Entry(
        label,
        caption,
        plan,
        standing=lambda: Table.of(rows(results.read(f"theory/{figure}")["numbers"])),
        sources=(f"theory/{figure}",),
    )


ENTRIES = (
    _exact(
        "fig:flow-dynamics",
        "The autonomous against the time-dependent flow on the 2-simplex, and t* by V and sigma",
        "dynamics",
        _dynamics_rows,
        20,
    ),
    _exact(
        "fig:basins",
        "Attractors of the time-dependent flow on four vertices and their basins",
        "basins",
        _basins_rows,
        20,
    ),
    _exact(
        "fig:empirical", "When the attractors appear: formula, earliest time, order by p", "births", _births_rows, 30
    ),
)
