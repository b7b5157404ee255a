"""A judge from a GGUF file: a Llama and its byte-level tokenizer, both built from what the file says."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dbtm.core.device import fast_bf16
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.evals.judges.base import Judge
from dbtm.evals.judges.gguf_file import GGUF
from dbtm.evals.judges.llama import Llama, LlamaConfig, unpermute

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CONTROL, _USER_DEFINED = 3, 4  # types of tokens that stand for themselves in a text
_HEAD_ROWS = 512  # positions whose logits over the whole vocabulary are held at once


class GGUFJudge(Judge):
    """The weights are taken out of their blocks once. Products are bfloat16 on a CPU that has them, else float32."""

    def __init__(self, path: Path, device: torch.device, name: str | None = None, dtype: torch.dtype | None = None):
        file = GGUF(path)
        self.path = path
        config = llama_config(file)
        self.name = name or path.name
        self.context, self.device = config.context, device
        self.dtype = dtype or (torch.bfloat16 if device.type == "cpu" and fast_bf16(device) else torch.float32)
        self.tokenizer = build_tokenizer(file)
        self.ends = frozenset(_ends(file))
        self.model = load_llama(file, config, self.dtype).to(device)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "file": self.path.name, "sha256": self.digest}

    @cached_property
    def digest(self) -> str:
        return sha256(self.path)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def token_nll(self, ids_BL: Tensor) -> Tensor:
        state_ND = self.model.hidden(ids_BL)[:, :-1].flatten(0, 1).to(self.dtype)
        parts = zip(state_ND.split(_HEAD_ROWS), ids_BL[:, 1:].flatten().split(_HEAD_ROWS))
        nll = [F.cross_entropy(self.model.output(state).float(), ids, reduction="none") for state, ids in parts]
        return torch.cat(nll).view(len(ids_BL), -1)


def llama_config(file: GGUF) -> LlamaConfig:
    """The sizes that the file states; what this Llama does not compute is refused."""
    architecture = file.metadata.get("general.architecture")
    if architecture != "llama":
        raise UsageError(f"{file.path} holds the architecture '{architecture}': only 'llama' is read here")

    def value(name: str, default: Any = None) -> Any:
        found = file.metadata.get(f"llama.{name}", default)
        if found is None:
            raise UsageError(f"{file.path} is damaged: it does not state llama.{name}")
        return found

    if "token_embd.weight" not in file.tensors:
        raise UsageError(f"{file.path} holds no token_embd.weight: is it a language model?")
    heads, width = value("attention.head_count"), value("embedding_length")
    config = LlamaConfig(
        vocab=file.tensors["token_embd.weight"].shape[0],
        width=width,
        depth=value("block_count"),
        heads=heads,
        kv_heads=value("attention.head_count_kv", heads),
        ffn=value("feed_forward_length"),
        context=value("context_length"),
        rope_base=value("rope.freq_base", 10_000.0),
        eps=value("attention.layer_norm_rms_epsilon"),
        tied="output.weight" not in file.tensors,
    )
    scaling = value("rope.scaling.type", "none")
    plain = (value("rope.dimension_count", config.head_dim), value("attention.key_length", config.head_dim))
    if scaling != "none" or set(plain) != {config.head_dim} or heads * config.head_dim != width:
        raise UsageError(f"{file.path} is a Llama with scaled or partial rotary positions, which is not read here")
    return config


def load_llama(file: GGUF, config: LlamaConfig, dtype: torch.dtype) -> Llama:
    """The model with the file's weights, none missing and none left over."""
    with torch.device("meta"):
        model = Llama(config).lower(dtype)
    wanted = dict(model.named_parameters())
    if strange := sorted(wanted.keys() ^ file.tensors.keys()):
        raise UsageError(f"{file.path} does not hold the tensors of a plain Llama: see {', '.join(strange[:3])}")
    weights = {}
    for name, parameter in wanted.items():
        if file.tensors[name].shape != parameter.shape:
            raise UsageError(f"{file.path} is damaged: {name} is {file.tensors[name].shape}, not {parameter.shape}")
        weight = torch.from_numpy(file.tensor(name))
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            weight = unpermute(weight, config.heads if "attn_q" in name else config.kv_heads)
        weights[name] = weight.to(parameter.dtype)
    if config.tied:
        weights["output.weight"] = weights["token_embd.weight"]
    model.load_state_dict(weights, assign=True)
    return model.eval().requires_grad_(False)


def build_tokenizer(file: GGUF) -> "Tokenizer":
    """Byte-level BPE with the file's tokens and merges, cut into words as its pre-tokenizer says."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    said = {name: file.metadata.get(f"tokenizer.ggml.{name}") for name in ("model", "pre", "tokens", "merges")}
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    cuts = {"gpt-2": words, "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])}
    if said["model"] != "gpt2" or said["pre"] not in cuts:
        raise UsageError(
            f"{file.path} has the tokenizer '{said['model']}' with pre-tokenizer '{said['pre']}': only 'gpt2' with "
            f"{' or '.join(map(repr, cuts))} is read here"
        )
    if not said["tokens"] or said["merges"] is None:
        raise UsageError(f"{file.path} is damaged: its tokenizer has no tokens or no merges")
    vocab = {token: id for id, token in enumerate(said["tokens"])}
    merges = [(first, second) for first, _, second in (merge.partition(" ") for merge in said["merges"])]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = cuts[said["pre"]]
    tokenizer.decoder = decoders.ByteLevel()
    kinds = file.metadata.get("tokenizer.ggml.token_type", [])
    special = [token for token, kind in zip(said["tokens"], kinds) if kind in (_CONTROL, _USER_DEFINED)]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def _ends(file: GGUF) -> set[int]:
    tokens = file.metadata["tokenizer.ggml.tokens"]
    stated = file.metadata.get("tokenizer.ggml.eos_token_id")
    named = [tokens.index("<|endoftext|>")] if "<|endoftext|>" in tokens else []
    return {*named, *([] if stated is None else [stated])}
