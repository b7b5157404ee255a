"""Writes the README's result tables from results/*.json: python benchmarks/readme.py

A test compares the README with what this renders, so a number there is always one that was measured.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import mean

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
    model, theirs = ours["model"], ours["model"]["paper"]
    total = ours["rows"][0]["total"]
    lines += [
        "",
        f"{total:,} puzzles a difficulty from seed {ours['data']['seed']}, never trained on; thresholds chosen on "
        f"others. dbtm: one checkpoint for all difficulties, {model['parameters'] / 1e6:.1f}M parameters (8 blocks "
        f"applied twice), {model['flops_per_evaluation'] / 1e9:.1f} GFLOPs an evaluation, trained for "
        f"{training['seconds'] / 60:.0f} minutes on one {training['hardware']} ({training['steps']:,} steps of "
        f"{training['batch']:,}, in {len(training['segments'])} segments: see results/sudoku-training.json). "
        f"Paper: {theirs['parameters'] / 1e6:.1f}M parameters, "
        f"{theirs['flops_per_evaluation'] / 1e9:.1f} GFLOPs (computed from its sizes), up to 200,000 steps of 256.",
    ]
    return "\n".join(lines)


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
        f"| `markov` | total variation of adjacent pairs at 1 / 2 / 4 NFE; independent positions cannot get below "
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
    ours, ril = "transport + anchor + boundary", "with ril, k = 4"
    lines = ["| on one NVIDIA H200, bfloat16 | measured |", "|---|---|"]
    for name, step in steps.items():
        row = rows[name][ours]
        lines.append(
            f"| step with transport, anchor and boundary, against plain cross-entropy: `{name}`, batch {step['batch']} "
            "| "
            f"{row['ratio_vs_ce']:.2f} x the time (with {row['head_rows']:.0%} of its rows in the head), "
            f"{row['share_of_peak']:.0%} of the matrix peak, {row['peak_gib']:.0f} GiB |"
        )
    lines.append(
        f"| with four rounds of refinement in the loop on top: `sudoku-paper` | "
        f"{rows['sudoku-paper'][ril]['ratio_vs_ce']:.2f} x |"
    )
    for row in read("bench-attention")["steps"]:
        B, L, V = row["size"]
        how = {"plain": "plain", "replayed": "as a CUDA graph", "compiled": "compiled, as a CUDA graph"}
        ours, theirs = (how[row["best"][name]] for name in ("ours", "jvp"))
        lines.append(
            f"| step of a four-block map ({ours}), B = {B}, L = {L}, V = {V}, against `torch.func.jvp` ({theirs}) "
            f"(the paper's kernel on an A100: {row['paper_speed']} x, {row['paper_memory']} x) | "
            f"{row['speed']:.1f} x as fast, {row['memory']:.1f} x less memory |"
        )
    for row in read("bench-head")["rows"]:
        lines.append(
            f"| head and losses in chunks against dense logits, V = {row['vocab']:,} | {row['speed']:.1f} x as fast, "
            f"{1 / row['memory']:.2f} x the memory |"
        )
    prior = read("bench-sampler")["prior"]
    lines.append(
        f"| drawing the prior, V = {prior['vocab']:,}, D = {prior['width']}, against the dense draw | "
        f"{prior['speed']:.0f} x as fast |"
    )
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {"sudoku": sudoku, "speed": speed, "toys": toys}


def rendered(text: str) -> str:
    """The README with every table between its markers made anew."""
    for name, make in TABLES.items():
        pattern = rf"(<!-- begin: {name} -->\n).*?(<!-- end: {name} -->)"
        table = make()
        text, found = re.subn(pattern, lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text, flags=re.S)
        assert found == 1, f"README.md has no markers for '{name}'"
    return text


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(rendered(path.read_text()))
