"""What each ingredient is worth: arms that differ in one of them, trained side by side for the same time.

    python benchmarks/ablations.py run sudoku --minutes 8 --at-once 4 --out runs/ablations
    python benchmarks/ablations.py report sudoku --out runs/ablations --json results/sudoku-ablations.json

    python benchmarks/ablations.py run text --data text4k --minutes 8.4 --at-once 15 --out runs/text
    python benchmarks/ablations.py judge text --out runs/text                      # may be on another machine
    python benchmarks/ablations.py report text --out runs/text --json results/text-ablations.json

Arms of a round share the GPU in equal parts: they take turns, or, where its multi-process service runs
(`nvidia-cuda-mps-control -d`), each is given 1 / at-once of the processors. So let --at-once divide the number of arms.
`report` collects the curves and draws them beside the JSON, as an SVG. Arms of text also draw samples when they have
been trained; `judge` has them judged, and the figure then shows perplexity against entropy.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from dbtm.core.device import pick_device
from dbtm.evals.provenance import made
from dbtm.viz.theory.style import INK, LINES, RC, VERTEX_COLOURS, new_figure, panel

SAMPLES, JUDGED, HOW = "samples.jsonl.gz", "judged.json", "how.json"


@dataclass(frozen=True)
class Arm:
    """A name, what it tells, and how it differs from the base."""

    name: str
    question: str
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A recipe, what all its arms share, the arms, and the measure that the figure shows."""

    recipe: str
    shared: tuple[str, ...]
    arms: tuple[Arm, ...]
    measure: str
    evaluation: str = ""  # what the curves are measured on
    samples: tuple[str, ...] = ()  # options of `dbtm eval text` that draws them


STUDIES = {
    "sudoku": Study(
        "sudoku",
        ("train.batch=256", "train.evaluate_every=200", "train.checkpoint_every=1000", "task.pool=25000"),
        (
            Arm("all of it", "the recipe"),
            Arm("no transport", "the paper's transport term", ("method.loss.transport=0",)),
            Arm("no ril", "refinement in the loop", ("method.ril.weight=0", "method.loss.interpolant_fraction=1")),
            Arm("no loops", "looped depth: 8 blocks applied once", ("model.loops=1",)),
            Arm("no symmetries", "augmentation by the symmetries of the grid", ("task.augment=false",)),
            Arm("AdamW", "Muon on the matrices", ("optim.name=adamw", "optim.lr=3e-4")),
            Arm("self-conditioning", "T of the round before as a further input", ("model.self_condition=true",)),
            Arm("all rows in every round", "half of the rows leave after round 1", ("method.ril.later_fraction=1",)),
        ),
        "solved_4",
        "the moving average on 256 held-out puzzles with 30 clues, kappa 0.9, quality scorer",
    ),
    "text": Study(
        "text-small",
        ("train.batch=128", "train.evaluate_every=400", "train.checkpoint_every=100000"),
        (
            Arm("all of it", "the recipe"),
            Arm("another seed", "how far two runs of the same are apart", ("train.seed=1", "task.seed=1")),
            Arm("no transport", "the paper's transport term", ("method.loss.transport=0",)),
            Arm("anchor 0.60", "anchor time", ("method.path.t_anchor=0.6",)),
            Arm("anchor 0.75", "anchor time", ("method.path.t_anchor=0.75",)),
            Arm("anchor t*", "anchor time: the commitment time of this vocabulary", ("method.path.t_anchor=null",)),
            Arm("anchor 0.90", "anchor time", ("method.path.t_anchor=0.9",)),
            Arm("sigma 0.5", "scale of the noise", ("method.path.sigma=0.5",)),
            Arm("sigma 2", "scale of the noise", ("method.path.sigma=2",)),
            Arm("a = 2", "exponent of the interpolant", ("method.path.a=2",)),
            Arm("no OT", "noise coupled to data by optimal transport", ("method.path.coupling=independent",)),
            Arm("c = 1", "the paper's constant in the weight of transport", ("method.loss.c=1",)),
            Arm("no ril", "rounds supervised by the data, from partly clean texts on", ("method.ril.weight=0",)),
            Arm(
                "ril from noise",
                "rollouts of four rounds, from noise on",
                ("method.ril.context=0", "method.ril.depths=[4]"),
            ),
            Arm(
                "distil",
                "rollouts supervised by a frozen copy from step 300 on",
                (
                    "method.distill.weight=2",
                    "method.distill.start=300",
                    "method.distill.refresh=200",
                    "method.distill.depth=2",
                    "method.distill.scorer=spread",
                    "method.distill.supervise=remaining",
                ),
            ),
        ),
        "entropy_1",
        "256 samples of the moving average; judged: 256 of the last checkpoint",
        ("--n", "256", "--nfe", "1,4,16", "--no-references"),
    ),
    "mini": Study(  # the same on two CPU cores, to try this file out
        "sudoku-mini",
        ("train.evaluate_every=25", "task.pool=2000"),
        (
            Arm("all of it", "the recipe"),
            Arm("no transport", "the paper's transport term", ("method.loss.transport=0",)),
        ),
        "solved_4",
    ),
}


