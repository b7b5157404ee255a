"""Words for a terminal. Names and texts may come from strangers' files: none of them may give it orders."""

_HIDDEN = [*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]  # C1 codes, changes of direction
_VISIBLE = {i: chr(0x2400 + i) for i in range(0x20) if chr(i) not in "\n\t"} | {0x7F: "␡"} | dict.fromkeys(_HIDDEN, "�")
_ONE_LINE = _VISIBLE | {0x09: " ", 0x0A: "␊", 0x2028: "␊", 0x2029: "␊"}


def visible(text: str) -> str:
    """Control characters as pictures; lines and tabs stay."""
    return text.translate(_VISIBLE)


def one_line(text: str) -> str:
    """The same on one line."""
    return text.translate(_ONE_LINE)
