"""`dbtm sample CHECKPOINT`: draw sequences from a trained map."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dbtm.cli import files
from dbtm.errors import UsageError


def sample(
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint folder, or a run, of which the newest is taken.")],
    n: Annotated[int, typer.Option(help="How many samples.")] = 4,
    nfe: Annotated[int | None, typer.Option(help="Network evaluations: the budget of refinement rounds.")] = None,
    kappa: Annotated[float | None, typer.Option(help="Commit what scores at least this.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 takes the most likely token.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Scale of the prior noise.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="0 is off.")] = None,
    scorer: Annotated[str | None, typer.Option(help="confidence, quality or none.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same samples.")] = 0,
    given: Annotated[
        str | None, typer.Option(help="Tokens to keep, _ where to generate: '3 1 _ _ 7' (prompt, suffix, infilling).")
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every round.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write tokens and trace as JSON.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Draw samples; see them refined round by round with --trace."""
    if n < 1:
        raise UsageError("--n must be at least 1")
    files.check("--json", json_file)
    from dbtm.loading import load

    sampler = load(checkpoint, device)
    asked = {
        "nfe": nfe,
        "kappa": kappa,
        "temperature": temperature,
        "sigma": sigma,
        "repetition_penalty": repetition_penalty,
        "scorer": scorer,
    }
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    tokens, clean = _given(given, n, sampler.model.config.vocab, sampler.model.config.length)
    result = sampler.sample(tokens=tokens, clean=clean, seed=seed, trace=trace or json_file is not None, **options)
    for b in range(n):
        if trace:
            _print_rounds(result, b)
        text = sampler.task.text(result.tokens[b]) if sampler.task else " ".join(map(str, result.tokens[b]))
        print(f"{text}    ({result.nfe[b]} NFE)")
    if json_file is not None:
        _write_json(json_file, result)


def _given(text: str | None, n: int, vocab: int, length: int):
    """(tokens, clean) for n copies of what is given."""
    import numpy as np

    words = text.split() if text is not None else ["_"] * length
    if len(words) != length:
        raise UsageError(f"--given has {len(words)} entries, the model's sequences have {length}")
    for word in words:
        if word != "_" and not (word.isdecimal() and int(word) < vocab):
            raise UsageError(f"--given: '{word}' is not a token (0..{vocab - 1}) or _")
    row = np.array([0 if word == "_" else int(word) for word in words])
    clean = np.array([word != "_" for word in words])
    return np.tile(row, (n, 1)), np.tile(clean, (n, 1))


def _print_rounds(result, b: int) -> None:
    """One line a round: committed tokens plain, refining ones in parentheses."""
    for r, state in enumerate(result.rounds[: result.nfe[b]], 1):
        shown = (str(t) if c else f"({t})" for t, c in zip(state.tokens[b], state.committed[b], strict=True))
        print(f"  round {r}: {' '.join(shown)}")


def _write_json(path: Path, result) -> None:
    import json

    rounds = [
        {"tokens": r.tokens.tolist(), "committed": r.committed.tolist(), "score": r.score.tolist()}
        for r in result.rounds
    ]
    document = {"tokens": result.tokens.tolist(), "nfe": result.nfe.tolist(), "rounds": rounds}
    files.write(path, json.dumps(document) + "\n")
