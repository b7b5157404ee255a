"""Sudoku: the packaged model on puzzles like the paper's, and 4 x 4 grids where something has to be trained."""

from dbtm.service.reproduction import results
from dbtm.service.reproduction.entries import maths
from dbtm.service.reproduction.entries.rivals import missing_note, trained
from dbtm.service.reproduction.entry import Entry, Found, Plan, Size
from dbtm.service.reproduction.steps.puzzles import Solved, SolvedOne
from dbtm.service.reproduction.steps.training import Train
from dbtm.service.reproduction.table import Rows, Table
from dbtm.viz.reproduction import draw_curves, draw_grids

CLUES = {"easy": 40, "medium": 35, "hard": 30}
MINI_CLUES = {"easy": 7, "medium": 6, "hard": 5}
KAPPAS = (0.5, 0.7, 0.9, 0.99, 0.999)
BUDGETS = (1, 2, 4, 8, 16)
RIVALS = ("AR", "MDLM", "Duo", "CANDI", "FLM", "S-FLM", "FMLM+")
PACKAGED = (
    "Ours is the packaged model (6.9M parameters, 20 minutes on one H200, all difficulties in one model) on {n} "
    "puzzles per difficulty; the paper's has 30.6M parameters, trained for up to 200,000 steps, on 2,000 puzzles."
)
_NO_RIL = ("method.ril.weight=0", "method.loss.interpolant_fraction=1")


def mini(size: Size, *changes: str, seconds: float = 75) -> Train:
    """4 x 4 grids on a CPU."""
    quick = (f"train.steps={size.sudoku_steps}", f"optim.warmup={min(50, size.sudoku_steps)}", "task.evaluate_n=64")
    few = ("task.pool=200",) if size.name == "trial" else ()
    return Train(recipe="sudoku-mini", changes=(*quick, *few, *changes), evaluations=6, seconds=seconds)


def paper_run(*changes: str) -> Train:
    return Train(recipe="sudoku-paper", changes=changes, small=False, evaluations=20)


# -- tab:sudoku-threshold-sweep ----------------------------------------------------------------------------------------


def _sweep(model: Train | str, n: int, seconds: float = 400) -> Solved:
    options = (("scorer", "quality"),)
    return Solved(
        model=model, clues=(*CLUES.values(),), n=n, budgets=BUDGETS, kappas=KAPPAS, options=options, seconds=seconds
    )


def _sweep_table(found: Found) -> Table:
    rows: Rows = {}
    names = {clues: name for name, clues in CLUES.items()}
    for row in found["solved"]["rows"]:
        for kappa, rate in row["rates"].items():
            rows.setdefault(f"{row['budget']} NFE", {})[f"{names[row['clues']]} {float(kappa):g}"] = rate
    return Table.of({name: rows[name] for name in sorted(rows, key=lambda n: int(n.split()[0]))}, "% solved")


def _sweep_small(size: Size) -> Plan:
    return Plan(
        {"solved": _sweep("sudoku", size.puzzles)}, _sweep_table, PACKAGED.format(n=size.puzzles), "packaged model"
    )


def _sweep_paper() -> Plan:
    differs = "The paper's settings and 2,000 puzzles per difficulty, from one model trained on all three."
    return Plan({"solved": _sweep(paper_run(), 2_000)}, _sweep_table, differs)


def _sweep_standing() -> Table:
    rows: Rows = {}
    names = {clues: name for name, clues in CLUES.items()}
    for row in results.read("sudoku-sweep")["rows"]:
        if row["clues"] in names and row["scorer"] == "quality":
            kappas = KAPPAS if row["nfe"] == 1 else (row["kappa"],)
            for kappa in kappas:
                rows.setdefault(f"{row['nfe']} NFE", {})[f"{names[row['clues']]} {kappa:g}"] = 100 * row["rate"]
    return Table.of(rows, "% solved")


# -- tab:reasoning-results ---------------------------------------------------------------------------------------------


