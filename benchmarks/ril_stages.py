"""`lm1b-ril` at small scale: do rollouts from pure noise and self-distillation work together on text?

    dbtm data text --tokenizer train:512 --length 32 --validation 0.02 --input TEXT --out news512
    python benchmarks/ril_stages.py run --data news512 --out runs/ril-stages
    python benchmarks/ril_stages.py report --out runs/ril-stages --json results/ril-stages.json

(results/ril-stages-judged.json: --steps 1000 --batch 16 --seeds 1 2 3 --n 64.)

Four arms, equal steps, the paper's order of stages: transport alone up to the middle of the run (its step 100,000 of
200,000), then (a) still transport alone, (b) with data-supervised rollouts of depth 4 from pure noise, (c) with
self-distillation, (d) with both, as `lm1b-ril` has it. Losses, weights, depths, thresholds, temperature and the share
of the run between two teachers are the recipe's. Vocabulary, length, network and optimizer are small, so that one CPU
core trains an arm in minutes. An arm that is finished is not run again.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import torch

import dbtm
from dbtm.checkpoint import folder as checkpoint
from dbtm.config import RunConfig
from dbtm.core.atomic import write_bytes
from dbtm.evals.provenance import made
from dbtm.methods.dbtm import Config, QualityConfig
from dbtm.recipes import ours
from dbtm.service.evaluation.generated_text import TextEvaluationRequest, evaluate_text
from dbtm.tasks.text.shards import Prepared
from dbtm.tasks.text.task import Text

ARMS = {  # name: whether it has rollouts supervised by data, and self-distillation
    "transport": (False, False),
    "rollouts": (True, False),
    "distillation": (False, True),
    "both": (True, True),
}
BUDGETS = (1, 2, 4, 16)
JUDGED = "judged.json"


def configuration(arm: str, seed: int, given: argparse.Namespace) -> RunConfig:
    """One arm of `lm1b-ril`, made small."""
    paper, prepared, steps = dbtm.recipe("lm1b-ril"), Prepared(str(given.data)), given.steps
    assert isinstance(paper.method, Config)
    rollouts, distillation = ARMS[arm]
    start, refresh = steps // 2, max(1, steps // 40)  # 100,000 and 5,000 of 200,000
    return replace(
        paper,
        task=Text(vocab=prepared.vocab, length=prepared.length, data=str(given.data), seed=seed, evaluate_n=128),
        model=ours.model(given.width, given.depth, 2, input_norm=True),
        method=replace(
            paper.method,
            path=replace(paper.method.path, t_anchor=0.7),  # t* is 0.78 here and 0.82 there, where 0.75 is used
            ril=replace(paper.method.ril, weight=float(rollouts), start=start),
            distill=replace(paper.method.distill, weight=float(distillation), start=start, refresh=refresh),
            quality=QualityConfig(enabled=False),
        ),
        optim=replace(ours.optim(warmup=steps // 20), ema=0.99),
        train=replace(
            paper.train,
            steps=steps,
            batch=given.batch,
            micro_batch=0,
            seed=seed,
            precision="fp32",
            compile=False,
            device="cpu",
            checkpoint_every=steps // 4,
            milestones=(),
            evaluate_every=steps // 5,
        ),
        sample=replace(paper.sample, repetition_penalty=0.0),
    )


def run(given: argparse.Namespace) -> None:
    """Train and judge every arm that has no numbers yet, one seed after the other."""
    torch.set_num_threads(1)
    for seed in given.seeds:
        for arm in given.arms:
            folder = given.out / f"{arm}-{seed}"
            if (folder / JUDGED).is_file():
                continue
            last = dbtm.fit(configuration(arm, seed, given), folder, resume=True)
            if checkpoint.step_of(last) < given.steps:
                raise SystemExit(f"{folder} was stopped before its end: run the same command to go on")
            request = TextEvaluationRequest(
                checkpoint=str(checkpoint.latest(folder)),
                judge=None if given.judge == "none" else given.judge,
                n=given.n,
                budgets=BUDGETS,
                references=seed == given.seeds[0] and arm == "transport",
                device="cpu",
            )
            *_, found = evaluate_text(request)
            write_bytes(folder / JUDGED, json.dumps(found.document()).encode())
            print(f"{arm} {seed}: " + "  ".join(line(row) for row in found.document()["rows"]), flush=True)


def line(row: dict) -> str:
    name = row["kind"] if row["kind"] != "sample" else f"{row['settings'].get('nfe')} NFE"
    perplexity = "-" if row["perplexity"] is None else f"{row['perplexity']:.0f}"
    return f"{name} {perplexity} ({row['entropy']:.2f})"


def report(given: argparse.Namespace) -> None:
    """Mean and standard deviation over the seeds that are finished, the rows behind them, and one table to read."""
    arms, references, judge, configs = [], [], None, {}
    for arm in ARMS:
        found = {
            int(path.parent.name.rpartition("-")[2]): json.loads(path.read_text())
            for path in sorted(given.out.glob(f"{arm}-*/{JUDGED}"))
        }
        seeds = {seed: [row for row in each["rows"] if row["kind"] == "sample"] for seed, each in found.items()}
        for each in found.values():
            judge = each["judge"]
            references += [row for row in each["rows"] if row["kind"] != "sample"]
        by_nfe = [summary([rows[at] for rows in seeds.values()]) for at in range(len(BUDGETS))] if seeds else []
        saved = [checkpoint.latest(given.out / f"{arm}-{seed}") for seed in found]
        config = json.loads((saved[0] / "config.json").read_text()) if saved and saved[0] else None
        arms.append(
            {"arm": arm, "seeds": list(found), "by_nfe": by_nfe, "rows": seeds, "curves": curves(given.out, arm)}
        )
        if config is not None:
            config["task"]["data"] = Path(config["task"]["data"]).name
        configs |= {arm: config}
        for each in by_nfe:
            print(f"{arm:14s} {each['nfe']:3d} NFE  " + "  ".join(f"{k} {v[0]:.3g}" for k, v in each["of"].items()))
    document = {
        "recipe": "lm1b-ril, made small",
        "judge": judge,
        "arms": arms,
        "references": references,
        "configs": configs,
    }
    document |= made(torch.device("cpu"))
    given.json.write_text(json.dumps(document, indent=1) + "\n")


def curves(out: Path, arm: str) -> dict[str, list]:
    """Entropy over training of every seed: [step, at 1 NFE, of all samples together, at 4 NFE]."""
    names = ("eval/entropy_1", "eval/entropy_together_1", "eval/entropy_4")
    found = {}
    for path in sorted(out.glob(f"{arm}-*/metrics.jsonl")):
        records = (json.loads(line) for line in path.read_text().splitlines())
        rows = [[record["step"], *(record[name] for name in names)] for record in records if names[0] in record]
        found[path.parent.name.rpartition("-")[2]] = rows
    return found


def summary(rows: list[dict]) -> dict:
    """(mean, standard deviation) over seeds of each number at one budget."""
    read = {
        "perplexity": lambda row: row["perplexity"],
        "entropy": lambda row: row["entropy"],
        "distinct1": lambda row: row["distinct"]["1"],
        "distinct2": lambda row: row["distinct"]["2"],
        "unique": lambda row: row["unique"],
    }
    values = {name: [of(row) for row in rows] for name, of in read.items() if of(rows[0]) is not None}
    spread = {name: (mean(each), stdev(each) if len(each) > 1 else None) for name, each in values.items()}
    return {"nfe": rows[0]["settings"]["nfe"], "of": spread}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "report"])
    parser.add_argument("--out", type=Path, default=Path("runs/ril-stages"))
    parser.add_argument("--data", type=Path, help="prepared text, for run")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--n", type=int, default=256, help="samples that are judged at every budget")
    parser.add_argument("--judge", default="smollm2", help="as in dbtm eval text; none: entropies alone")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.command == "run" and given.data is None:
        parser.error("run needs --data, a prepared text")
    if given.command == "run":
        run(given)
    given.json = given.json or given.out / "ril-stages.json"
    report(given)


if __name__ == "__main__":
    main()
