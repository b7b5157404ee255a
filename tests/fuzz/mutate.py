"""Ways to damage bytes and JSON. Everything is drawn from one seeded generator, so that a seed names an input."""

import json
import random
import struct
from collections.abc import Callable
from typing import Any

Draw = random.Random
NUMBERS = (
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
BYTES = (b"", b"\0", b"\xff", b"\xff\xfe", b"\x80", b"\n", b"\x1b]0;x\x07", b"\xed\xa0\x80", b"9" * 30, b"[" * 3000)


# -- bytes -------------------------------------------------------------------------------------------------------------


def flip(draw: Draw, data: bytearray) -> None:
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def set_byte(draw: Draw, data: bytearray) -> None:
    if data:
        data[draw.randrange(len(data))] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))


def truncate(draw: Draw, data: bytearray) -> None:
    del data[draw.randrange(len(data) + 1) :]


def cut(draw: Draw, data: bytearray) -> None:
    start = draw.randrange(len(data) + 1)
    del data[start : start + draw.choice((1, 2, 8, 100))]


def repeat(draw: Draw, data: bytearray) -> None:
    start = draw.randrange(len(data) + 1)
    piece = data[start : start + draw.choice((1, 4, 50, 600))]
    data[start:start] = piece * draw.choice((1, 2, 50))


def move(draw: Draw, data: bytearray) -> None:
    """A splice of the file with itself."""
    start, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    place = draw.randrange(len(data) + 1)
    data[place : place + end - start] = data[start:end]


def insert(draw: Draw, data: bytearray) -> None:
    place = draw.randrange(len(data) + 1)
    data[place:place] = draw.choice((*BYTES, draw.randbytes(8)))


def number(draw: Draw, data: bytearray) -> None:
    """An extreme number in place of 2, 4 or 8 bytes; lengths and offsets stand at the beginning more often than not."""
    size = draw.choice((2, 4, 8))
    most = min(len(data), draw.choice((64, 400, len(data) + 1)))
    if most > size:
        place = draw.randrange(most - size)
        value = (draw.choice(NUMBERS) + draw.choice((0, 0, -1, 1))) % (1 << (8 * size))
        data[place : place + size] = value.to_bytes(size, draw.choice(("little", "little", "big")))


BYTE_MUTATIONS: tuple[Callable[[Draw, bytearray], None], ...] = (
    flip,
    flip,
    set_byte,
    truncate,
    cut,
    repeat,
    move,
    insert,
    number,
    number,
)


def mutated(draw: Draw, data: bytes) -> bytes:
    """One to four damages, one after the other."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        draw.choice(BYTE_MUTATIONS)(draw, out)
    return bytes(out[: 1 << 20])


# -- JSON --------------------------------------------------------------------------------------------------------------

RAW = {  # what json.dumps does not write: stands as a string until the end
    "@deep@": "[" * 200_000,
    "@deep object@": '{"a":' * 50_000,
    "@digits@": "9" * 5000,
    "@overflow@": "1e999",
    "@balanced@": "[" * 900 + "]" * 900,
}
STRANGE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    7,
    256,
    1024,
    4096,
    2**16,
    2**17,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    10**22,
    10**400,
    0.5,
    -0.0,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "x",
    "0",
    "nan",
    "\ud800",
    "\0",
    "\x1b[2J\x1b]0;title\x07",
    "a\nb\rc",
    "\u202eabc",
    "../../etc/passwd",
    "/dev/zero",
    "/proc/self/mem",
    ".",
    "org/name",
    "x" * 5000,
    [],
    [[]],
    [0],
    [None],
    {},
    {"": None},
    {"name": "x"},
    [1e400, "x"],
    *RAW,
)


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Paths to everything in a JSON value; of long lists, to some."""
    found = [path]
    if isinstance(value, dict):
        found += [p for key, each in value.items() for p in places(each, (*path, key))]
    if isinstance(value, list):
        shown = list(enumerate(value))
        found += [p for i, each in shown[:4] + shown[4:][-2:] for p in places(each, (*path, i))]
    return found


