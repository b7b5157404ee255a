"""A GGUF writer for the tests, written from the format's description, and a tiny Llama to put into a file."""

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

ALIGNMENT = 32
TYPES = {bool: (7, "?"), int: (4, "I"), float: (6, "f")}


class Blocks(NamedTuple):
    """A tensor whose bytes are given as they are to stand in the file."""

    shape: tuple[int, ...]
    data: bytes
    offset: int | None = None
    """Where it is said to lie; None for where it does."""


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(thing) -> bytes:
    """A metadata value with its type in front; bytes are taken as such a pair already."""
    if isinstance(thing, bytes):
        return thing
    if isinstance(thing, str):
        return struct.pack("<I", 8) + text(thing)
    if isinstance(thing, list):
        if thing and isinstance(thing[0], str):
            return struct.pack("<IIQ", 9, 8, len(thing)) + b"".join(map(text, thing))
        return struct.pack("<IIQ", 9, 5, len(thing)) + struct.pack(f"<{len(thing)}i", *thing)
    number, code = TYPES[type(thing)]
    return struct.pack(f"<I{code}", number, thing)


def q8_0(weights: np.ndarray) -> bytes:
    """Blocks of 32: one half-precision scale, then 32 signed bytes."""
    out = b""
    for block in weights.astype(np.float32).reshape(-1, 32):
        d = np.float16(np.abs(block).max() / 127)
        q = np.clip(np.round(block / np.float32(d)), -127, 127).astype(np.int8)
        out += d.tobytes() + q.tobytes()
    return out


def f32(weights: np.ndarray) -> bytes:
    return weights.astype("<f4").tobytes()


ENCODERS = {0: f32, 8: q8_0}


def write(path: Path, metadata: dict, tensors: dict[str, tuple[np.ndarray | Blocks, int]], version: int = 3) -> Path:
    """`tensors` maps a name to (weights or their blocks, number of the type)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for name, thing in metadata.items():
        head += text(name) + value(thing)
    body = b""
    for name, (weights, kind) in tensors.items():
        axes = weights.shape[::-1]
        given = isinstance(weights, Blocks)
        offset = weights.offset if given and weights.offset is not None else len(body)
        head += text(name) + struct.pack(f"<I{len(axes)}QIQ", len(axes), *axes, kind, offset)
        data = weights.data if given else ENCODERS[kind](weights)
        body += data + b"\0" * (-len(data) % ALIGNMENT)
    path.write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + body)
    return path


# -- a tiny model ------------------------------------------------------------------------------------------------------

HEADS, KV_HEADS, DIM, DEPTH, FFN, BASE, EPS = 4, 2, 8, 2, 64, 100.0, 1e-5
WIDTH = HEADS * DIM


def byte_alphabet() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in plain] + [chr(256 + i) for i in range(256 - len(plain))]


TOKENS = ["<|endoftext|>", "<|im_end|>", *byte_alphabet(), "Ġt", "he", "Ġthe", "in", "12"]
MERGES = ["Ġ t", "h e", "Ġt he", "i n", "1 2"]


def metadata(**changes) -> dict:
    """What a file of this tiny Llama says."""
    said = {
        "general.architecture": "llama",
        "llama.block_count": DEPTH,
        "llama.context_length": 64,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": FFN,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.rope.freq_base": BASE,
        "llama.rope.dimension_count": DIM,
        "llama.attention.layer_norm_rms_epsilon": EPS,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(TOKENS) - 2),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.eos_token_id": 1,
    }
    return {name: thing for name, thing in (said | changes).items() if thing is not None}


def weights(seed: int = 0, tied: bool = True) -> dict[str, np.ndarray]:
    """Random weights under the names of GGUF, query and key rows as such a file has them."""
    rng = np.random.default_rng(seed)
    kv = KV_HEADS * DIM
    shapes = {"token_embd.weight": (len(TOKENS), WIDTH), "output_norm.weight": (WIDTH,)}
    for i in range(DEPTH):
        shapes |= {f"blk.{i}.{name}_norm.weight": (WIDTH,) for name in ("attn", "ffn")}
        shapes |= {f"blk.{i}.attn_{name}.weight": (WIDTH, WIDTH) for name in ("q", "output")}
        shapes |= {f"blk.{i}.attn_{name}.weight": (kv, WIDTH) for name in ("k", "v")}
        shapes |= {f"blk.{i}.ffn_{name}.weight": (FFN, WIDTH) for name in ("gate", "up")}
        shapes |= {f"blk.{i}.ffn_down.weight": (WIDTH, FFN)}
    if not tied:
        shapes["output.weight"] = (len(TOKENS), WIDTH)
    return {
        name: (1 + 0.1 * rng.normal(size=shape) if len(shape) == 1 else 0.3 * rng.normal(size=shape)).astype(np.float32)
        for name, shape in shapes.items()
    }


def model_file(path: Path, seed: int = 0, tied: bool = True, **changes) -> Path:
    return write(path, metadata(**changes), {name: (w, 0) for name, w in weights(seed, tied).items()})


def nll(weights: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """-log p of every token but the first, in float64, one position and one head at a time.

    Rotary positions are written in the file's own order: neighbours (x_0, x_1) are a complex number that is turned.
    """
    W = {name: w.astype(np.float64) for name, w in weights.items()}
    norm = lambda x, w: x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * w  # noqa: E731
    softmax = lambda z: np.exp(z - z.max()) / np.exp(z - z.max()).sum()  # noqa: E731
    L = len(ids)
    turns = [np.exp(1j * l * BASE ** (-2 * np.arange(DIM // 2) / DIM)) for l in range(L)]

    def turned(x_L_HD: np.ndarray) -> np.ndarray:
        pairs = x_L_HD[..., 0::2] + 1j * x_L_HD[..., 1::2]
        spun = np.stack([pairs[l] * turns[l] for l in range(L)])
        return np.stack([spun.real, spun.imag], -1).reshape(x_L_HD.shape)

    x = W["token_embd.weight"][ids]
    for i in range(DEPTH):
        B = {name.split(".", 2)[2].removesuffix(".weight"): w for name, w in W.items() if name.startswith(f"blk.{i}.")}
        h = norm(x, B["attn_norm"])
        q = turned((h @ B["attn_q"].T).reshape(L, HEADS, DIM))
        k = turned((h @ B["attn_k"].T).reshape(L, KV_HEADS, DIM))
        v = (h @ B["attn_v"].T).reshape(L, KV_HEADS, DIM)
        mixed = np.zeros((L, HEADS, DIM))
        for l in range(L):
            for head in range(HEADS):
                group = head // (HEADS // KV_HEADS)
                p = softmax(k[: l + 1, group] @ q[l, head] / np.sqrt(DIM))
                mixed[l, head] = p @ v[: l + 1, group]
        x = x + mixed.reshape(L, WIDTH) @ B["attn_output"].T
        h = norm(x, B["ffn_norm"])
        gate = h @ B["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ B["ffn_up"].T)) @ B["ffn_down"].T
    logits = norm(x, W["output_norm.weight"]) @ W.get("output.weight", W["token_embd.weight"]).T
    return np.array([-np.log(softmax(logits[l])[ids[l + 1]]) for l in range(L - 1)])
