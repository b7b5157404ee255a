"""A judge from a GGUF file: a Llama and its byte-level tokenizer, both built from the file's content.

The content is checked before anything is built from it: a damaged file is a one-line error, never a hang or memory far
beyond the file's size.
"""

import reprlib
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dbtm.core.device import fast_bf16
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.evals.judges.base import Judge
from dbtm.evals.judges.llama import Llama, LlamaConfig, unpermute

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from dbtm.evals.judges.gguf_reader import GGUF

_CONTROL, _USER_DEFINED = 3, 4  # types of tokens that stand for themselves in a text
_HEAD_ROWS = 512  # positions whose logits over the whole vocabulary are held at once
_PER_BLOCK = 9  # tensors
_LARGEST = 1 << 24  # for every size: above that of any Llama, and low enough that no weight's size in bytes overflows


class GGUFJudge(Judge):
    """The weights are decoded once. Products are bfloat16 on a CPU that supports them, else float32."""

    def __init__(self, path: Path, device: torch.device, name: str | None = None, dtype: torch.dtype | None = None):
        file = read(path)
        self.path = path
        config = llama_config(file)
        self.name = name or path.name
        self.context, self.device = config.context, device
        self.dtype = dtype or (torch.bfloat16 if device.type == "cpu" and fast_bf16(device) else torch.float32)
        tokens = _tokens(file, config.vocab)
        self.tokenizer = build_tokenizer(file, tokens)
        self.ends = _ends(file, tokens)
        self.model = load_llama(file, config, self.dtype).to(device)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "file": self.path.name, "sha256": self.digest}

    @cached_property
    def digest(self) -> str:
        return sha256(self.path)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def states(self, ids_BL: Tensor) -> Tensor:
        return self.model.hidden(ids_BL)

    def token_nll(self, ids_BL: Tensor) -> Tensor:
        state_ND = self.states(ids_BL)[:, :-1].flatten(0, 1).to(self.dtype)
        parts = zip(state_ND.split(_HEAD_ROWS), ids_BL[:, 1:].flatten().split(_HEAD_ROWS))
        nll = [F.cross_entropy(self.model.output(state).float(), ids, reduction="none") for state, ids in parts]
        return torch.cat(nll).view(len(ids_BL), -1)


def read(path: Path) -> "GGUF":
    """The file, opened; the package that reads it is imported only here."""
    require_package()
    from dbtm.evals.judges.gguf_reader import GGUF

    return GGUF(path)


def require_package() -> None:
    """Raise a UsageError that names the missing package."""
    if find_spec("gguf") is None:
        raise UsageError("smollm2 and other judges from GGUF files need the package gguf: pip install gguf")


def llama_config(file: "GGUF") -> LlamaConfig:
    """The sizes in the file; unsupported variants of Llama are refused."""
    architecture = file.text("general.architecture", "none")
    if architecture != "llama":
        raise UsageError(f"{file.path} has the architecture {reprlib.repr(architecture)}: only 'llama' is supported")

    def size(name: str, low: int = 1, default: int | None = None) -> int:
        return file.integer(f"llama.{name}", low, _LARGEST, default)

    embedding = file.shapes.get("token_embd.weight", ())
    if len(embedding) != 2 or not 1 <= embedding[0] <= _LARGEST:
        raise UsageError(f"{file.path} has no token_embd.weight with two axes: is it a language model?")
    heads = size("attention.head_count")
    config = LlamaConfig(
        vocab=embedding[0],
        width=size("embedding_length"),
        depth=size("block_count"),
        heads=heads,
        kv_heads=size("attention.head_count_kv", default=heads),
        ffn=size("feed_forward_length"),
        context=size("context_length", low=2),  # a token is scored given the one before it
        rope_base=file.positive("llama.rope.freq_base", 10_000.0),
        eps=file.positive("llama.attention.layer_norm_rms_epsilon"),
        tied="output.weight" not in file.shapes,
    )
    if config.depth * _PER_BLOCK > len(file.shapes):
        raise UsageError(
            f"{file.path} is damaged: {len(file.shapes)} tensors are too few for its {config.depth} blocks"
        )
    if config.width % (2 * heads) or heads % config.kv_heads:
        raise UsageError(
            f"{file.path} is damaged: a width of {config.width} cannot be split into {heads} heads of even width that "
            f"share {config.kv_heads} key heads"
        )
    scaling = file.text("llama.rope.scaling.type", "none")
    rotated, key = (size(name, default=config.head_dim) for name in ("rope.dimension_count", "attention.key_length"))
    if scaling != "none" or not rotated == key == config.head_dim:
        raise UsageError(f"{file.path} is a Llama with scaled or partial rotary positions, which are not supported")
    return config


