"""Every table and figure of the paper by its label, in the paper's order."""

from dbtm.core.errors import UsageError, nearest
from dbtm.service.reproduction.entries import frontiers, maths, samples, settings, sudoku, text, theory
from dbtm.service.reproduction.entry import Entry
from dbtm.service.reproduction.results import read

_ALL = {
    entry.label: entry
    for module in (theory, settings, sudoku, maths, text, frontiers, samples)
    for entry in module.ENTRIES
}
ENTRIES: dict[str, Entry] = {label: _ALL[label] for label in read("paper")["tables"]}


def find(name: str) -> Entry:
    """The entry of a label, with or without its `tab:` or `fig:`."""
    named = [label for label in ENTRIES if name in (label, label.partition(":")[2])]
    if not named:
        raise UsageError(f"the paper has no table or figure '{name}'{nearest(name, ENTRIES)}")
    return ENTRIES[named[0]]
