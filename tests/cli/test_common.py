"""What commands share: options of samplers, declared once, and progress."""

import re
import sys
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from dbtm.cli import app
from dbtm.cli.common import _advice, shown_progress
from dbtm.cli.options import SAMPLER, takes_sampler_options

HELP = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


@pytest.fixture
def heard():
    """A command of its own, and what it receives."""
    calls, made = [], typer.Typer()

    @made.command()
    @takes_sampler_options("horizon")
    def draw(
        checkpoint: str,
        context: typer.Context,
        n: Annotated[int, typer.Option(help="How many.")] = 4,
        *,
        options: dict[str, Any],
    ) -> None:
        """Draw some."""
        calls.append((checkpoint, n, options, context.get_parameter_source("nfe").name))

    return made, calls


def test_options_arrive_as_one_dictionary_of_what_was_given(heard):
    made, calls = heard
    words = ["run", "--nfe", "3", "--top-p", ".9", "--same-noise", "--commit", "--order", "random", "--n", "2"]
    assert HELP.invoke(made, words).exit_code == 0
    assert HELP.invoke(made, ["run"]).exit_code == 0
    given = {"nfe": 3, "top_p": 0.9, "fresh_noise": False, "commit": True, "order": "random"}
    assert calls == [("run", 2, given, "COMMANDLINE"), ("run", 4, {}, "DEFAULT")]


def test_arguments_stay_required_and_types_are_checked(heard):
    made, calls = heard
    for words in ([], ["run", "--nfe", "many"], ["run", "--horizon", "2"]):
        assert HELP.invoke(made, words).exit_code == 2
    assert not calls


def test_help_names_every_option_once(heard):
    made, _ = heard
    shown = HELP.invoke(made, ["--help"]).output
    assert "Draw some." in shown
    for name in SAMPLER:
        flag = f"--{name.replace('_', '-')}"
        assert len(re.findall(rf"{flag}\b", shown)) == (0 if name == "horizon" else 1), flag


@pytest.mark.parametrize("command", ["solve", "sample"])
def test_commands_that_sample_take_all_of_them(command):
    shown = HELP.invoke(app, [command, "--help"]).output
    assert all(f"--{name.replace('_', '-')}" in shown for name in SAMPLER)


def test_notes_are_warnings_and_logs_hold_no_bars(capsys):
    with shown_progress() as progress:
        progress.stage("sampling", 3)
        progress.advance(2)
        progress.note("the sandbox is without [seccomp] here")
        assert not progress.cancelled()
    out, err = capsys.readouterr()
    assert (out, err) == ("", "warning: the sandbox is without [seccomp] here\n")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"nfe": 4, "check": 12}, ["budget: 4 evaluations per answer, 12 for checks", "--nfe 16", "--tries"]),
        ({"nfe": 4}, ["; try more evaluations (--nfe 16), or new noise (--tries 8)"]),
        ({"nfe": 16, "check": 12}, ["budget: 16 evaluations per answer", "; try new noise (--tries 8)"]),
        ({}, []),
    ],
)
def test_advice_after_a_wrong_answer_tells_rounds_from_checks(settings, words):
    advice = _advice(settings)
    assert all(each in advice for each in words)
    assert ("--nfe" in advice) == (settings.get("nfe", 16) < 16)
    assert bool(advice) == bool(words)


def test_ctrl_c_while_the_command_is_imported_prints_no_traceback(monkeypatch):
    class Interrupted:
        def find_spec(self, name, path=None, target=None):
            if name == "dbtm.cli":
                raise KeyboardInterrupt

    from dbtm.__main__ import main

    monkeypatch.delitem(sys.modules, "dbtm.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