def folder(out: Path, arm: Arm) -> Path:
    return out / arm.name.replace(" ", "-")


def dbtm(*words: str, **options) -> subprocess.Popen:
    """The command line in a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "dbtm", *words], **options)


def start(study: Study, arm: Arm, minutes: float, out: Path, share: float, data: str | None) -> subprocess.Popen:
    """One arm, with its part of the GPU."""
    settings = [word for setting in (*study.shared, *arm.settings) for word in ("--set", setting)]
    words = ["train", study.recipe, "--out", str(folder(out, arm)), "--minutes", str(minutes), *settings]
    words += ["--data", data] if data else []
    environment = {**os.environ, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{100 * share:g}"}
    folder(out, arm).parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder(out, arm)}.log", "w") as log:
        return dbtm(*words, stdout=log, stderr=log, env=environment)


def sample(study: Study, arm: Arm, out: Path, data: str | None) -> subprocess.Popen:
    """Samples of a trained arm, unjudged."""
    words = ["eval", "text", str(folder(out, arm)), "--judge", "none", *study.samples]
    return dbtm(*words, "--save-samples", str(folder(out, arm) / SAMPLES), *(["--data", data] if data else []))


def run(study: Study, wanted: list[str], minutes: float, at_once: int, out: Path, data: str | None) -> None:
    """Rounds of arms; one that fails is named, here and in the report, and the others go on."""
    arms = [arm for arm in study.arms if not wanted or arm.name in wanted]
    out.mkdir(parents=True, exist_ok=True)
    how: dict = {"minutes": minutes, "at_once": at_once, "failed": [], **made(pick_device("auto"))}
    how |= {"data": Path(data).name} if data else {}
    for now in batched(arms, at_once):
        began = time.monotonic()
        training = [(arm, start(study, arm, minutes, out, 1 / at_once, data)) for arm in now]
        how["failed"] += ended(training, began)
        trained = [arm for arm in now if arm.name not in how["failed"]]
        how["failed"] += ended([(arm, sample(study, arm, out, data)) for arm in trained if study.samples], began)
        (out / HOW).write_text(json.dumps(how))


def judge(study: Study, name: str, at_once: int, out: Path) -> None:
    """Have the arms' samples judged; what has been judged stays."""
    waiting = [
        a for a in study.arms if (folder(out, a) / SAMPLES).is_file() and not (folder(out, a) / JUDGED).is_file()
    ]
    for now in batched(waiting, at_once):
        paths = [folder(out, arm) for arm in now]
        words = [("--samples", str(path / SAMPLES), "--judge", name, "--json", str(path / JUDGED)) for path in paths]
        ended([(arm, dbtm("eval", "text", *each)) for arm, each in zip(now, words, strict=True)], time.monotonic())


