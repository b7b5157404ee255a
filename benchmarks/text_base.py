"""The long text run: data, a study before it, its two stages in parts, and what it is worth (docs/text-base.md).

    python benchmarks/text_base.py data articles.jsonl.xz more.jsonl.xz
    python benchmarks/text_base.py study                            # variants at a tenth of the length, two seeds
    python benchmarks/text_base.py train --max-seconds 480          # again and again, until all stages are done
    python benchmarks/text_base.py judge
    python benchmarks/text_base.py status

All of it lies in one folder, --out. What has to travel from machine to machine is `packed/` in there: the weights of
each stage so far in 8 bits, in files of at most 16 MiB, with `progress.json`, which says how far the stage is. `train`
goes on from the run's own checkpoint where that is on this machine (bit for bit), else from the packed weights: the
optimizer then starts anew, and the learning rate goes on where it was. `--tiny` does the same on a CPU in seconds.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from dbtm.config import RunConfig

ROOT = Path(__file__).parent.parent
STAGES = ("text-base", "text-base-2")
STUDY_MINUTES = 8.7  # about a tenth of a stage on an H200
BUDGETS, STUDY_BUDGETS = (1, 2, 4, 8, 16), (1, 2, 4, 16)
VOCAB, LENGTH = 8_192, 128
LIMITS = {1: 180, 2: 130, 4: 105, 8: 98, 16: 92}  # perplexity by budget that the run must not exceed (judge smollm2)
NEAR = 0.22  # nats that entropy may be below validation text's
NOISE = {"mean_from": 0, "fresh_noise": True, "repetition_penalty": 0.0}
MEAN = {"mean_from": 2, "mean_budget": 2, "fresh_noise": True, "repetition_penalty": 0.0}
WAYS: dict[str, dict[str, Any]] = {
    "recipe": {},
    "noise": NOISE,
    "noise, same in every round": {**NOISE, "fresh_noise": False},
    "noise, temperature 0.5": {**NOISE, "temperature": 0.5},
    "noise, penalty 0.5": {**NOISE, "repetition_penalty": 0.5},
    "posterior 0.6": {**MEAN, "mean_temperature": 0.6},
    "posterior 0.7": {**MEAN, "mean_temperature": 0.7},
    "posterior 0.8, top 0.95": {**MEAN, "mean_temperature": 0.8, "top_p": 0.95},
    "posterior 0.7, penalty 0.5": {**MEAN, "mean_temperature": 0.7, "repetition_penalty": 0.5},
    "posterior 0.5, penalty 1.5": {**MEAN, "mean_temperature": 0.5, "repetition_penalty": 1.5},
}
"""Ways to sample, by options of the sampler; a map without the posterior term draws from noise alone."""
STUDY_WAYS = ["recipe", "noise", "noise, same in every round", "posterior 0.6", "posterior 0.7"]
TINY = (
    *("model.width=16", "model.heads=2", "model.depth=1", "train.batch=8", "train.steps=4", "optim.warmup=1"),
    *("train.device=cpu", "train.precision=fp32", "train.compile=false", "train.graph=false", "train.log_every=2"),
    *("train.checkpoint_every=100", "train.evaluate_every=0", "task.evaluate_n=2", "task.evaluate_nfe=[1]"),
)
TINY_TEXT = "the {a} river runs past the {b} town, and the {a} bridge of {b} stone is {c} years old.\n"


@dataclass(frozen=True)
class Variant:
    """A name, what it tells, and how it differs from its recipe."""

    name: str
    question: str
    changes: tuple[str, ...] = ()
    recipe: str = STAGES[0]


ROUNDS = (
    *("method.loss.transport=1", "method.loss.anchor=1", "method.loss.boundary=1"),
    *("method.loss.interpolant_fraction=1", "method.loss.boundary_fraction=0.125"),
    *("method.posterior.weight=0", "method.ril.weight=0.5", "method.ril.depths=[1]", "method.ril.context=0.4"),
    *("method.ril.spread=0.5", "sample.mean_from=0", "sample.repetition_penalty=0"),
)
VARIANTS = (
    Variant("base", "the recipe"),
    Variant("rounds", "rounds from partly clean texts, as in `text-ril`, in place of the posterior term", ROUNDS),
    Variant("convolution", "a short convolution on queries, keys and values", ("model.conv_width=5",)),
    Variant("no loops", "blocks applied once, in half the time per step", ("model.loops=1",)),
    Variant("47M", "12 blocks, applied once: too large for the package", ("model.depth=12", "model.loops=1")),
    Variant("random contexts", "contexts that the sampler does not visit", ("method.posterior.spread=0",)),
    Variant("late contexts", "contexts with most positions known", ("method.posterior.late=2.5",)),
    Variant("EMA 0.9999", "weight averaging", ("optim.ema=0.9999",)),
    Variant("batch 512", "rows per step", ("train.batch=512",)),
    Variant("reflow", "the second stage", recipe=STAGES[1]),
    Variant("reflow 16", "sixteen rounds in one", ("method.reflow.rounds=16",), STAGES[1]),
    Variant("reflow, noise alone", "no states between", ("method.reflow.states=1",), STAGES[1]),
    Variant("reflow, temperature 1", "the temperature of its draws", ("method.reflow.temperature=1",), STAGES[1]),
)
REFERENCES = ("real", "shuffled")


# -- data --------------------------------------------------------------------------------------------------------------


def data(given: argparse.Namespace) -> None:
    """Prepare text, once; with the tokenizer of the packed weights, where there are some."""
    if (given.data / "manifest.json").is_file():
        print(f"{given.data} is there already")
        return
    given.data.parent.mkdir(parents=True, exist_ok=True)
    names, length, words = given.files, LENGTH, f"train:{VOCAB}"
    if given.tiny:
        names, length, words = [str(tiny_text(given))], 16, "train:300"
    packed = [path for path in (packed_folder(given, stage) / "tokenizer.json" for stage in STAGES) if path.is_file()]
    words = str(packed[-1]) if packed else words
    options = ["--tokenizer", words, "--length", str(length), "--out", str(given.data)]
    options += ["--validation", "0.2", "--workers", "1"] if given.tiny else []
    done = subprocess.run([sys.executable, "-m", "dbtm", "data", "text", *names, *options])
    if done.returncode:
        sys.exit(done.returncode)


def tiny_text(given: argparse.Namespace) -> Path:
    """The first pieces of the files, or some sentences where no file is named."""
    from dbtm.tasks.text import sources

    path = given.out / "tiny.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for name in given.files:
            for _, piece in zip(range(200), sources.pieces(name, lambda n: None, None, "line")):
                file.write(" ".join(piece.text[:2_000].split()) + "\n")
        for i in range(0 if given.files else 300):
            file.write(TINY_TEXT.format(a="abcdefg"[i % 7] * 3, b="hijkl"[i % 5] * 2, c=i))
    return path


# -- the run, in parts -------------------------------------------------------------------------------------------------


def packed_folder(given: argparse.Namespace, stage: str) -> Path:
    return given.out / "packed" / stage


def progress_of(given: argparse.Namespace, stage: str) -> dict[str, Any]:
    """How far a stage is: steps `done` of `steps`, the step at which its newest run began, and its parts."""
    path = packed_folder(given, stage) / "progress.json"
    return json.loads(path.read_text()) if path.is_file() else {"done": 0, "steps": None, "start": 0, "parts": []}


def finished(progress: dict[str, Any]) -> bool:
    return progress["done"] == progress["steps"]


def rest(config: RunConfig, done: int) -> RunConfig:
    """The run that makes the steps of `config` from `done` on: the learning rate goes on where it was, after a short
    warm-up, with other noise and another order of the texts.
    """
    if not done:
        return config
    optim, left = config.optim, config.train.steps - done
    if optim.schedule == "wsd":
        decay = max(1, round(optim.decay_fraction * config.train.steps))
        now = min(1.0, left / decay)
        optim = replace(optim, lr=now * optim.lr, muon_lr=now * optim.muon_lr, decay_fraction=min(1.0, decay / left))
    optim = replace(optim, warmup=min(optim.warmup, 100, left))
    task = replace(config.task, seed=done)  # type: ignore[type-var]
    return replace(
        config, optim=optim, task=task, train=replace(config.train, steps=left, seed=config.train.seed + done)
    )


def train(given: argparse.Namespace) -> None:
    """The next part of the first stage that is not finished, or of --stage; packed when it ends."""
    stages = [given.stage] if given.stage else STAGES
    stage = next((stage for stage in stages if not finished(progress_of(given, stage))), None)
    if stage is None:
        print("all stages are finished")
        return
    number = STAGES.index(stage)
    if number and not finished(progress_of(given, STAGES[number - 1])):
        sys.exit(f"{stage} starts from the weights of {STAGES[number - 1]}, which is not finished")
    part(given, stage, packed_folder(given, STAGES[number - 1]) if number else None)
    status(given)


def part(given: argparse.Namespace, stage: str, before: Path | None) -> None:
    """Train until the time is up, from this machine's own checkpoint or the packed weights, and pack."""
    import dbtm
    from dbtm.checkpoint import folder as checkpoint
    from dbtm.core.device import pick_device
    from dbtm.evals.provenance import made
    from dbtm.service.training import TrainRequest, configuration

    progress, packed = progress_of(given, stage), packed_folder(given, stage)
    changes = [*inherited(given, stage), *given.set]
    if progress["done"]:
        if given.set and changes != progress["changes"]:
            sys.exit(f"{stage} was begun with the settings {progress['changes']}: leave --set out")
        changes = progress["changes"]
    whole = configuration(TrainRequest(stage, changes=(*tiny(given), *changes), data=given.data))
    start = progress["start"]
    here = checkpoint.latest(given.out / f"{stage}-from-{start:06d}")
    if here is None or start + checkpoint.step_of(here) < progress["done"]:  # another machine went further
        start = progress["done"]
    before, run = packed if start else before, given.out / f"{stage}-from-{start:06d}"
    config = rest(whole, start)
    config = replace(config, train=replace(config.train, init="" if before is None else str(before)))
    began = time.monotonic()
    last = dbtm.fit(config, run, resume=True, max_seconds=given.max_seconds)
    now = {"from": progress["done"], "to": start + checkpoint.step_of(last), "seconds": time.monotonic() - began}
    progress |= {"recipe": stage, "seed": whole.train.seed, "changes": changes, "steps": whole.train.steps}
    progress |= {"done": now["to"], "start": start}
    progress["parts"] += [{**now, **made(pick_device(config.train.device))}]
    keep(last, packed, progress)


