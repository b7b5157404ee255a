"""Text for a terminal. Names and texts may come from untrusted files and must not contain control sequences."""

LONGEST = 1000  # characters of an error line
_HIDDEN = [*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]  # C1 codes, changes of writing direction
_VISIBLE = {i: chr(0x2400 + i) for i in range(0x20) if chr(i) not in "\n\t"} | {0x7F: "␡"} | dict.fromkeys(_HIDDEN, "�")
_ONE_LINE = _VISIBLE | {0x09: " ", 0x0A: "␊"}


def visible(text: str) -> str:
    """Replace control characters by visible symbols; newlines and tabs stay."""
    return text.translate(_VISIBLE)


def one_line(text: str) -> str:
    """The text on one line, with visible symbols for control characters; the middle of a very long text is omitted."""
    text = "".join(c if c.isprintable() else "�" for c in text.translate(_ONE_LINE))
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 250]} ... {text[-200:]}"