def ended(running: list[tuple[Arm, subprocess.Popen]], began: float) -> list[str]:
    """Wait for all of them, and name those that failed."""
    failed = []
    for arm, process in running:
        code = process.wait()
        print(f"{arm.name}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
        failed += [arm.name] if code else []
    return failed


def batched(items: list, size: int) -> list[list]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def curve(path: Path) -> list[dict]:
    """The quick evaluations of a run, with the seconds it had trained by then."""
    records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    points, seconds = [], 0.0
    for record in records:
        seconds = record.get("seconds", seconds)
        found = {key.removeprefix("eval/"): value for key, value in record.items() if key.startswith("eval/")}
        if found:
            points.append({"step": record["step"], "seconds": seconds, **found})
    return points


def report(study: Study, out: Path, path: Path) -> None:
    """The JSON of what has been run so far, and the figure."""
    rows = []
    for arm in study.arms:
        if (folder(out, arm) / "metrics.jsonl").is_file():
            row = {
                "arm": arm.name,
                "question": arm.question,
                "settings": arm.settings,
                "curve": curve(folder(out, arm)),
            }
            if (folder(out, arm) / JUDGED).is_file():
                found = json.loads((folder(out, arm) / JUDGED).read_text())
                row |= {"judge": found["judge"], "samples": found["samples"], "judged": found["rows"]}
            rows.append(row)
            print(f"{arm.name:28s} {row['curve'][-1] if row['curve'] else 'no evaluation yet'}")
    if not rows:
        sys.exit(f"{out}: no arm of the study has been run there")
    how = json.loads((out / HOW).read_text()) if (out / HOW).is_file() else {}
    shared = {"recipe": study.recipe, "shared": study.shared, **how}
    document = {**shared, "measure": study.measure, "evaluation": study.evaluation, "arms": rows}
    path.write_text(json.dumps(document, indent=1) + "\n")
    with mpl.rc_context(RC):
        judged = bool(study.samples) and all("judged" in row for row in rows)
        (draw_judged if judged else draw_curves)(document).savefig(path.with_suffix(".svg"))


def draw_curves(document: dict) -> Figure:
    """The measure over the seconds of training, one line an arm."""
    figure = new_figure(6.4, 4.0)
    ax = figure.subplots()
    for i, row in enumerate(document["arms"]):
        if row["curve"]:
            x, y = zip(*((p["seconds"], p[document["measure"]]) for p in row["curve"]), strict=True)
            ax.plot(x, y, LINES[(i // len(VERTEX_COLOURS)) % len(LINES)], color=colour(i), label=row["arm"], lw=1.4)
    ax.set_xlabel("seconds of training on an equal part of one GPU")
    panel(ax, "", document["measure"].replace("_", " at ") + " NFE")
    ax.legend()
    return figure


def draw_judged(document: dict) -> Figure:
    """Perplexity against entropy at every budget, one mark an arm; real text's entropy is the dotted line."""
    figure, arms = new_figure(9.0, 3.6), document["arms"]
    axes = figure.subplots(1, len(arms[0]["judged"]))
    for at, (ax, letter) in enumerate(zip(axes, "ABCDEF")):
        for i, row in enumerate(arms):
            point, mark = row["judged"][at], "osD^"[i // len(VERTEX_COLOURS)]
            ax.plot(point["entropy"], point["perplexity"], mark, color=colour(i), label=row["arm"], ms=5)
        ax.axvline(arms[0]["curve"][-1]["entropy_data"], color=INK, lw=0.7, ls=":")
        ax.set_yscale("log")
        ax.set_xlabel("entropy, nats")
        panel(ax, letter, f"perplexity at {point['settings']['nfe']} NFE")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    return figure


def colour(i: int) -> str:
    return INK if i == 0 else VERTEX_COLOURS[(i - 1) % len(VERTEX_COLOURS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "judge", "report"])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--out", type=Path, default=Path("runs/ablations"))
    parser.add_argument("--arms", nargs="*", default=[], help="names; default: all")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--data", help="prepared set, for text")
    parser.add_argument("--judge", default="smollm2", help="as in dbtm eval text")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    study = STUDIES[given.study]
    unknown = set(given.arms) - {arm.name for arm in study.arms}
    if unknown:
        parser.error(f"--arms: {', '.join(map(repr, sorted(unknown)))} not among {[arm.name for arm in study.arms]}")
    if given.command == "run":
        run(study, given.arms, given.minutes, given.at_once, given.out, given.data)
    if given.command == "judge":
        judge(study, given.judge, given.at_once, given.out)
    report(study, given.out, given.json or given.out / "ablations.json")


if __name__ == "__main__":
    main()
