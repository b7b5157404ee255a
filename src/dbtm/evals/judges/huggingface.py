"""A judge from Hugging Face transformers: any causal language model by its name or in a local folder."""

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dbtm.errors import UsageError
from dbtm.evals.judges.base import Judge
from dbtm.train.checkpoint import sha256

_LONGEST = 8192  # tokens of context that are used at most, whatever a model allows
_FILES = (".safetensors", ".json", ".txt", ".model")  # what a model and its tokenizer are made of


class HuggingFaceJudge(Judge):
    """`gpt2-large` is the judge of the paper. Float32 as in papers; weights as safetensors, no code of others."""

    def __init__(self, name: str, device: torch.device):
        try:
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError:
            raise UsageError(
                f"the judge '{name}' needs the package transformers: pip install transformers (smollm2 and GGUF files "
                "do without it)"
            ) from None
        logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # its retries are told in many lines
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(name)
            model = AutoModelForCausalLM.from_pretrained(name, use_safetensors=True)
        except (OSError, ValueError) as error:
            said = next(iter(str(error).strip().splitlines()), "no reason given")
            raise UsageError(
                f"no causal language model '{name}': it is no folder with one, and the hub says: {said}"
            ) from None
        local = Path(name).is_dir()
        self.name = Path(name).resolve().name if local else name
        revision = getattr(model.config, "_commit_hash", None)  # of the hub
        self.weights = {"sha256": digest(Path(name))} if local else {"revision": revision}
        self.device, self.dtype = device, torch.float32
        self.model = model.float().to(device).eval().requires_grad_(False)
        limits = (getattr(model.config, "max_position_embeddings", None), self.tokenizer.model_max_length, _LONGEST)
        self.context = min(limit for limit in limits if limit)
        known = self.tokenizer.get_vocab()
        self.ends = frozenset({self.tokenizer.eos_token_id, known.get("<|endoftext|>")} - {None})

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **self.weights}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]

    def token_nll(self, ids_BL: Tensor) -> Tensor:
        # A causal model's padding on the right reaches nothing to its left, so no attention mask is needed.
        logits_BLV = self.model(input_ids=ids_BL, use_cache=False).logits
        nll = F.cross_entropy(logits_BLV[:, :-1].flatten(0, 1), ids_BL[:, 1:].flatten(), reduction="none")
        return nll.view(len(ids_BL), -1)


def digest(folder: Path) -> str:
    """One sha256 of all that a model in a folder is made of, wherever the folder is."""
    found = sorted(path for path in folder.iterdir() if path.suffix in _FILES)
    return hashlib.sha256("".join(f"{path.name} {sha256(path)}\n" for path in found).encode()).hexdigest()
