"""Writes the result tables of the README and of docs/ from results/*.json: python benchmarks/readme.py

A test compares these pages with what this renders, so a number there is always one that was measured.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import mean

from dbtm.evals.referee.tables import best_table, cost_table, losses, number, quality_table
from dbtm.evals.referee.tables import cell as with_interval

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"


def read(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def sudoku() -> str:
    """Exact-solve % of the packaged model beside the paper's, at equal NFE, with what each costs."""
    ours, paper, training = read("sudoku"), read("paper")["sudoku"], read("sudoku-training")
    rate = {(row["clues"], row["nfe"]): row for row in ours["rows"]}
    names = {30: "hard, 30 clues", 35: "medium, 35", 40: "easy, 40"}
    budgets = sorted({nfe for _, nfe in rate})
    lines = [f"| | {' | '.join(f'{nfe} NFE' for nfe in budgets)} |", "|---" * (len(budgets) + 1) + "|"]
    for clues, name in names.items():
        cells = [f"{100 * rate[clues, nfe]['rate']:.2f}" for nfe in budgets]
        lines.append(f"| {name}: dbtm | {' | '.join(f'**{cell}**' for cell in cells)} |")
        lines.append(f"| {name}: paper | {' | '.join(f'{paper[str(clues)][str(nfe)]:.2f}' for nfe in budgets)} |")
    model, theirs, total = ours["model"], ours["model"]["paper"], ours["rows"][0]["total"]
    lines += [
        "",
        f"{total:,} puzzles per difficulty, never trained on. dbtm: one model of {model['parameters'] / 1e6:.1f}M "
        f"parameters, {training['seconds'] / 60:.0f} minutes on one {training['hardware']}. Paper: "
        f"{theirs['parameters'] / 1e6:.1f}M, up to 200,000 steps.",
    ]
    return "\n".join(lines)


def sudoku_model() -> str:
    """Details of the README's table."""
    ours, training = read("sudoku"), read("sudoku-training")
    model, theirs = ours["model"], ours["model"]["paper"]
    return (
        f"The README's table uses puzzles from seed {ours['data']['seed']}; thresholds were chosen on other puzzles. "
        f"One checkpoint serves all difficulties: 8 blocks applied twice, "
        f"{model['flops_per_evaluation'] / 1e9:.1f} GFLOPs per evaluation, "
        f"{training['steps']:,} steps with batch size {training['batch']:,} in "
        f"{len(training['segments'])} segments (`results/sudoku-training.json`). The paper's model: "
        f"{theirs['flops_per_evaluation'] / 1e9:.1f} GFLOPs (computed from its sizes), batch size 256."
    )


def toys() -> str:
    """The CPU recipes: mean over seeds."""
    rows = read("toys")["rows"]

    def average(recipe: str, key: str) -> float:
        return mean(row[key] for row in rows if row["recipe"] == recipe)

    lines = ["| recipe | measured | result |", "|---|---|---|"]
    lines.append(
        f"| `simplex` | agreement of the one-step map with the exact flow's basins; total variation from p | "
        f"{average('simplex', 'agreement'):.1%}; {average('simplex', 'total_variation'):.3f} |"
    )
    tv = " / ".join(f"{average('markov', f'pair_tv_{k}'):.3f}" for k in (1, 2, 4))
    lines.append(
        f"| `markov` | total variation of adjacent pairs at 1 / 2 / 4 NFE; with independent positions the minimum is "
        f"{average('markov', 'independent'):.3f} | {tv} |"
    )
    if any(row["recipe"] == "sudoku-mini" for row in rows):
        solved = " / ".join(f"{average('sudoku-mini', f'solved_{k}'):.1%}" for k in (1, 4, 16))
        lines.append(f"| `sudoku-mini` | held-out 4 x 4 puzzles with 5 clues solved at 1 / 4 / 16 NFE | {solved} |")
    return "\n".join(lines)


