"""Grade-school maths: a tiny map on synthetic problems at small scale, TinyGSM and GSM8K at the paper's."""

from dbtm.service.reproduction import results
from dbtm.service.reproduction.entries.rivals import missing_note, trained
from dbtm.service.reproduction.entry import Entry, Found, Plan, Size
from dbtm.service.reproduction.steps.programs import Answered, WrittenOne
from dbtm.service.reproduction.steps.training import Problems, Train
from dbtm.service.reproduction.table import Rows, Table
from dbtm.viz.reproduction import draw_texts

BUDGETS = (1, 2, 4, 8, 16, 32, 64)
_ROUNDS = (1, 10, 20, 31)
_METHOD = ("method.quality.width=32", "method.quality.depth=1", "method.quality.heads=4")
TAG = "synthetic problems"
DIFFERS = (
    "Ours is a map of {width} channels trained here for {steps:,} steps of 16 on synthetic word problems (V = 512, "
    "L = 96) and answers {n} held-out synthetic ones, which are much easier than GSM8K; the paper's has about 165M "
    "parameters, 250,000 steps of 512 on TinyGSM, and answers GSM8K's 1,319. So few steps show that the "
    "commands work, not how good the method is."
)


def tiny(size: Size) -> Train:
    """The recipe `gsm-small` at a size that a CPU trains in minutes."""
    changes = (
        "task.synthetic=1",
        f"model.width={size.width}",
        f"model.depth={1 if size.name == 'trial' else 3}",
        "model.heads=4",
        *_METHOD,
        "train.batch=16",
        "train.precision=fp32",
        "train.compile=false",
        "train.graph=false",
        f"train.steps={size.gsm_steps}",
        f"optim.warmup={min(100, size.gsm_steps)}",
        "optim.ema=0.99",
        "task.evaluate_n=8",
    )
    length = 160 if size.name == "trial" else 96
    data = Problems(examples=200 if size.name == "trial" else 2_000, length=length, seconds=3)
    return Train(recipe="gsm-small", changes=changes, data=data, seconds=100)


def answered(size: Size) -> Answered:
    budgets = size.budgets if size.name == "trial" else BUDGETS
    return Answered(model=tiny(size), budgets=budgets, n=size.problems, seconds=60)


def paper_run() -> Train:
    return Train(recipe="tinygsm", data="tinygsm", small=False, evaluations=10)


def paper_answers(budgets: tuple[int, ...]) -> Answered:
    return Answered(model=paper_run(), budgets=budgets, n=None, data="gsm8k")


def standing_rates() -> dict[int, float]:
    """Our `gsm-small` on GSM8K's test set, by budget."""
    return {row["nfe"]: 100 * row["rate"] for row in results.read("gsm")["gsm8k"]["rows"]}


def _differs(size: Size) -> str:
    return DIFFERS.format(width=size.width, steps=size.gsm_steps, n=size.problems)


# -- tab:gsm8k-nfe-ril -------------------------------------------------------------------------------------------------


def _budgets_small(size: Size) -> Plan:
    rivals, missing = trained(("FMLM+",), tiny(size), _METHOD, size.gsm_steps // 4)
    steps = {"DBTM + ril": answered(size)}
    for name, run in rivals.items():
        steps[name] = Answered(model=run, budgets=steps["DBTM + ril"].budgets, n=size.problems, seconds=60)
    return Plan(steps, _budgets_table, _differs(size), TAG, notes=missing_note(missing))


def _budgets_paper() -> Plan:
    note = "FMLM+ is quoted by the paper from a published checkpoint"
    return Plan({"DBTM + ril": paper_answers(BUDGETS)}, _budgets_table, notes=(note,))


def _budgets_table(found: Found) -> Table:
    rows: Rows = {name: {f"{row['budget']} NFE": row["rate"] for row in each["rows"]} for name, each in found.items()}
    return Table.of(rows, "% correct")


def _budgets_standing() -> Table:
    return Table.of({"DBTM + ril": {f"{nfe} NFE": rate for nfe, rate in standing_rates().items()}}, "% correct")


# -- fig:refine_sample_gsm8k_* -----------------------------------------------------------------------------------------


def _written(number: int):
    def small(size: Size) -> Plan:
        step = WrittenOne(model=tiny(size), number=number, nfe=8 if size.name == "trial" else 32, seconds=10)
        return Plan({"one": step}, _written_table, _differs(size), TAG, draw=_draw_written, texts=_written_texts)

    def paper() -> Plan:
        step = WrittenOne(model=paper_run(), number=number, kappa=0.8)
        return Plan({"one": step}, _written_table, draw=_draw_written, texts=_written_texts)

    return small, paper


def _written_table(found: Found) -> Table:
    one = found["one"]
    cells: dict = {}
    for number in _ROUNDS:
        state = one["rounds"][min(number, len(one["rounds"])) - 1]
        cells[f"round {number}"] = f"{sum(state['committed'])}/{one['free']}"
    verdict = {True: "yes", False: "no", None: "not run"}[one["correct"]]
    return Table.of({"tokens committed": cells, "answer is right": {"round 31": verdict}})


def _written_texts(found: Found) -> dict[str, str]:
    one = found["one"]
    return {"question": one["question"], f"program after {one['nfe']} evaluations": one["program"]}


def _draw_written(found: Found):
    one = found["one"]
    last = len(one["rounds"])
    numbers = [number for number in _ROUNDS if number < last] + [last]
    return draw_texts(
        {f"round {n} of {last}": (one["rounds"][n - 1]["pieces"], one["rounds"][n - 1]["committed"]) for n in numbers}
    )


ENTRIES = (
    Entry(
        "tab:gsm8k-nfe-ril",
        "Word problems answered by budget of network evaluations",
        _budgets_small,
        _budgets_paper,
        _budgets_standing,
        ("gsm",),
        "gsm-small, 30M",
    ),
    Entry("fig:refine_sample_gsm8k_1", "A program written round by round", *_written(0)),
    Entry("fig:refine_sample_gsm8k_2", "Another program written round by round", *_written(1)),
)
