"""A judge from Hugging Face transformers: any causal language model by its name or in a local folder."""

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.evals.judges.base import Judge

_LONGEST = 8192  # tokens of context that are used at most, whatever a model allows
_FILES = (".safetensors", ".json", ".txt", ".model")  # what a model and its tokenizer are made of


class HuggingFaceJudge(Judge):
    """`gpt2-large` is the judge of the paper. Float32 as in papers; weights as safetensors, no code of others."""

    def __init__(self, name: str, device: torch.device):
        self.tokenizer, model = load(name)
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
        if self._reads_ahead():
            raise UsageError(f"the judge '{name}' is not causal: its probability of a token depends on later tokens")

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **self.weights}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        # without special tokens: with one in front, the text's first token would be scored too
        return self.tokenizer(list(texts), add_special_tokens=False, truncation=False, verbose=False)["input_ids"]

    def token_nll(self, ids_BL: Tensor) -> Tensor:
        # A causal model does not attend to padding on the right, so no attention mask is needed.
        logits_BLV = self.model(input_ids=ids_BL, use_cache=False).logits
        nll = F.cross_entropy(logits_BLV[:, :-1].flatten(0, 1), ids_BL[:, 1:].flatten(), reduction="none")
        return nll.view(len(ids_BL), -1)

    def states(self, ids_BL: Tensor) -> Tensor:
        states: Tensor = self.model(input_ids=ids_BL, use_cache=False, output_hidden_states=True).hidden_states[-1]
        return states

    @torch.inference_mode()
    def _reads_ahead(self) -> bool:
        """Whether the scores of a few tokens change with later tokens."""
        ids_BL = torch.arange(min(16, self.context, len(self.tokenizer)), device=self.device)[None]
        other_BL, half = ids_BL.clone(), ids_BL.shape[1] // 2
        other_BL[:, half:] = 0
        one, other = (self.token_nll(ids)[:, : half - 1] for ids in (ids_BL, other_BL))
        return not torch.allclose(one, other, rtol=1e-5)


def load(name: str) -> tuple[Any, Any]:
    """Tokenizer and model, or a UsageError: transformers would initialise missing weights at random.

    Weights that the model does not use are ignored: files of old versions have some.
    """
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise UsageError(
            f"the judge '{name}' needs the package transformers: pip install 'dbtm[hf]' (smollm2 and GGUF files "
            "work without it)"
        ) from None
    for library in ("huggingface_hub", "transformers"):
        logging.getLogger(library).setLevel(logging.CRITICAL)  # retries and reports of many lines
    options = {"use_safetensors": True, "output_loading_info": True, "ignore_mismatched_sizes": True}
    try:
        refuse_code(name)
        # False, not left out: transformers would ask on the standard input whether to run a repository's code
        tokenizer: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        opened: Any = AutoModelForCausalLM.from_pretrained(name, trust_remote_code=False, **options)
    except UsageError:
        raise
    except Exception as error:  # a damaged file has many: OSError, ValueError, RuntimeError, SafetensorError
        said = shorten(str(error), 240, placeholder=" ...") or type(error).__name__
        where = "the folder cannot be loaded" if Path(name).is_dir() else "there is no such folder, and the hub says"
        raise UsageError(f"no causal language model '{name}': {where}: {said}") from None
    model, loaded = opened
    other_size = (key if isinstance(key, str) else key[0] for key in loaded["mismatched_keys"])  # differs by version
    absent = sorted({*loaded["missing_keys"], *other_size})
    if absent:
        told = ", ".join(absent[:3]) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")
        raise UsageError(f"the judge '{name}' is incomplete: its files lack, or have with other sizes, {told}")
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise UsageError(f"the judge '{name}' has no tokenizer: its files must be in the folder of the weights")
    return tokenizer, model


def refuse_code(name: str) -> None:
    """Refuse a folder or repository that contains code, before anything else of it is loaded."""
    from transformers import PretrainedConfig
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    said = PretrainedConfig.get_config_dict(name)[0], get_tokenizer_config(name)
    for values, file in zip(said, ("config.json", "tokenizer_config.json")):
        if "auto_map" in values:
            raise UsageError(
                f"the judge '{name}' contains code of its own ({file} has auto_map), which dbtm never runs: choose a "
                "model that transformers supports"
            )
    kernels = [said[0].get(key) for key in ("attn_implementation", "_attn_implementation")]
    if any("/" in str(kernel) for kernel in kernels):
        raise UsageError(f"the judge '{name}' requests attention code from the hub, which dbtm never runs")


def digest(folder: Path) -> str:
    """One sha256 of all that a model in a folder is made of, wherever the folder is."""
    files = sorted(path for path in folder.iterdir() if path.suffix in _FILES)
    return hashlib.sha256("".join(f"{path.name} {sha256(path)}\n" for path in files).encode()).hexdigest()