def speed() -> str:
    """What a training step and a draw of the prior cost, as ratios within one run each."""
    steps = {name: read(f"bench-step-{name}") for name in ("sudoku-paper", "lm1b", "owt")}
    rows = {name: {row["step"]: row for row in step["rows"]} for name, step in steps.items()}
    some, every, ril = "transport + anchor + boundary", "boundary on all rows", "with ril, k = 4"
    lines = ["| on one NVIDIA H200, bfloat16 | measured |", "|---|---|"]
    for name, step in steps.items():
        row = rows[name][some]
        lines.append(
            f"| step with transport, anchor and boundary, relative to plain cross-entropy: `{name}`, batch "
            f"{step['batch']} | "
            f"{row['ratio_vs_ce']:.2f} x the time with the boundary on an eighth of the rows, as in our recipes "
            f"({row['head_rows']:.0%} of the rows in the head), {row['share_of_peak']:.0%} of peak matrix throughput, "
            f"{row['peak_gib']:.0f} GiB; {rows[name][every]['ratio_vs_ce']:.2f} x with the boundary on all rows, as in "
            "the paper |"
        )
    lines.append(
        f"| the same plus four rounds of refinement in the loop: `sudoku-paper`, boundary on an eighth | "
        f"{rows['sudoku-paper'][ril]['ratio_vs_ce']:.2f} x |"
    )
    for row in read("bench-attention")["steps"]:
        B, L, V = row["size"]
        how = {"plain": "plain", "replayed": "as a CUDA graph", "compiled": "compiled, as a CUDA graph"}
        ours, theirs = (how[row["best"][name]] for name in ("ours", "jvp"))
        lines.append(
            f"| step of a four-block map ({ours}), B = {B}, L = {L}, V = {V}, relative to `torch.func.jvp` ({theirs}) "
            f"(the paper's kernel on an A100: {row['paper_speed']} x, {row['paper_memory']} x) | "
            f"{row['speed']:.1f} x as fast, {row['memory']:.1f} x less memory; without compilation "
            f"{row['ms']['replayed']['jvp'] / row['ms']['replayed']['ours']:.1f} x as fast with CUDA graphs, "
            f"{row['ms']['plain']['jvp'] / row['ms']['plain']['ours']:.1f} x without |"
        )
    for row in read("bench-head")["rows"]:
        lines.append(
            f"| head and losses in chunks, relative to dense logits, V = {row['vocab']:,} | "
            f"{row['speed']:.1f} x as fast, {1 / row['memory']:.2f} x the memory |"
        )
    prior = read("bench-sampler")["prior"]
    lines.append(
        f"| drawing the prior, V = {prior['vocab']:,}, D = {prior['width']}, relative to the dense draw, and to the "
        f"chunked draw of training | {prior['speed']:.0f} x, {prior['speed_vs_chunks']:.0f} x as fast |"
    )
    return "\n".join(lines)


def backbone_table(found: dict) -> str:
    """The delta rule and the mix against attention, by length."""
    lengths = list(found["step_ms"]["ratio"]["delta"])
    columns = [*(f"L = {int(length):,}" for length in lengths), "growth", "growth of attention", "cheaper from"]
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    measures = {
        "forward_ms": "forward, time",
        "step_ms": "transport step, time",
        "forward_bytes": "forward, memory",
        "step_bytes": "transport step, memory",
    }
    for measure, title in measures.items():
        entry = found[measure]
        for backbone, values in entry["ratio"].items():
            ratios = " | ".join(f"{values[length]:.2f} x" for length in lengths)
            overall, end = entry["exponent"], entry["exponent_at_the_end"]
            growth = " | ".join(f"L^{overall[name]:.2f}, L^{end[name]:.2f}" for name in (backbone, "attention"))
            crossing = entry["crossing"][backbone]
            below = "-" if crossing is None else f"L = {crossing:,.0f}"
            lines.append(f"| {title}: {backbone} | {ratios} | {growth} | {below} |")
    return "\n".join(lines)


def backbones() -> str:
    """On one GPU."""
    return backbone_table(read("bench-backbone"))


def backbones_compiled() -> str:
    """The same, compiled."""
    return backbone_table(read("bench-backbone-compiled"))


def backbones_cpu() -> str:
    """On two CPU cores."""
    return backbone_table(read("bench-backbone-cpu"))


def ablations() -> str:
    """The arms at the end of their time."""
    study = read("sudoku-ablations")
    lines = ["| arm | what it changes or tests | steps | 1 NFE | 4 NFE | 16 NFE |", "|---|---|---|---|---|---|"]
    for arm in study["arms"]:
        end = arm["curve"][-1]
        cells = " | ".join(f"{end[f'solved_{nfe}']:.0%}" for nfe in (1, 4, 16))
        lines.append(f"| {arm['arm']} | {arm['question']} | {end['step']:,} | {cells} |")
    return "\n".join(lines)


def scorers() -> str:
    """Commit by the quality head and by the map's own confidence, each at its best threshold."""
    rows = [row for row in read("sudoku-thresholds")["rows"] if row["clues"] == 30]
    budgets = sorted({row["nfe"] for row in rows} - {1})
    lines = [f"| commit by | {' | '.join(f'{nfe} NFE' for nfe in budgets)} |", "|---" * (len(budgets) + 1) + "|"]
    for scorer, name in (("quality", "quality head"), ("confidence", "confidence")):
        best = [max(row["rate"] for row in rows if (row["scorer"], row["nfe"]) == (scorer, nfe)) for nfe in budgets]
        lines.append(f"| {name} | {' | '.join(f'{100 * rate:.2f}' for rate in best)} |")
    return "\n".join(lines)


