"""The kinds of models that `dbtm sample` knows: what each can be given, and how its samples are shown."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from dbtm.sampling import Trace
    from dbtm.tasks.base import Task
    from dbtm.tasks.text.task import Text
    from dbtm.viz.text import Sample


class Words(NamedTuple):
    """What a user gives of a sample; None where an option is left out."""

    prompt: str | None = None
    suffix: str | None = None
    infill: str | None = None
    hole: int | None = None
    given: str | None = None

    def only(self, *names: str, why: str) -> None:
        """Refuse all others."""
        for name, value in self._asdict().items():
            if value is not None and name not in names:
                raise UsageError(f"--{name} {why}")


class Kind:
    """Samples that are asked for: what is given of them, (B, L) tokens and mask, and how their tokens are spelled."""

    noun: str

    def __init__(
        self, task: "Task", spell: "Callable[[np.ndarray], list[str]]", given: "tuple[np.ndarray, np.ndarray]"
    ):
        self.task, self.spell = task, spell
        self.tokens_BL, self.clean_BL = given

    def samples(self, trace: "Trace") -> "list[Sample]":
        """The samples as the views show them."""
        return [self._sample(trace, b) for b in range(len(trace.tokens))]

    def _sample(self, trace: "Trace", b: int, **more: Any) -> "Sample":
        """One sample with its rounds; where none were kept, the result is the only one."""
        from dbtm.sampling.trace import Round as State
        from dbtm.viz.text import Round, Sample

        states = trace.rounds[: trace.nfe[b]] or [State(trace.tokens, trace.tokens >= 0, trace.tokens >= 0)]
        rounds = [Round(self.spell(state.tokens[b]), state.committed[b], state.score[b]) for state in states]
        facts = {"network evaluations": str(trace.nfe[b]), **more.pop("facts", {})}
        return Sample(trace.prompt[b], rounds, facts=facts, **more)

    def document(self, trace: "Trace") -> dict[str, Any]:
        """What the JSON tells beside tokens and rounds."""
        return {"text": [self.task.text(row) for row in trace.tokens]}

    def show(self, trace: "Trace", samples: "list[Sample]", rounds: bool) -> None:
        """Every sample under a heading, with its rounds or without."""
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False)
        for b, sample in enumerate(samples):
            console.print(Text.assemble((f"sample {b + 1} of {len(samples)}", "bold"), f"  {trace.nfe[b]} NFE"))
            self.body(console, b, sample, rounds)
            console.print()

    def body(self, console: "Console", b: int, sample: "Sample", rounds: bool) -> None:
        """The text itself. A pipe gets its lines as they are, a terminal gets them wrapped."""
        from dbtm.viz.text import TextTrace, result

        console.print(TextTrace(sample) if rounds else result(sample), soft_wrap=not console.is_terminal)


class Tokens(Kind):
    """Of a model that has no words."""

    noun = "token sequence"

    def __init__(self, task: "Task", words: Words, n: int):
        words.only("given", why=f"is for text, but this model was trained on '{task.name}': give tokens with --given")
        super().__init__(task, lambda tokens_L: [f"{token} " for token in tokens_L], from_numbers(words.given, n, task))

    def show(self, trace: "Trace", samples: "list[Sample]", rounds: bool) -> None:
        """One line a sample. Of its rounds: committed tokens plain, refining ones in parentheses."""
        for b, row in enumerate(trace.tokens):
            for r, state in enumerate(trace.rounds[: trace.nfe[b]] if rounds else [], 1):
                pairs = zip(state.tokens[b], state.committed[b], strict=True)
                print(f"  round {r}: {' '.join(str(t) if c else f'({t})' for t, c in pairs)}")
            print(f"{self.task.text(row)}    ({trace.nfe[b]} NFE)")


class Texts(Kind):
    """Of a model of text: from nothing, around what is given, or by token numbers."""

    noun = "text"

    def __init__(self, task: "Text", words: Words, n: int):
        from dbtm.viz.spell import Speller

        if words.given is not None:
            words.only("given", why="and --given both say what is given: leave one out")
            given = from_numbers(words.given, n, task)
        else:
            given = from_words(words, n, task)
        super().__init__(task, Speller(task.words, task.borders.eos), given)


def from_words(words: Words, n: int, task: "Text") -> "tuple[np.ndarray, np.ndarray]":
    """(tokens, clean) for n copies of a prompt and a suffix, or of a text with holes."""
    import numpy as np

    from dbtm.tasks.text import given

    if words.infill is None:
        parts = given.around(words.prompt or "", words.suffix or "")
    else:
        words.only("infill", "hole", why="is part of --infill: write it into that text")
        parts = given.template(words.infill)
    tokens_L, clean_L = given.place(task, parts, words.hole)
    return np.tile(tokens_L, (n, 1)), np.tile(clean_L, (n, 1))


def from_numbers(text: str | None, n: int, task: "Task") -> "tuple[np.ndarray, np.ndarray]":
    """(tokens, clean) for n copies of '3 1 _ _ 7'."""
    import numpy as np

    words = text.split() if text is not None else ["_"] * task.length
    if len(words) != task.length:
        raise UsageError(f"--given has {len(words)} entries, the model's sequences have {task.length}")
    for word in words:
        if word != "_" and not (word.isdecimal() and int(word) < task.vocab):
            raise UsageError(f"--given: '{word}' is not a token (0..{task.vocab - 1}) or _")
    row = np.array([0 if word == "_" else int(word) for word in words])
    clean = np.array([word != "_" for word in words])
    return np.tile(row, (n, 1)), np.tile(clean, (n, 1))
