"""Words for a terminal. Names and texts may come from strangers' files: none of them may give it orders."""

LONGEST = 1000  # characters of a line about what went wrong
_HIDDEN = [*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]  # C1 codes, changes of direction
_VISIBLE = {i: chr(0x2400 + i) for i in range(0x20) if chr(i) not in "\n\t"} | {0x7F: "␡"} | dict.fromkeys(_HIDDEN, "�")
_ONE_LINE = _VISIBLE | {0x09: " ", 0x0A: "␊"}


def visible(text: str) -> str:
    """Control characters as pictures; lines and tabs stay."""
    return text.translate(_VISIBLE)


def one_line(text: str) -> str:
    """Everything that cannot be printed as a picture, on one line; the middle of a very long one is left out."""
    text = "".join(c if c.isprintable() else "�" for c in text.translate(_ONE_LINE))
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 250]} ... {text[-200:]}"