def _other(draw: Draw, value: Any) -> Any:
    """A value near the one that is there, or far away."""
    if isinstance(value, bool) or draw.random() < 0.5:
        return draw.choice(STRANGE)
    if isinstance(value, int):
        return draw.choice((value + 1, value - 1, -value, value * 2, value * 10**6, float(value), str(value), [value]))
    if isinstance(value, float):
        return draw.choice((-value, value * 1e6, value / 1e6, int(value), str(value)))
    if isinstance(value, str):
        near = (
            value[:-1],
            value * 2,
            value.upper(),
            value + "\x07",
            value + "\ud800",
            value.encode().hex(),
            len(value),
        )
        return draw.choice(near)
    if isinstance(value, list):
        return draw.choice((value[:-1], value * 2, value[::-1], [value], dict.fromkeys("ab", value), value[:1] * 300))
    if isinstance(value, dict):
        items = list(value.items())
        return draw.choice((dict(items[:-1]), {**value, "extra": 1}, items, [value], {k.upper(): v for k, v in items}))
    return draw.choice(STRANGE)


def json_value(draw: Draw, value: Any) -> Any:
    """The value with one place changed; a copy."""
    path = draw.choice(places(value))
    if not path:
        return _other(draw, value) if draw.random() < 0.3 else json_value(draw, value) if value else _other(draw, value)
    out = json.loads(json.dumps(value))
    inside = out
    for key in path[:-1]:
        inside = inside[key]
    if draw.random() < 0.15:
        del inside[path[-1]]
    elif isinstance(inside, dict) and draw.random() < 0.15:
        inside[str(draw.choice(("", "x", path[-1] + " ", "\x1b[2J", "../x", "\ud800")))] = inside.pop(path[-1])
    else:
        inside[path[-1]] = _other(draw, inside[path[-1]])
    return out


def json_bytes(value: Any) -> bytes:
    text = json.dumps(value)
    for name, raw in RAW.items():
        text = text.replace(f'"{name}"', raw)
    return text.encode()


def json_mutated(draw: Draw, data: bytes) -> bytes:
    """A JSON document changed in one to three places, or in its bytes."""
    if draw.random() < 0.2:
        return mutated(draw, data)
    try:
        value = json.loads(data)
        for _ in range(draw.choice((1, 1, 2, 3))):
            value = json_value(draw, value)
        return json_bytes(value)
    except (ValueError, RecursionError, TypeError, OverflowError, AttributeError):
        return mutated(draw, data)


def lines_mutated(draw: Draw, data: bytes) -> bytes:
    """JSON lines with one of them changed."""
    lines = data.split(b"\n")
    if draw.random() < 0.25:
        return mutated(draw, data)
    at = draw.randrange(len(lines))
    lines[at] = json_mutated(draw, lines[at] or b"{}")
    if draw.random() < 0.1:
        draw.shuffle(lines)
    return b"\n".join(lines)


# -- formats with a header of their own --------------------------------------------------------------------------------


def tensors_mutated(draw: Draw, data: bytes) -> bytes:
    """A file of tensors that is right in itself, but not what was saved."""
    import torch
    from safetensors.torch import load, save

    tensors = load(data)
    for _ in range(draw.choice((1, 1, 3))):
        name = draw.choice(sorted(tensors) or ["x"])
        old = tensors.get(name, torch.zeros(1))
        kinds = (
            torch.int64,
            torch.bool,
            torch.float64,
            torch.bfloat16,
            torch.uint8,
            torch.complex64,
            torch.float8_e4m3fn,
        )
        others = (
            old.flatten(),
            old[None],
            old[..., :0],
            old.repeat(2, *[1] * max(0, old.ndim - 1)),
            old.to(draw.choice(kinds)),
            torch.full_like(old, 1e38),
            torch.zeros(()),
            old.T if old.ndim == 2 else old - 1,
        )
        if old.is_floating_point():
            others = (*others, torch.full_like(old, float("nan")))
        match draw.randrange(4):
            case 0:
                tensors.pop(name, None)
            case 1:
                tensors[draw.choice((name + ".x", "", "x|y|z", "\x1b[2J", "trunk.blocks.9.x", "trunk.blocks"))] = old
            case _:
                tensors[name] = draw.choice(others)
    return save({key: value.contiguous().clone() for key, value in tensors.items()})


def safetensors_mutated(draw: Draw, data: bytes) -> bytes:
    """Other tensors, or the header as JSON, with its length set right most of the time."""
    if draw.random() < 0.5:
        try:
            return tensors_mutated(draw, data)
        except Exception:  # damaged before
            return mutated(draw, data)
    if len(data) < 8 or draw.random() < 0.25:
        return mutated(draw, data)
    (size,) = struct.unpack("<Q", data[:8])
    head, body = data[8 : 8 + size], data[8 + size :]
    head = json_mutated(draw, head.rstrip() or b"{}")
    length = len(head) if draw.random() < 0.9 else draw.choice(NUMBERS)
    return struct.pack("<Q", length) + head + body
