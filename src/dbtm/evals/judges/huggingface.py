"""A judge from Hugging Face transformers: any causal language model by its name or in a local folder."""

import logging
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from dbtm.errors import UsageError
from dbtm.evals.judges.base import Judge

_LONGEST = 8192  # tokens of context that are used at most, whatever a model allows


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
        self.name = Path(name).resolve().name if Path(name).is_dir() else name
        self.device, self.dtype = device, torch.float32
        self.model = model.float().to(device).eval().requires_grad_(False)
        limits = (getattr(model.config, "max_position_embeddings", None), self.tokenizer.model_max_length, _LONGEST)
        self.context = min(limit for limit in limits if limit)
        known = self.tokenizer.get_vocab()
        self.ends = frozenset({self.tokenizer.eos_token_id, known.get("<|endoftext|>")} - {None})

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]

    def token_nll(self, ids_BL: Tensor) -> Tensor:
        # A causal model's padding on the right reaches nothing to its left, so no attention mask is needed.
        logits_BLV = self.model(input_ids=ids_BL, use_cache=False).logits
        nll = F.cross_entropy(logits_BLV[:, :-1].flatten(0, 1), ids_BL[:, 1:].flatten(), reduction="none")
        return nll.view(len(ids_BL), -1)