def other_puzzles() -> str:
    """The packaged model on puzzles from other sources."""
    rows = read("sudoku-others")["rows"]
    budgets = sorted({row["nfe"] for row in rows})
    lines = [
        f"| puzzles | clues | {' | '.join(f'{nfe} NFE' for nfe in budgets)} |",
        "|---" * (len(budgets) + 2) + "|",
    ]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        found = {row["nfe"]: row for row in rows if row["kind"] == kind}
        first = found[budgets[0]]
        rates = " | ".join(f"{100 * found[nfe]['rate']:.1f}" for nfe in budgets)
        clues = f"{first['fewest_clues']}-{first['most_clues']}, mean {first['mean_clues']:.1f}"
        lines.append(f"| {first['about']} ({first['total']}) | {clues} | {rates} |")
    return "\n".join(lines)


def puzzle_efforts() -> str:
    """How hard sets of puzzles are, by a solver's guesses."""
    found = read("sudoku-efforts")
    shares = " / ".join(f"{share} %" for share in found["shares"])
    lines = [
        f"| puzzles | clues | guesses with singles alone, {shares} | with logic, {shares} |",
        "|---|---|---|---|",
    ]
    for row in found["rows"]:
        fewest, most = row["clues"]
        clues = f"{fewest}" if fewest == most else f"{fewest}-{most}"
        singles, logic = (" / ".join(f"{value:.0f}" for value in row[name]) for name in ("singles", "logic"))
        lines.append(f"| {row['name']} ({row['n']}) | {clues} | {singles} | {logic} |")
    return "\n".join(lines)


def reasoning_small() -> str:
    """The small recipes after a few steps, with and without the map's own mistakes, in several ways of sampling."""
    rows = read("reasoning-small")["rows"]
    ways = list(dict.fromkeys(row["way"] for row in rows))
    lines = [f"| recipe, rollouts hold | chance | {' | '.join(ways)} |", "|---" * (len(ways) + 2) + "|"]
    for task, arm in dict.fromkeys((row["task"], row["arm"]) for row in rows):
        here = {row["way"]: row for row in rows if (row["task"], row["arm"]) == (task, arm)}
        cells = []
        for way in ways:
            row = here[way]
            trusted = f"; stable {row['stable']}, correct {row['stable_and_right']}" if "stable" in row else ""
            cells.append(f"{100 * row['solved']:.0f}%{trusted}")
        kind = "own mistakes" if arm == "own mistakes" else "ground truth only"
        chance = f"{100 * here[ways[0]]['by_chance']:.0f}%"
        lines.append(f"| `{task}-mini`, {kind} | {chance} | {' | '.join(cells)} |")
    return "\n".join(lines)