def _reasoning_small(size: Size) -> Plan:
    own = mini(size)
    rivals, missing = trained(RIVALS, own, (), size.sudoku_steps // 4)
    steps: dict = {
        "packaged": Solved(model="sudoku", clues=(*CLUES.values(),), n=size.puzzles, budgets=(4, 16), seconds=60),
        "mini": Solved(model=own, clues=(*MINI_CLUES.values(),), n=4 * size.puzzles, budgets=(4, 16), seconds=20),
        "answers": maths.answered(size),
    }
    for name, run in rivals.items():
        budgets = () if run.method == "ar" else (16,)
        steps[name] = Solved(model=run, clues=(*MINI_CLUES.values(),), n=4 * size.puzzles, budgets=budgets, seconds=20)
    differs = (
        PACKAGED.format(n=size.puzzles) + " Other methods are trained here on 4 x 4 grids with "
        f"{MINI_CLUES['easy']}, {MINI_CLUES['medium']} and {MINI_CLUES['hard']} clues ({size.sudoku_steps} steps each) "
        "and have separate rows; word problems are synthetic."
    )
    return Plan(steps, _reasoning_table, differs, "small models", notes=missing_note(missing))


def _reasoning_table(found: Found) -> Table:
    rows: Rows = {}
    for name, result in found.items():
        clues = {value: key for key, value in (CLUES if name in ("packaged", "paper") else MINI_CLUES).items()}
        for row in result["rows"] if name not in ("answers", "gsm8k") else ():
            title = _reasoning_row(name, row["budget"])
            rows.setdefault(title, {})[clues[row["clues"]]] = next(iter(row["rates"].values()))
    for row in found.get("gsm8k", {"rows": ()})["rows"]:
        rows.setdefault(f"DBTM + ril, {row['budget']} NFE", {})["GSM8K"] = row["rate"]
    for row in found.get("answers", {"rows": ()})["rows"]:
        if row["budget"] in (1, 32):
            rows[f"synthetic word problems: DBTM, {row['budget']} NFE"] = {"GSM8K": row["rate"]}
    return Table.of(rows, "% solved")


def _reasoning_row(name: str, budget: int) -> str:
    if name in ("packaged", "paper"):
        return f"DBTM + ril, {budget} NFE"
    who = "DBTM + ril" if name == "mini" else name
    return f"4 x 4: {who}, {f'{budget} NFE' if budget else 'one NFE per token'}"


def _reasoning_paper() -> Plan:
    solved = Solved(
        model=paper_run(),
        clues=(*CLUES.values(),),
        n=2_000,
        budgets=(4, 16),
        kappas=(0.999,),
        options=(("scorer", "quality"),),
    )
    note = "the paper quotes the other methods' numbers; sudoku-mdlm, tinygsm-mdlm and others train them as published"
    return Plan({"paper": solved, "gsm8k": maths.paper_answers((1, 32))}, _reasoning_table, notes=(note,))


def _reasoning_standing() -> Table:
    rows: Rows = {}
    names = {clues: name for name, clues in CLUES.items()}
    for row in results.read("sudoku")["rows"]:
        if row["nfe"] in (4, 16):
            rows.setdefault(f"DBTM + ril, {row['nfe']} NFE", {})[names[row["clues"]]] = 100 * row["rate"]
    for nfe, rate in maths.standing_rates().items():
        if nfe in (1, 32):
            rows.setdefault(f"DBTM + ril, {nfe} NFE", {})["GSM8K"] = rate
    return Table.of(rows, "% solved")


# -- fig:sudoku-solve-acc ----------------------------------------------------------------------------------------------

_WITH, _WITHOUT = "with ril", "without ril"


def _accuracy(found: Found) -> Table:
    rows: Rows = {}
    for name in (_WITH, _WITHOUT):
        for point in found[name]["curve"]:
            rows.setdefault(f"{name}, 4 NFE", {})[f"step {point['step']}"] = 100 * point["solved_4"]
    last = [100 * found[name]["curve"][-1]["solved_4"] for name in (_WITH, _WITHOUT)]
    claim = f"{last[0]:.1f} % against {last[1]:.1f} % at the end"
    return Table.of({"with ril against without, at 4 NFE": {"claim": claim}, **rows}, "% solved")


def _draw_accuracy(found: Found):
    curves = {
        name: ([p["step"] for p in found[name]["curve"]], [100 * p["solved_4"] for p in found[name]["curve"]])
        for name in (_WITH, _WITHOUT)
    }
    return draw_curves({"held-out puzzles solved at 4 NFE": curves}, "training steps", "% solved")


def _accuracy_small(size: Size) -> Plan:
    steps = {_WITH: mini(size), _WITHOUT: mini(size, *_NO_RIL, seconds=40)}
    differs = (
        f"Ours is the recipe sudoku-mini: 4 x 4 grids with 5 clues, {size.sudoku_steps} steps of 64, our optimizer and "
        "network; the paper's is 9 x 9, up to 200,000 steps of 256. Equal steps, not equal time: a step with ril costs "
        "more."
    )
    return Plan(steps, _accuracy, differs, "4 x 4 grids", draw=_draw_accuracy)


def _accuracy_paper() -> Plan:
    steps = {_WITH: paper_run(), _WITHOUT: paper_run("method.ril.weight=0")}
    return Plan(
        steps, _accuracy, "Difficulties are trained together; the curve is that of 30 clues.", draw=_draw_accuracy
    )


def _accuracy_standing() -> Table:
    arms = {arm["arm"]: arm["curve"][-1] for arm in results.read("sudoku-ablations")["arms"]}
    with_, without = 100 * arms["all of it"]["solved_4"], 100 * arms["no ril"]["solved_4"]
    claim = f"{with_:.1f} % against {without:.1f} % after 9 minutes of an eighth of an H200 each (9 x 9, 30 clues)"
    return Table.of({"with ril against without, at 4 NFE": {"claim": claim}})


# -- fig:sudoku-example ------------------------------------------------------------------------------------------------


def _example(size: Size) -> Plan:
    differs = "A puzzle of ours with 22 clues, solved by the packaged model; the paper's has 30 clues."
    return Plan({"one": SolvedOne(seconds=5)}, _example_table, differs, "packaged model", draw=_draw_example)


def _example_table(found: Found) -> Table:
    one = found["one"]
    free = [i for i, clue in enumerate(one["puzzle"]) if not clue]
    rows: Rows = {"network evaluations": {"a hard puzzle": one["nfe"]}}
    for number, state in enumerate(one["rounds"], 1):
        committed = sum(state["committed"][i] for i in free)
        rows[f"round {number}: cells committed"] = {"a hard puzzle": f"{committed} of {len(free)}"}
    rows["solved"] = {"a hard puzzle": "yes" if one["solved"] else "no"}
    return Table.of(rows)


def _draw_example(found: Found):
    return draw_grids(found["one"]["puzzle"], found["one"]["rounds"])


ENTRIES = (
    Entry(
        "tab:reasoning-results",
        "Sudoku solved and GSM8K answered, against autoregression, diffusion and flow maps",
        _reasoning_small,
        _reasoning_paper,
        _reasoning_standing,
        ("sudoku", "gsm"),
        "packaged 6.9M model; gsm-small",
    ),
    Entry(
        "fig:sudoku-solve-acc",
        "Sudoku solved at 4 NFE over training, with and without refinement in the loop",
        _accuracy_small,
        _accuracy_paper,
        _accuracy_standing,
        ("sudoku-ablations",),
        "our recipe",
    ),
    Entry(
        "tab:sudoku-threshold-sweep",
        "Sudoku solved by budget and commit threshold, at three difficulties",
        _sweep_small,
        _sweep_paper,
        _sweep_standing,
        ("sudoku-sweep",),
        "packaged 6.9M model",
    ),
    Entry("fig:sudoku-example", "One hard Sudoku, round by round", _example),
)
