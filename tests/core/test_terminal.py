"""Printed text cannot control a terminal, and an error is one readable line."""

import io

from hypothesis import given
from hypothesis import strategies as st

from dbtm.cli.console import complain, open_console, say
from dbtm.core.terminal import LONGEST, one_line, visible

OSC = "\x1b]0;title\x07"


@given(st.text())
def test_visible_keeps_letters_and_lines_and_shows_the_rest(text):
    shown = visible(text)
    assert len(shown) == len(text)
    assert not {c for c in shown if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0} - {"\n", "\t"}
    assert all(a == b for a, b in zip(text, shown) if a.isprintable())


@given(st.text(max_size=5000))
def test_one_line_is_printable_and_short(text):
    line = one_line(text)
    assert line == "" or line.isprintable()
    assert len(line) <= LONGEST


def test_the_middle_of_a_long_line_is_left_out():
    line = one_line("a" * 3000 + "the end")
    assert line.startswith("aaa")
    assert line.endswith("the end")
    assert " ... " in line


def test_commands_print_through_it(capsys):
    say("x", OSC)
    complain(f"no such file: {OSC}\nsecond")
    out, err = capsys.readouterr()
    assert out == "x ␛]0;title␇\n"
    assert err == "dbtm: no such file: ␛]0;title␇␊second\n"


def test_tables_keep_their_colours_and_lose_a_strangers():
    from rich.table import Table
    from rich.text import Text

    file = io.StringIO()
    table = Table("name")
    table.add_row(Text(OSC, "bold red"))
    open_console(file=file, force_terminal=True, color_system="standard").print(table)
    printed = file.getvalue()
    assert "\x1b[" in printed  # rich's own
    assert "\x1b]" not in printed
    assert "\x07" not in printed
    assert "␛]0;title" in printed
