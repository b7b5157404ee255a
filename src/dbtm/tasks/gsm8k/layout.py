r"""Examples as tokens: `[BOS] question \n program [EOS]`, padded with PAD; all tokens up to the line end are given."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.tasks.gsm8k.data import Example

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END, PAD = "<|endoftext|>", "<|pad|>"
SPARE = (PAD, "<|im_end|>", END)
"""The padding token: our own PAD, SmolLM's unused end of a turn (its vocabulary is unchanged), else the end of text."""


class Row(NamedTuple):
    """The tokens of an example, without padding, and how many of them are given."""

    tokens: list[int]
    prompt: int


class Layout:
    """Converts between texts and token rows of a fixed length."""

    def __init__(self, tokenizer: "Tokenizer", length: int):
        self.tokenizer, self.length = tokenizer, length
        end = tokenizer.token_to_id(END)
        if end is None:
            raise UsageError(f"the tokenizer has no {END}, which begins and ends examples: use SmolLM's, or train one")
        self.end = int(end)
        self.pad = int(next(i for i in map(tokenizer.token_to_id, SPARE) if i is not None))

    def prompts(self, questions: Sequence[str]) -> list[list[int]]:
        """The given tokens per problem. White space in a question, also a line end, becomes one space."""
        texts = [" ".join(question.split()) + "\n" for question in questions]
        return [[self.end, *ids] for ids in self._encode(texts)]

    def rows(self, examples: Sequence[Example]) -> list[Row | None]:
        """Each example as tokens; None if it is longer than a row."""
        prompts = self.prompts([example.question for example in examples])
        codes = self._encode([example.code.strip("\n") for example in examples])
        made = (Row([*prompt, *code, self.end], len(prompt)) for prompt, code in zip(prompts, codes))
        return [row if len(row.tokens) <= self.length else None for row in made]

    def fill(self, rows: Iterable[Row]) -> tuple[np.ndarray, np.ndarray]:
        """(tokens, prompt mask), (B, L) each."""
        rows = list(rows)
        tokens_BL = np.full((len(rows), self.length), self.pad, dtype=np.int64)
        prompt_BL = np.zeros(tokens_BL.shape, dtype=bool)
        for b, row in enumerate(rows):
            tokens_BL[b, : len(row.tokens)] = row.tokens
            prompt_BL[b, : row.prompt] = True
        return tokens_BL, prompt_BL

    def program(self, tokens: np.ndarray, prompt: int) -> str:
        """The program of a row: the text between the prompt and the end of text, or the end of the row."""
        ids = [int(token) for token in tokens[prompt:]]
        if self.end in ids:
            ids = ids[: ids.index(self.end)]
        return self.tokenizer.decode([i for i in ids if i != self.pad])

    def text(self, tokens: np.ndarray) -> str:
        """Question and program of a row."""
        return self.program(tokens, 1 if len(tokens) and int(tokens[0]) == self.end else 0)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def train_tokenizer(texts: Iterable[str], size: int) -> "Tokenizer":
    """Byte-level BPE with one token per digit, as SmolLM's, so that numbers are copied digit by digit."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    from dbtm.tasks.text.tokenizer import plain

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return plain(tokenizer)