def stable() -> str:
    """How far "stable" can be trusted, and what the self-check costs."""
    rows = read("sudoku-stable")["rows"]
    lines = [
        "| puzzles | solved at 4 NFE | solved with the check, at most 16 NFE | mean NFE | "
        "stable answers, correct among them | correct answers, stable among them |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["set"] for row in rows if "solved" in row):
        plain, checked = (next(r for r in rows if (r["set"], r["way"]) == (name, way)) for way in ("4", "4+12"))
        right, both = round(checked["solved"] * checked["n"]), checked["stable_and_right"]
        shares = f"{checked['stable']}, {both} | {right}, {both}"
        solved = f"{100 * plain['solved']:.0f}% | {100 * checked['solved']:.0f}% | {checked['nfe']:.1f}"
        lines.append(f"| {name} ({plain['n']}) | {solved} | {shares} |")
    times = [row for row in rows if "ratio" in row]
    each = "; ".join(
        f"{row['set'].removeprefix('speed: ')}: {row['nfe']} NFE without, {row['nfe_checked']} with, "
        f"{row['ratio']:.1f} x the time"
        for row in times
    )
    texts = [row for row in rows if row["set"].startswith("text")]
    also = "".join(f" Of {row['n']} samples of the packaged text model, {row['stable']} were stable." for row in texts)
    return "\n".join([*lines, "", f"Time of one solve without and with the check: {each}.{also}"])


def hard_arms() -> str:
    """Self-conditioning and loops on hard puzzles, after a short run."""
    rows = read("sudoku-hard")["rows"]
    heads = {"4": "4, 2 loops", "4x4": "4, 4 loops"}
    heads |= {f"revise-{k}{x}": f"revise {k}, {n} loops" for x, n in (("", 2), ("x4", 4)) for k in (16, 64)}
    lines = [f"| puzzles | self-conditioned | {' | '.join(heads.values())} |", "|---" * (len(heads) + 2) + "|"]
    for kind, arm in dict.fromkeys((row["set"], row["arm"]) for row in rows):
        here = {row["way"]: row for row in rows if (row["set"], row["arm"]) == (kind, arm)}
        cells = []
        for way in heads:
            row = here[way]
            trusted = f" (stable {row['stable']}, correct {row['stable_and_right']})" if "stable" in row else ""
            cells.append(f"{100 * row['solved']:.1f}{trusted}")
        lines.append(f"| {kind} | {'no' if arm == 'without' else 'yes'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def paper_recipe() -> str:
    """`sudoku-paper` after a short run, compared with the paper's final numbers."""
    run, paper = read("sudoku-paper"), read("paper")["sudoku"]
    rate = {(row["clues"], row["nfe"]): 100 * row["rate"] for row in run["rows"]}
    budgets = sorted({nfe for _, nfe in rate})
    lines = [f"| | {' | '.join(f'{nfe} NFE' for nfe in budgets)} |", "|---" * (len(budgets) + 1) + "|"]
    for clues in sorted({clues for clues, _ in rate}):
        ours = " | ".join(f"{rate[clues, nfe]:.2f}" for nfe in budgets)
        theirs = " | ".join(f"{paper[str(clues)][str(nfe)]:.2f}" for nfe in budgets)
        lines.append(f"| {clues} clues, {run['steps']:,} steps, kappa 0.9 | {ours} |")
        lines.append(f"| {clues} clues, paper, up to 200,000 steps, best kappa | {theirs} |")
    steps = ", ".join(f"{point['solved_4']:.0%} at {point['step']:,}" for point in run["curve"])
    late = ", ".join(f"{point['solved_16']:.0%} at {point['step']:,}" for point in run["curve"])
    lines += [
        "",
        f"During training (30 clues, kappa 0.999, 256 puzzles): at 4 NFE {steps} steps; at 16 NFE {late} steps.",
    ]
    return "\n".join(lines)


def text_table(arms: dict) -> list[str]:
    """Perplexity (entropy) of every arm by NFE, beside real and shuffled text under the same judge."""
    first = next(iter(arms.values()))["evaluation"]
    budgets = [row["settings"]["nfe"] for row in first["rows"] if row["kind"] == "sample"]
    columns = [*(f"{nfe} NFE" for nfe in budgets), "validation text", "its words shuffled"]
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, arm in arms.items():
        rows = arm["evaluation"]["rows"]  # samples by budget, then real text, then shuffled
        cells = [f"{row['perplexity']:.0f} ({row['entropy']:.2f})" for row in rows]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def text() -> str:
    """Our best text model after each of its stages."""
    arms = read("text")["arms"]
    shown = {name: arms[name] for name in ("text-ril", "text-distill")}
    training, evaluation = shown["text-distill"]["training"], shown["text-distill"]["evaluation"]
    return "\n".join(
        [
            *text_table(shown),
            "",
            f"{training['parameters'] / 1e6:.0f}M parameters; {training['seconds'] / 60:.0f} minutes on one "
            f"{training['hardware']} for both stages; no external teacher. Judge: {evaluation['judge']['name']}, "
            f"{evaluation['rows'][0]['n']} samples per entry.",
        ]
    )


def packaged_text() -> str:
    """The row of the model in the package, for its card."""
    return "\n".join(text_table({"text-small": read("text")["arms"]["text-small"]}))


def text_results() -> str:
    """The table, and what each arm cost."""
    arms = read("text")["arms"]
    lines, first = text_table(arms), next(iter(arms.values()))["evaluation"]
    lines += ["", f"Judge: {first['judge']['name']}; seed {first['samples'][0]['seed']}.", ""]
    for name, arm in arms.items():
        training, data = arm["training"], arm["data"]
        stages = training.get("stages", [{"recipe": arm["recipe"], **training}])
        steps = " and ".join(f"{stage['steps']:,} of `{stage['recipe']}`" for stage in stages)
        lines.append(
            f"- `{name}`: {training['parameters'] / 1e6:.1f}M parameters, {training['seconds'] / 60:.1f} minutes on "
            f"one {training['hardware']} (batch size {training['batch']}; steps: {steps}), "
            f"{data['train_tokens'] / 1e6:.0f}M tokens of encyclopaedia and news; "
            f"{arm['evaluation']['rows'][0]['n']} samples per entry."
        )
    return "\n".join(lines)


def text_backbones() -> str:
    """Attention and the delta rule after equal training time on long texts."""
    arms = read("text-delta")["arms"]
    lines, first = text_table(arms), next(iter(arms.values()))
    lines += ["", f"Judge: {first['evaluation']['judge']['name']}; {first['evaluation']['rows'][0]['n']} samples.", ""]
    for name, arm in arms.items():
        training = arm["training"]
        lines.append(
            f"- {name}: {training['parameters'] / 1e6:.1f}M parameters, {training['steps']:,} steps with batch size "
            f"{training['batch']} at {training['median_steps_per_second']:.1f} steps per second, "
            f"{training['minutes']:g} minutes on one {training['hardware']} including start-up and compilation."
        )
    return "\n".join(lines)


def text_ablations() -> str:
    """Perplexity (entropy) of the arms at the end of their time."""
    study = read("text-ablations")
    lines = ["| arm | what it changes or tests | steps | 1 NFE | 4 NFE | 16 NFE |", "|---|---|---|---|---|---|"]
    for arm in study["arms"]:
        cells = " | ".join(f"{row['perplexity']:.0f} ({row['entropy']:.2f})" for row in arm["judged"])
        lines.append(f"| {arm['arm']} | {arm['question']} | {arm['curve'][-1]['step']:,} | {cells} |")
    return "\n".join(lines)


def text_studies() -> str:
    """The paper's comparisons of ways to sample, for the model of the package."""
    lines: list[str] = []
    cells = read("text-small-studies")["studies"]
    for study in dict.fromkeys(cell["study"] for cell in cells):
        table = {(cell["row"], cell["column"]): cell for cell in cells if cell["study"] == study}
        rows, columns = (list(dict.fromkeys(key[i] for key in table)) for i in range(2))
        first = "field or map" if study == "horizon" else "NFE"
        lines += ["", f"| `{study}`: {first} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        for row in rows:
            shown = (f"{table[row, c]['perplexity']:.0f} ({table[row, c]['entropy']:.2f})" for c in columns)
            lines.append(f"| {row} | {' | '.join(shown)} |")
    return "\n".join(lines[1:])


def text_samples() -> str:
    """The first sample of each budget, not selected."""
    lines = []
    for name, arm in read("text")["arms"].items():
        for nfe, sample in arm["first_samples"].items():
            words = " ".join(sample.split()).replace("*", "\\*").replace("_", "\\_").replace("<", "\\<")
            lines += [f"- `{name}`, {nfe} NFE: {words}"]
    return "\n".join(lines)


def text_tiny() -> str:
    """Words of `text-tiny` that exist, and its first samples."""
    found = read("text-tiny")
    lines = ["| | real words | different words | letters per word |", "|---|---|---|---|"]
    for row in found["rows"]:
        name = "validation text" if row["nfe"] is None else f"{row['nfe']} NFE"
        lines.append(f"| {name} | {row['real']:.1%} | {row['different']:.1%} | {row['letters']:.1f} |")
    words = " / ".join(f"{row['words']:,}" for row in found["rows"])
    lines += [
        "",
        f"{found['steps']:,} steps of {found['batch']} in {found['minutes']:g} minutes on {found['hardware']} "
        f"({found['threads']} threads), seed {found['seed']}; words per row: {words}. Text: {found['data']}. The first "
        "sample of each budget, not selected:",
        "",
    ]
    for row in found["rows"][1:]:
        sample = " ".join(row["samples"][0].split()).replace("*", "\\*").replace("_", "\\_").replace("<", "\\<")
        lines.append(f"- {row['nfe']} NFE: {sample}")
    return "\n".join(lines)


def text_base_study() -> str:
    """Runs before the long one: perplexity (entropy) by how rounds after the first draw."""
    found, budgets = read("text-base-arms"), (1, 2, 4, 8, 16)
    lines = [f"| run | minutes | later rounds | {' | '.join(f'{nfe} NFE' for nfe in budgets)} |"]
    lines.append("|---" * (3 + len(budgets)) + "|")
    minutes = {(line["variant"], line["seed"]): line["minutes"] for line in found["lines"] if "steps" in line}
    for line in found["lines"]:
        ways: dict[str, dict[int, str]] = {}
        for row in line.get("rows", []):
            if row["kind"] == "sample":
                cell = f"{row['perplexity']:.0f} ({row['entropy']:.2f})"
                ways.setdefault(_way(row["settings"]), {})[row["settings"]["nfe"]] = cell
        one = ways.pop("", {}).get(1, "")  # which later rounds do not change
        for way, known in ways.items():
            cells = [line["variant"], f"{minutes[line['variant'], line['seed']]:.1f}", way]
            cells += [known.get(nfe, one if nfe == 1 else "") for nfe in budgets]
            lines.append(f"| {' | '.join(cells)} |")
    real = next(row for line in found["lines"] for row in line.get("rows", []) if row["kind"] == "real")
    hardware = next(line["hardware"] for line in found["lines"] if "cuda" in line.get("hardware", ""))
    lines += [
        "",
        f"Validation text: {real['perplexity']:.1f} ({real['entropy']:.2f}). {hardware.removeprefix('cuda: ')}, 256 "
        "samples, one seed per run; rows with a penalty: the same weights in 8 bits on a CPU, 128 samples.",
    ]
    return "\n".join(lines)


def _way(settings: dict) -> str:
    """How later rounds draw; empty for a budget of one round at temperature 0, which has none."""
    if settings["nfe"] == 1 and not settings["temperature"]:
        return ""
    at_mean = settings.get("mean_from")
    temperature = settings["mean_temperature" if at_mean else "temperature"]
    out = f"{'posterior' if at_mean else 'noise'}, temperature {temperature:g}"
    out += ", from the first round on" if at_mean == 1 else ""
    out += ", same noise" if settings.get("fresh_noise") is False else ""
    return out + (f", penalty {settings['repetition_penalty']:g}" if settings.get("repetition_penalty") else "")


def programs() -> str:
    """`gsm-small` on synthetic problems and on GSM8K, with the paper's row and the training data of both."""
    ours, paper = read("gsm"), read("paper")["gsm8k"]
    budgets = [row["nfe"] for row in ours["gsm8k"]["rows"]]
    lines = [f"| % correct | {' | '.join(f'{nfe} NFE' for nfe in budgets)} |", "|---" * (len(budgets) + 1) + "|"]
    for name, of in (("held-out synthetic problems", "synthetic"), ("GSM8K's test set", "gsm8k")):
        cells = " | ".join(f"{100 * row['rate']:.1f}" for row in ours[of]["rows"])
        lines.append(f"| {name} ({ours[of]['rows'][0]['total']:,}): `gsm-small` | {cells} |")
    lines.append(f"| GSM8K's test set: paper | {' | '.join(f'{paper[str(nfe)]:.1f}' for nfe in budgets)} |")
    training, data = ours["training"], ours["data"]
    lines += [
        "",
        f"`gsm-small`: {training['parameters'] / 1e6:.0f}M parameters, no transport term, "
        f"{training['seconds'] / 60:.1f} minutes on one {training['hardware']} ({training['steps']:,} steps with batch "
        f"size {training['batch']}). Data: {data['originals']:,} problems with programs and their renumbered copies "
        f"({data['examples']:,} examples in total); {data['synthetic']:.0%} of each batch are synthetic problems. "
        "Paper: about 165M parameters, 250,000 steps with batch size 512, on TinyGSM.",
    ]
    return "\n".join(lines)


def reproduction() -> str:
    """Every table and figure of the paper: its cost at either scale, and our numbers in results/."""
    from dbtm.service.reproduction.needs import total_hours
    from dbtm.service.reproduction.registry import ENTRIES
    from dbtm.service.reproduction.steps.training import Train

    def trains(plan) -> list[str]:  # without the rivals, whose number grows
        runs = (step for step in plan.order() if isinstance(step, Train) and step.method is None)
        return [f"`{name}`" for name in dict.fromkeys(step.recipe for step in runs)]

    lines = ["| name | what it shows | small | CPU s | paper | ours in results/ |", "|---|---|---|---|---|---|"]
    ran = json.loads((RESULTS / "reproduce-small.json").read_text())["entries"]
    for label, entry in ENTRIES.items():
        took = f"{ran[label]['cpu_seconds']:.0f}" if label in ran else "not run"
        small = entry.plan("small")
        what = [*(f"the packaged `{name}`" for name in small.models()), *(f"trains {name}" for name in trains(small))]
        paper = "the same"
        if not entry.exact:
            plan = entry.plan("paper")
            data = "".join(f", data {name}" for name in plan.data())
            judge = f", judge {plan.judge()}" if plan.judge() else ""
            hours = float(f"{total_hours(plan)[0]:.2g}")
            paper = f"{', '.join(trains(plan))}{data}{judge}, about {hours:,.0f} GPU hours"
        found = ", ".join(f"[{name}.json](../results/{name}.json)" for name in entry.sources)
        lines.append(f"| `{label}` | {entry.caption} | {', '.join(what) or 'exact'} | {took} | {paper} | {found} |")
    return "\n".join(lines)


REFEREED = ("markov", "sudoku-mini")
ROLES = ("best", "dbtm")


def _comparison(task: str) -> dict | None:
    """The comparison of methods on a task, if it has been run."""
    path = RESULTS / f"referee-{task}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def _missing(task: str) -> str:
    return f"Not run yet: `dbtm referee {task}` writes these numbers to `results/referee-{task}.json`."


def referee_losses() -> str:
    """Where DBTM loses at equal training cost: the first lines of the page."""
    lines = []
    for task in REFEREED:
        document = _comparison(task)
        lines += [f"- **{task}**: {sentence}" for sentence in ([_missing(task)] if not document else losses(document))]
    return "\n".join(lines)


HEADLINE = (1, 2, 4, 8, 16)


def referee_best() -> str:
    """The best method at each number of evaluations, on every task that has been run, and those no worse than it."""
    lines = ["| task | NFE | best | inside the interval of the best | DBTM |", "|---|---|---|---|---|"]
    for task in REFEREED:
        document = _comparison(task)
        for record in document["best"] if document else ():
            if record["nfe"] not in HEADLINE:
                continue
            name, metric = str(record["nfe"]), document["metric"]
            inside = record["best_low"], record["best_high"]
            near = [
                f"{entry['label']} {number(entry['budgets'][name]['value'], metric)}"
                for entry in document["entries"]
                if (entry["budgets"].get(name) or {}).get("value") is not None
                and entry["label"] != record["best"]
                and inside[0] <= entry["budgets"][name]["value"] <= inside[1]
            ]
            of = {role: {key: record[f"{role}_{key}"] for key in ("value", "low", "high")} for role in ROLES}
            best, ours = (with_interval(of[role], metric) for role in ROLES)
            words = [task, name, f"**{record['best']}** {best}", ", ".join(near), f"{record['dbtm']} {ours}"]
            lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines)


def _referee(task: str) -> str:
    document = _comparison(task)
    if document is None:
        return _missing(task)
    best, quality, cost = best_table(document), quality_table(document), cost_table(document)
    made = f"Hardware: {'; '.join(document['hardware'])}. Commit: {', '.join(c[:12] for c in document['commit'])}."
    parts = [best.markdown(), f"{quality.title}.", quality.markdown(), quality.note, f"{cost.title}.", cost.markdown()]
    return "\n\n".join([*parts, made])


def referee_markov() -> str:
    """All methods on the Markov chain."""
    return _referee("markov")


def referee_sudoku_mini() -> str:
    """All methods on 4 x 4 Sudoku."""
    return _referee("sudoku-mini")


def referee() -> str:
    """The best method and DBTM on every task that has been compared, for the README."""
    lines = [f"| task | | {' | '.join(f'{k} NFE' for k in HEADLINE)} |", "|---" * (len(HEADLINE) + 2) + "|"]
    for task in REFEREED:
        document = _comparison(task)
        if document is None:
            return _missing(task)
        metric, records = document["metric"], {record["nfe"]: record for record in document["best"]}
        of = [records[k] for k in HEADLINE]
        better = "lower" if metric["lower_is_better"] else "higher"
        title = f"{task}: {metric['title']}{', %' if metric['share'] else ''} ({better} is better)"
        best = [f"{record['best']} {number(record['best_value'], metric)}" for record in of]
        ours = [number(record["dbtm_value"], metric) for record in of]
        lines += [f"| {title} | best | {' | '.join(best)} |", f"| | dbtm | {' | '.join(ours)} |"]
    return "\n".join(lines)


def referee_settings() -> str:
    """Trials of DBTM's settings at the referee's budgets."""
    rows, shown = read("referee-settings")["rows"], ("1", "2", "4", "8", "16")
    lines = [f"| task | settings | steps | {' | '.join(f'{k} NFE' for k in shown)} |", "|---" * (len(shown) + 3) + "|"]
    for row in rows:
        metric = _comparison(row["task"])["metric"]
        values = [number(row["values"][k], metric) for k in shown]
        lines.append(f"| {row['task']} | {row['trial']} | {row['steps']} | {' | '.join(values)} |")
    return "\n".join(lines)


def own_examples() -> str:
    """Share of right rows by NFE, with what shows a collapse beside it: different rows and entropy."""
    parts = []
    for name, found in read("own")["examples"].items():
        metric = found["data"]["metric"].rpartition(":")[2]
        lines = [
            f"| {name}: `{metric}` | right rows | different rows | entropy | right rows, `--top-p 1` | entropy |",
            "|---|---|---|---|---|---|",
        ]
        for row, whole in zip(found["rows"], found["whole"]["rows"], strict=True):
            title, cells = "held-out rows", "| | |"
            if row["kind"] != "held out":
                title = f"{row['settings']['nfe']} NFE"
                cells = f"| {whole[metric]:.1%} | {whole['entropy']:.2f} |"
            lines.append(f"| {title} | {row[metric]:.1%} | {row['distinct']:.1%} | {row['entropy']:.2f} {cells}")
        clock = f", {found['cpu_seconds']} s of CPU time" if "cpu_seconds" in found else ""
        about = f"{found['steps']:,} steps of {found['batch']}{clock}; {found['rows'][-1]['n']:,} samples."
        parts.append("\n".join([*lines, "", f"{found['rows_of_data']:,} rows of data, {about}"]))
    return "\n\n".join(parts)


def methods_markov() -> str:
    """Total variation of neighbours by method and NFE on the Markov chain, default settings."""
    rows = read("methods-markov")["rows"]
    budgets = sorted({int(k) for row in rows for k in row["total_variation"] if k != "all"})
    head = " | ".join(f"{k} NFE" for k in budgets)
    lines = [f"| method | steps | {head} |", "|---" * (len(budgets) + 2) + "|"]
    for row in rows:
        found = row["total_variation"]
        cells = [f"{found[str(k)]:.3f}" if str(k) in found else "" for k in budgets]
        if "all" in found:
            cells[-1] = f"{found['all']:.3f} (one per token)"
        teacher = f" (teacher: `{row['teacher']}`)" if row["teacher"] else ""
        lines.append(f"| `{row['method']}`{teacher} | {row['steps']} | {' | '.join(cells)} |")
    lines += [
        "",
        f"Total variation of adjacent tokens from the truth on `markov`, {rows[0]['samples']:,} samples, one seed, "
        f"default settings; with independent positions the minimum is {rows[0]['independent']:.3f}. "
        "`python benchmarks/methods.py` produces these rows.",
    ]
    return "\n".join(lines)


def markov_study() -> str:
    """Total variation of neighbours and of conditionals, by length of training and options of the sampler."""
    study = read("markov-study")
    budgets = [*study["rows"][0]["total_variation"]["the recipe's"]]
    lines = [
        f"| run | sampler | {' | '.join(f'{nfe} NFE' for nfe in budgets)} | one token given all others |",
        f"|---|---|{'---|' * (len(budgets) + 1)}",
    ]
    for row in study["rows"]:
        for label, distances in row["total_variation"].items():
            first = label == "the recipe's"
            values = " | ".join(f"{distances[nfe]:.3f}" for nfe in budgets)
            one = f"{row['conditional']:.3f}" if first else ""
            lines.append(f"| {row['run'] if first else ''} | {label} | {values} | {one} |")
    floor = study["rows"][0]["conditional_floor"]
    return "\n".join(
        [*lines, "", f"Samples of the exact conditionals reach {floor:.3f}, from the finite sample size alone."]
    )


def hardening() -> str:
    """Results of the fuzzers and the kill test."""
    shown = read("hardening")
    fuzz, kill = shown["fuzz"], shown["kill"]
    killed, pairs, full = kill["SIGKILL"], kill["two trainers"]["pairs"], kill["disk full"]["full"]
    commits = ", ".join(sorted({row["commit"][:7] for row in fuzz["rows"]}))
    lines = [
        f"{fuzz['inputs']:,} inputs for {fuzz['readers']} readers and commands: {fuzz['accepted']:,} accepted, "
        f"{fuzz['refused']:,} refused with a one-line error, {fuzz['failed']} failed. Slowest: "
        f"{fuzz['slowest_seconds']:.1f} s; most memory beyond the input: {fuzz['most_mib']} MiB (limits: "
        f"{fuzz['limits']['seconds']:g} s, {fuzz['limits']['mib']} MiB).",
        "",
        f"{killed['kills']} kills, {killed['kills at events']} of them before a file-system event and "
        f"{killed['kills while saving']} during a checkpoint write; {pairs} pairs of trainers in one folder, where one "
        f"trained and the other was refused; {full} full disks. Nothing was lost: all {killed['runs compared']} runs "
        "that were killed and resumed ended bit for bit like the undisturbed run.",
        "",
        f"`results/hardening.json` has the counts per reader and the commit that was tested ({commits}).",
    ]
    return "\n".join(lines)


TABLES: dict[str, tuple[Callable[[], str], ...]] = {
    "README.md": (sudoku, text, referee),
    "docs/sudoku.md": (sudoku_model, ablations, scorers, other_puzzles, puzzle_efforts, hard_arms, paper_recipe),
    "docs/reasoning.md": (reasoning_small, stable),
    "docs/evaluation.md": (toys,),
    "docs/own.md": (own_examples,),
    "docs/speed.md": (speed, backbones, backbones_compiled, backbones_cpu),
    "docs/referee.md": (
        referee_losses,
        referee_best,
        referee_markov,
        referee_sudoku_mini,
        markov_study,
        referee_settings,
    ),
    "docs/maths.md": (programs,),
    "docs/methods.md": (methods_markov,),
    "docs/reproduce.md": (reproduction,),
    "docs/security.md": (hardening,),
    "docs/text-results.md": (text_results, text_studies, text_ablations, text_backbones),
    "docs/text-samples.md": (text_samples,),
    "docs/text.md": (text_tiny,),
    "docs/text-base.md": (text_base_study,),
    "src/dbtm/models/text/README.md": (packaged_text,),
}


def rendered(page: str) -> str:
    """A page with every table between its markers rendered."""
    text = (ROOT / page).read_text()
    for make in TABLES[page]:
        pattern = rf"(<!-- begin: {make.__name__} -->\n).*?(<!-- end: {make.__name__} -->)"
        table = make()
        text, found = re.subn(pattern, lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text, flags=re.S)
        assert found == 1, f"{page} has no markers for '{make.__name__}'"
    return text


if __name__ == "__main__":
    for page in TABLES:
        (ROOT / page).write_text(rendered(page))