def load_llama(file: "GGUF", config: LlamaConfig, dtype: torch.dtype) -> Llama:
    """The model with the file's weights, none missing and none left over."""
    with torch.device("meta"):
        model = Llama(config).lower(dtype)
    wanted = dict(model.named_parameters())
    if strange := sorted(wanted.keys() ^ file.shapes.keys()):
        told = ", ".join(map(reprlib.repr, strange[:3]))
        raise UsageError(f"{file.path} does not have the tensors of a plain Llama: see {told}")
    weights = {}
    for name, parameter in wanted.items():
        if file.shapes[name] != parameter.shape:
            raise UsageError(
                f"{file.path} is damaged: {name} is {reprlib.repr(file.shapes[name])}, not {tuple(parameter.shape)}"
            )
        weight = torch.from_numpy(file.tensor(name))
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            weight = unpermute(weight, config.heads if "attn_q" in name else config.kv_heads)
        weights[name] = weight.to(parameter.dtype)
    if config.tied:
        weights["output.weight"] = weights["token_embd.weight"]
    model.load_state_dict(weights, assign=True)
    return model.eval().requires_grad_(False)


def build_tokenizer(file: "GGUF", tokens: list[str]) -> "Tokenizer":
    """Byte-level BPE with the file's tokens and merges, cut into words as its pre-tokenizer says."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    cuts = {"gpt-2": words, "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])}
    model, cut = (file.text(f"tokenizer.ggml.{name}", "none") for name in ("model", "pre"))
    if model != "gpt2" or cut not in cuts:
        raise UsageError(
            f"{file.path} has the tokenizer {reprlib.repr(model)} with pre-tokenizer {reprlib.repr(cut)}: only 'gpt2' "
            f"with {' or '.join(map(repr, cuts))} is supported"
        )
    pairs = (merge.partition(" ") for merge in file.texts("tokenizer.ggml.merges"))
    merges = [(first, second) for first, _, second in pairs]
    vocab = {token: id for id, token in enumerate(tokens)}
    for merge in merges:
        if not all(merge) or not {*merge, "".join(merge)} <= vocab.keys():
            raise UsageError(
                f"{file.path} is damaged: its tokenizer merges {reprlib.repr(merge)}, which are not tokens"
            )
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = cuts[cut]
    tokenizer.decoder = decoders.ByteLevel()
    kinds = file.numbers("tokenizer.ggml.token_type", [])
    special = [token for token, kind in zip(tokens, kinds) if kind in (_CONTROL, _USER_DEFINED)]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def _tokens(file: "GGUF", vocab: int) -> list[str]:
    """The tokens by their number; each has a row of the embedding, which may have more."""
    tokens = file.texts("tokenizer.ggml.tokens")
    if not 1 <= len(tokens) <= vocab:
        raise UsageError(f"{file.path} is damaged: it has {len(tokens)} tokens and an embedding of {vocab}")
    return tokens


def _ends(file: "GGUF", tokens: list[str]) -> frozenset[int]:
    ends = {tokens.index("<|endoftext|>")} if "<|endoftext|>" in tokens else set()
    if file.states("tokenizer.ggml.eos_token_id"):
        ends.add(file.integer("tokenizer.ggml.eos_token_id", 0, len(tokens) - 1))
    return frozenset(ends)