def inherited(given: argparse.Namespace, stage: str) -> list[str]:
    """What a later stage has of the settings that the first was begun with: the map, its terms and its sampler."""
    first = [] if stage == STAGES[0] else progress_of(given, STAGES[0]).get("changes", [])
    return [change for change in first if change.startswith(("model.", "method.", "sample."))]


def keep(last: Path, packed: Path, progress: dict[str, Any]) -> None:
    """Pack a checkpoint with its progress, whole or not at all."""
    from dbtm.checkpoint import folder as checkpoint
    from dbtm.service.packing import pack

    new = packed.with_name(f".new-{packed.name}")
    shutil.rmtree(new, ignore_errors=True)
    pack(str(last), new)
    (new / "progress.json").write_text(json.dumps(progress, indent=1) + "\n")
    checkpoint.put_in_place(new, packed)


def tiny(given: argparse.Namespace) -> tuple[str, ...]:
    """The settings of --tiny."""
    return TINY if given.tiny else ()


def status(given: argparse.Namespace) -> None:
    """How far the stages are, and how many runs of the study are done."""
    for stage in STAGES:
        progress = progress_of(given, stage)
        steps = f"{progress['done']:,} of {progress['steps']:,} steps" if progress["steps"] else "not begun"
        minutes = sum(each["seconds"] for each in progress["parts"]) / 60
        print(f"{stage:12s} {steps}, {minutes:.1f} minutes in {len(progress['parts'])} parts")
    print(f"study        {sum('steps' in line for line in journal(given))} runs")


