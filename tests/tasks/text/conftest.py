"""A small tokenizer and documents that exercise it: accents, several scripts, the spelling of a special token."""

import random

import pytest

from dbtm.tasks.text import tokenizer as tokenizers

WORDS = [
    "the",
    "a",
    "fox",
    "dog",
    "jumps",
    "over",
    "lazy",
    "naïve",
    "北京",
    "Москва",
    "<|endoftext|>",
    "42",
    ".",
    "don't",
]


@pytest.fixture(scope="session")
def documents() -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 30))) + f" {i}" for i in range(400)]


@pytest.fixture(scope="session")
def words(documents):
    return tokenizers.train(documents, 300)
