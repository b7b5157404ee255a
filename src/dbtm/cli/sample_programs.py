"""Programs that `dbtm sample` shows: generated for a question, run in the sandbox, their answers told."""

from typing import TYPE_CHECKING, Any

from dbtm.cli.sample_kinds import Kind, Words
from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from dbtm.sampling import Trace
    from dbtm.sandbox import Outcome
    from dbtm.tasks.gsm8k.task import Gsm8k
    from dbtm.viz.text import Sample


class Programs(Kind):
    """n programs for one question; where none is asked, one each for n problems that nobody trains on."""

    noun = "program"
    task: "Gsm8k"

    def __init__(self, task: "Gsm8k", words: Words, n: int, seed: int, run: bool):
        from dbtm.viz.spell import Speller

        words.only("prompt", why="is for text: a program is generated from its question, --prompt 'How many ...?'")
        self.run = run
        self.answers: list[float | None] = [None] * n
        if words.prompt is None:
            self.questions, self.answers = _problems(task, n, seed)
        else:
            self.questions = [_checked(task, words.prompt)] * n
        given, _ = task.given(self.questions)
        spell = Speller(task.layout.tokenizer, task.layout.end, task.layout.pad)
        super().__init__(task, spell, (given["tokens"], given["clean"]))

    def samples(self, trace: "Trace") -> "list[Sample]":
        """The programs are run on the way, if they are to be; the question is not repeated in every round."""
        self.programs = self.task.programs(trace.tokens, trace.prompt)
        self.outcomes = _run(self.programs) if self.run else [_not_run("as asked")] * len(self.programs)
        told = [_verdict(outcome, answer) for outcome, answer in zip(self.outcomes, self.answers)]
        return [
            self._sample(trace, b, question=self.questions[b], first=int(given), facts={"answer": told[b]})
            for b, given in enumerate(trace.prompt.sum(-1))
        ]

    def document(self, trace: "Trace") -> dict[str, Any]:
        return {
            **super().document(trace),
            "questions": self.questions,
            "answers": self.answers,
            "programs": self.programs,
            "outcomes": [vars(outcome) for outcome in self.outcomes],
        }

    def body(self, console: "Console", b: int, sample: "Sample", rounds: bool) -> None:
        from rich.syntax import Syntax
        from rich.text import Text

        from dbtm.viz.spell import visible
        from dbtm.viz.text import LOOKS

        pipe = not console.is_terminal
        console.print(Text(visible(sample.question), LOOKS["given"].style), "", sep="\n", soft_wrap=pipe)
        if rounds:
            super().body(console, b, sample, rounds)
            console.print()
        program = visible(self.programs[b]).rstrip()
        code = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(program)
        if not program:
            code = Text("(an empty program)", "dim")
        console.print(code, "", Text(sample.facts["answer"], "bold"), sep="\n", soft_wrap=pipe)


def _problems(task: "Gsm8k", n: int, seed: int) -> tuple[list[str], list[float | None]]:
    """Questions and answers of held-out synthetic problems that are short enough."""
    from dbtm.tasks.gsm8k.synthetic import held_out

    made = held_out(4 * n, seed)
    _, fits_B = task.given([example.question for example in made])
    short = [example for example, fits in zip(made, fits_B) if fits][:n]
    if len(short) < n:
        raise UsageError(f"the built-in problems are too long for {task.length} tokens: ask your own with --prompt")
    return [example.question for example in short], [example.answer for example in short]


def _checked(task: "Gsm8k", question: str) -> str:
    """A question that leaves room for a program."""
    from dbtm.tasks.text.given import check_utf8

    if not question.strip():
        raise UsageError("--prompt is empty: give the question that a program should answer")
    check_utf8(question)
    n = len(task.layout.prompts([question])[0])
    if n >= task.length:
        raise UsageError(
            f"{n} given and at least 1 generated tokens are more than the {task.length} that a sequence of this model "
            "holds: ask more briefly"
        )
    return question


def _run(programs: list[str]) -> "list[Outcome]":
    """What the programs return; where none can be run, they are shown all the same."""
    from dbtm.sandbox import Sandbox

    try:
        with Sandbox() as sandbox:
            sandbox.warn()
            return list(sandbox.map(programs))
    except UsageError as error:
        return [_not_run(str(error))] * len(programs)


def _not_run(why: str) -> "Outcome":
    from dbtm.sandbox import Outcome

    return Outcome("not run", detail=why)


def _verdict(outcome: "Outcome", answer: float | None) -> str:
    """A program's answer in words, beside the right one where it is known."""
    from dbtm.tasks.gsm8k.answers import verdict
    from dbtm.viz.spell import visible

    if outcome.kind != "value":
        return visible(f"no answer ({outcome.kind}{': ' if outcome.detail else ''}{outcome.detail})")
    told = visible(f"returns {outcome.value}")
    if answer is None:
        return told
    return f"{told}, correct" if verdict(outcome, answer) == "correct" else f"{told}, wrong: it is {answer:g}"