# -- the study ---------------------------------------------------------------------------------------------------------


def journal(given: argparse.Namespace) -> list[dict[str, Any]]:
    """A line per finished run, and a line per judged one. Every run has a file, so that several run at once."""
    paths = sorted((given.out / "study").glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def append(given: argparse.Namespace, line: dict[str, Any]) -> None:
    from dbtm.core.atomic import write_bytes

    path = ending(place(given, line["variant"], line["seed"]), ".jsonl")
    before = path.read_bytes() if path.is_file() else b""
    write_bytes(path, before + json.dumps(line).encode() + b"\n")


def study(given: argparse.Namespace) -> None:
    """Train and draw what has not been, then judge what has not been, one seed after the other."""
    wanted = [variant for variant in VARIANTS if not given.only or variant.name in given.only]
    (given.out / "study").mkdir(parents=True, exist_ok=True)
    trained = 0
    for seed, variant in product(given.seeds, wanted):
        if not find_line(given, variant.name, seed, "steps"):
            if trained == given.runs:
                continue
            append(given, compared(given, variant, seed))
            trained += 1
            print(f"{variant.name}, seed {seed}: trained", flush=True)
        if given.judge != "none" and not find_line(given, variant.name, seed, "rows"):
            append(given, judged(given, variant.name, seed))
            print(f"{variant.name}, seed {seed}: judged", flush=True)
    report(given)


def find_line(given: argparse.Namespace, variant: str, seed: int, has: str) -> dict[str, Any] | None:
    lines = (line for line in journal(given) if (line["variant"], line["seed"]) == (variant, seed) and has in line)
    return next(lines, None)


def place(given: argparse.Namespace, variant: str, seed: int) -> Path:
    """Of a run; its samples and packed weights have this name and an ending."""
    return given.out / "study" / f"{variant.replace(' ', '-').replace(',', '')}-{seed}"


def ending(run: Path, word: str) -> Path:
    return run.with_name(run.name + word)


def compared(given: argparse.Namespace, variant: Variant, seed: int) -> dict[str, Any]:
    """One run for its time, from scratch or from packed weights of the same seed; its samples."""
    from dbtm.checkpoint import folder as checkpoint
    from dbtm.core.device import pick_device
    from dbtm.evals.provenance import made
    from dbtm.evals.samples import write_sets
    from dbtm.service.training import TrainRequest
    from dbtm.service.training import train as train_by_request

    run, base = place(given, variant.name, seed), ending(place(given, VARIANTS[0].name, seed), ".packed")
    init = None if variant.recipe == STAGES[0] else base
    if init is not None and not init.is_dir():
        sys.exit(f"'{variant.name}' starts from the weights of '{VARIANTS[0].name}' with seed {seed}: run that first")
    shutil.rmtree(run, ignore_errors=True)  # of a process that was killed: runs by the clock are not resumed
    shared = (f"train.seed={seed}", f"task.seed={seed}", "train.checkpoint_every=1000000", "train.evaluate_every=1000")
    changes = (*shared, *variant.changes, *tiny(given))
    minutes = given.minutes or (None if given.tiny else STUDY_MINUTES)
    request = TrainRequest(variant.recipe, changes=changes, out=run, init=init, data=given.data, minutes=minutes)
    began = time.monotonic()
    last = train_by_request(request)
    line = {"variant": variant.name, "seed": seed, "steps": checkpoint.step_of(last), "minutes": minutes}
    line |= {"seconds": time.monotonic() - began, "recipe": variant.recipe, "changes": changes}
    line |= {"metrics": [json.loads(record) for record in (run / "metrics.jsonl").read_text().splitlines()[-8:]]}
    write_sets(ending(run, ".jsonl.gz"), drawn(given, last, given.ways, STUDY_BUDGETS))
    keep(last, ending(run, ".packed"), line)
    shutil.rmtree(run)
    return {**line, **made(pick_device(device(given)))}


def judged(given: argparse.Namespace, variant: str, seed: int) -> dict[str, Any]:
    found = judge_file(given, ending(place(given, variant, seed), ".jsonl.gz"))
    return {"variant": variant, "seed": seed, **found}


def report(given: argparse.Namespace) -> None:
    """Perplexity (entropy) of every variant by the first way to sample, then its perplexity at equal entropy."""
    lines = journal(given)
    names = [variant.name for variant in VARIANTS if any(line["variant"] == variant.name for line in lines)]
    print(f"{'variant':26s} {'seeds':>5s}" + "".join(f"{n:>10d} NFE{'at equal entropy':>18s}" for n in STUDY_BUDGETS))
    table = []
    for name in names:
        seeds = [line["rows"] for line in lines if line["variant"] == name and "rows" in line]
        cells = [cell(seeds, nfe) for nfe in STUDY_BUDGETS] if seeds else []
        table.append({"variant": name, "seeds": len(seeds), "by_nfe": cells})
        shown = (f"{each['shown']:>14s}{each['matched']!s:>18s}" for each in cells)
        print(f"{name:26s} {len(seeds):5d}" + "".join(shown))
    document = {"target": f"entropy of real text - {NEAR}", "variants": table, "lines": lines}
    path = given.json or (given.out if given.tiny else ROOT / "results") / "text-base-study.json"
    path.write_text(json.dumps(document, indent=1) + "\n")


def cell(seeds: Sequence[list[dict[str, Any]]], nfe: int) -> dict[str, Any]:
    """Means over the seeds: of the first way to sample, and at one entropy on the frontier of those without a penalty,
    which not all variants have."""
    from dbtm.evals.sweep.frontier import Point, frontier, perplexity_at

    first, matched = [], []
    for rows in seeds:
        target = next(row["entropy"] for row in rows if row["kind"] == "real") - NEAR
        points = [
            row for row in rows if row["perplexity"] and row["kind"] == "sample" and row["settings"]["nfe"] == nfe
        ]
        if not points:
            return {"nfe": nfe, "perplexity": None, "entropy": None, "matched": None, "shown": "-"}
        first.append((points[0]["perplexity"], points[0]["entropy"]))
        free = [row for row in points if not row["settings"].get("repetition_penalty")]
        curve = frontier([Point(row["entropy"], row["perplexity"]) for row in free])
        matched.append(perplexity_at(target, curve))
    perplexity, entropy = (mean(values) for values in zip(*first))
    known = [value for value in matched if value is not None]
    at_equal = round(mean(known), 1) if len(known) == len(matched) else None
    return {"nfe": nfe, "perplexity": perplexity, "entropy": entropy, "matched": at_equal,
            "shown": f"{perplexity:.0f} ({entropy:.2f})"}  # fmt: skip


# -- samples and their numbers -----------------------------------------------------------------------------------------


def device(given: argparse.Namespace) -> str:
    return "cpu" if given.tiny else "auto"


def drawn(given: argparse.Namespace, model: Path, ways: Iterable[str], budgets: Sequence[int]) -> list[Any]:
    """Sets of samples of every way and budget, each once, then real text and the same with its words shuffled."""
    from dbtm.checkpoint.migrate import read_config
    from dbtm.evals.samples import key
    from dbtm.service.evaluation.generated_text import TextEvaluationRequest, evaluate_text

    sets: dict[str, Any] = {}
    posterior = read_config(model).method.posterior.weight  # type: ignore[attr-defined]
    for way in ways:
        if not posterior and way.startswith("posterior"):
            continue
        request = TextEvaluationRequest(
            checkpoint=str(model), judge=None, n=given.n, seed=given.seed, budgets=tuple(budgets), options=WAYS[way],
            references=not sets, data=given.data, device=device(given),
        )  # fmt: skip
        for each in next(iter(evaluate_text(request))).sets:  # what comes first is what was drawn
            sets.setdefault(key({"kind": each.kind, **each.settings}), each)
    return sorted(sets.values(), key=lambda each: each.kind in REFERENCES)


def judge_file(given: argparse.Namespace, path: Path) -> dict[str, Any]:
    from dbtm.service.evaluation.generated_text import TextEvaluationRequest, evaluate_text

    named = None if given.judge == "none" else given.judge
    *_, found = evaluate_text(TextEvaluationRequest(samples=path, judge=named, device=device(given)))
    return found.document()


def judge(given: argparse.Namespace) -> None:
    """Samples of the newest stage, or of --stage, judged; or, where the judge is elsewhere, drawn alone."""
    from dbtm.checkpoint.migrate import read_config
    from dbtm.config import to_dict
    from dbtm.core.atomic import write_bytes
    from dbtm.evals.samples import write_sets

    there = [stage for stage in STAGES if progress_of(given, stage)["done"]]
    if not there or (given.stage and given.stage not in there):
        sys.exit(f"{packed_folder(given, given.stage or STAGES[0])}: there are no weights to sample from")
    stage = given.stage or there[-1]
    model, samples = packed_folder(given, stage), given.out / f"samples-{stage}.jsonl.gz"
    if not given.drawn:
        write_sets(samples, drawn(given, model, given.ways, BUDGETS))
    found = judge_file(given, samples)
    trained = [progress_of(given, each) for each in STAGES[: STAGES.index(stage) + 1]]
    settings = to_dict(read_config(model))
    settings["task"]["data"] = settings["task"]["tokenizer"] = settings["train"]["init"] = ""
    about = {"recipe": stage, "seed": given.seed, "trained": trained, "config": settings}
    path = given.json or (given.out if given.tiny else ROOT / "results") / "text-base.json"
    if given.judge != "none":
        stages = json.loads(path.read_text())["stages"] if path.is_file() else {}
        document = {"stages": {**stages, stage: {**about, **found}}}
        write_bytes(path, (json.dumps(document, indent=1) + "\n").encode())
    print_rows(found["rows"], limits=given.judge == "smollm2")


def print_rows(rows: list[dict[str, Any]], limits: bool) -> None:
    real = next((row["entropy"] for row in rows if row["kind"] == "real"), None)
    for row in rows:
        nfe, perplexity = row["settings"].get("nfe"), row["perplexity"]
        name = row["kind"] if row["kind"] in REFERENCES else f"{nfe} NFE"
        shown = "-" if perplexity is None else f"{perplexity:.1f}"
        line = f"{name:10s} perplexity {shown:>8s}  entropy {row['entropy']:.2f}  distinct "
        line += " ".join(f"{n}: {share:.2f}" for n, share in row["distinct"].items() if share is not None)
        if limits and nfe in LIMITS and real is not None:
            reached = perplexity <= LIMITS[nfe] and abs(row["entropy"] - real) <= NEAR
            line += f"  (at most {LIMITS[nfe]}: {'reached' if reached else 'not reached'})"
        print(line)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        words = commands.add_parser(run.__name__, help=run.__doc__, description=run.__doc__)
        words.set_defaults(run=run)
        words.add_argument("--out", type=Path, help="folder of everything (runs/text-base; with --tiny -tiny)")
        words.add_argument("--data", type=Path, help="prepared text (OUT/data)")
        words.add_argument("--tiny", action="store_true", help="the same at a size that a CPU trains in seconds")
        return words

    def sampling(words: argparse.ArgumentParser, n: int, ways: list[str]) -> None:
        words.add_argument(
            "--ways", nargs="+", choices=WAYS, default=ways, metavar="WAY", help=f"of: {', '.join(WAYS)}"
        )
        words.add_argument("--judge", help="as in dbtm eval text (smollm2; with --tiny none: samples are drawn alone)")
        words.add_argument("--n", type=int, help=f"samples of every setting ({n}; with --tiny 4)")
        words.set_defaults(usual=n)
        words.add_argument("--json", type=Path, help="result (results/...; with --tiny in OUT)")

    command(data).add_argument("files", nargs="*", metavar="FILE", help="as in dbtm data text")
    trained = command(train)
    trained.add_argument("--stage", choices=STAGES, help="default: the first that is not finished")
    trained.add_argument("--max-seconds", type=float, help="of training; compiling, packing and start-up come on top")
    trained.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="where a stage begins",
    )
    studied = command(study)
    names = [variant.name for variant in VARIANTS]
    studied.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of: {', '.join(names)}")
    studied.add_argument("--seeds", nargs="+", type=int, help="0 1; with --tiny 0")
    studied.add_argument("--minutes", type=float, help=f"of a run, instead of {STUDY_MINUTES:g}")
    studied.add_argument("--runs", type=int, help="train so many that are missing (all of them); 0: judge alone")
    studied.set_defaults(seed=0)
    sampling(studied, 256, STUDY_WAYS)
    measured = command(judge)
    measured.add_argument("--stage", choices=STAGES, help="default: the newest")
    measured.add_argument("--drawn", action="store_true", help="judge the samples that were drawn before")
    measured.add_argument("--seed", type=int, default=1)
    sampling(measured, 512, ["recipe"])
    command(status)
    given = parser.parse_args(words)
    given.out = given.out or Path("runs/text-base-tiny" if given.tiny else "runs/text-base")
    given.data = given.data or given.out / "data"
    if "judge" in given:
        given.judge = given.judge or ("none" if given.tiny else "smollm2")
        given.n = given.n or (4 if given.tiny else given.usual)
    if "seeds" in given:
        given.seeds = given.seeds or ([0] if given.tiny else [0, 1])
    given.run(given)


if __name__ == "__main__":
    main()
