"""Parts of tokens: joined they are the text, whatever the tokenizer and however broken the tokens."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from dbtm.core.terminal import visible
from dbtm.tasks.text.tokenizer import train
from dbtm.tasks.toy import Markov
from dbtm.viz.spell import BLANK, END, PAD, Speller, parts, speller_of

BYTES = train(["the naïve fox", "北京 and Москва", "🙂 don't"], 290)
PIECES = ["the", "fox", "##es", ".", "do", "n", "'", "##t", "[SEP]", "##��", "é"]
WORDPIECE = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="the"))
WORDPIECE.decoder = decoders.WordPiece(cleanup=True)
FALLBACK = [*(f"<0x{byte:02X}>" for byte in range(256)), "▁the", "▁fox", "es", "é"]
METASPACE = Tokenizer(models.BPE({piece: i for i, piece in enumerate(FALLBACK)}, []))
METASPACE.decoder = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
)


@settings(max_examples=150, deadline=None)
@given(tokens=st.lists(st.integers(0, 289), max_size=40))
def test_bytes_joined_are_the_text(tokens):
    found = parts(BYTES, tokens)
    assert len(found) == len(tokens)
    assert "".join(found) == BYTES.decode(tokens, skip_special_tokens=False)


@pytest.mark.parametrize("tokenizer", [WORDPIECE, METASPACE], ids=["wordpiece", "metaspace"])
def test_other_decoders_joined_are_the_text(tokenizer):
    draw, vocab = random.Random(0), tokenizer.get_vocab_size()
    for _ in range(100):
        tokens = draw.choices(range(vocab), weights=[1] * (vocab - 4) + [vocab] * 4, k=30)
        assert "".join(parts(tokenizer, tokens)) == tokenizer.decode(tokens, skip_special_tokens=False)


def test_spaces_belong_to_the_word_behind_them():
    ids = [PIECES.index(piece) for piece in ("the", "fox", "##es", ".", "the")]
    assert parts(WORDPIECE, ids) == ["the", " fox", "es", ".", " the"]


def test_a_character_belongs_to_the_token_that_completes_it():
    alphabet = [BYTES.token_to_id(letter) for letter in sorted(pre_tokenizers.ByteLevel.alphabet())]
    by_byte = {BYTES.decode([token]): token for token in alphabet}
    text = [by_byte["a"], *BYTES.encode("ß").ids, by_byte["b"]]
    assert len(text) == 4, "the test needs a character of two tokens"
    assert parts(BYTES, text) == ["a", "", "ß", "b"]
    assert parts(BYTES, text[:2]) == ["a", "�"], "what is never completed is shown as such"
    assert parts(BYTES, [text[1], text[3]]) == ["�", "b"]


def test_ends_and_padding_are_marks():
    end = BYTES.token_to_id("<|endoftext|>")
    spelled = Speller(BYTES, end, pad=5)([*BYTES.encode("fox").ids, end, 5, 5])
    assert "".join(spelled) == f"fox{END}{PAD}{PAD}"
    assert "".join(Speller(BYTES, end)(BYTES.encode("<|endoftext|>").ids)) == "<|endoftext|>", "spelled by other tokens"
    sep = PIECES.index("[SEP]")
    assert Speller(WORDPIECE, sep)([PIECES.index("fox"), sep]) == ["fox", f" {END}"]
    assert Speller(BYTES, end, pad=end)([end]) == [END]


def test_a_terminal_is_given_no_orders():
    hostile = "".join(map(chr, range(0xA0))) + "\u202e\u2066"
    shown = visible(hostile)
    assert len(shown) == len(hostile)
    assert [c for c in shown if ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066"] == ["\t", "\n"]
    assert visible("\x1b[31m") == "␛[31m"
    assert visible("naïve 北京\n\tx") == "naïve 北京\n\tx"


def test_places_without_a_token_are_marks_and_part_nothing_that_is_there():
    end = BYTES.token_to_id("<|endoftext|>")
    spell, fox = Speller(BYTES, end), BYTES.encode("the fox").ids
    assert spell([-1, *fox, 290, 999]) == [BLANK, *spell(fox), BLANK, BLANK]
    assert spell([-1, -1]) == [BLANK, BLANK]
    first, second = BYTES.encode("ß").ids
    assert spell([first, -1, second]) == ["�", BLANK, "�"], "no character reaches across"


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.lists(st.integers(-1, 289), min_size=12, max_size=12), min_size=2, max_size=5))
def test_a_speller_that_has_seen_other_rows_spells_the_same(rows):
    end = BYTES.token_to_id("<|endoftext|>")
    used = Speller(BYTES, end)
    assert [used(row) for row in rows] == [Speller(BYTES, end)(row) for row in rows]


def test_tasks_without_words_spell_numbers():
    spell = speller_of(Markov(vocab=3, length=4))
    assert spell(np.array([0, 2, 3, -1])) == ["0 ", "2 ", f"{BLANK} ", f"{BLANK} "]
