"""A Llama out of a GGUF file against one written out in float64 by hand, and its tokenizer against the rules."""

import hashlib
import struct
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dbtm.core.errors import UsageError
from dbtm.evals.judges import load_judge, smollm2
from dbtm.evals.judges.gguf import GGUFJudge
from tests.evals.judges import gguf_writer

CPU = torch.device("cpu")
TEXTS = ["the 12 inns<|endoftext|>in the end", "a", "", "thin<|im_end|><|endoftext|>x" * 3]


def load(tmp_path, dtype=torch.float32, **options):
    return GGUFJudge(gguf_writer.model_file(tmp_path / "tiny.gguf", **options), CPU, dtype=dtype)


@pytest.mark.parametrize("tied", [True, False])
def test_every_token_is_scored_as_by_hand(tmp_path, tied):
    judge, weights = load(tmp_path, tied=tied), gguf_writer.weights(tied=tied)
    rng = np.random.default_rng(1)
    rows = [rng.integers(0, len(gguf_writer.TOKENS), 11).tolist() for _ in range(3)]
    got = judge.token_nll(torch.tensor(rows))
    np.testing.assert_allclose(got, [gguf_writer.nll(weights, ids) for ids in rows], atol=2e-5)


def test_scores_of_texts_are_those_by_hand(tmp_path):
    judge, weights = load(tmp_path), gguf_writer.weights()
    scores = judge.score(TEXTS)
    assert judge.ends == {0, 1}
    for b, ids in enumerate(judge.encode(TEXTS)):
        counts, ended = [], bool(ids) and ids[0] < 2
        for now in ids[1:]:
            counts.append(now >= 2 or not ended)
            ended = ended or now < 2
        nll = gguf_writer.nll(weights, ids)[counts].sum() if len(ids) > 1 else 0
        assert (scores.nll_B[b], scores.tokens_B[b]) == (pytest.approx(nll, abs=1e-4), sum(counts))
    assert scores.tokens_B[1] == scores.tokens_B[2] == 0


def test_padding_and_batches_change_nothing(tmp_path):
    judge = load(tmp_path)
    ids = torch.tensor([[5, 9, 12, 40]])
    padded = torch.cat([ids, torch.zeros(1, 5, dtype=torch.long)], 1)
    both = torch.cat([padded, torch.full((1, 9), 7)])
    torch.testing.assert_close(judge.token_nll(both)[:1, :3], judge.token_nll(ids), rtol=1e-5, atol=1e-5)


def test_a_text_beyond_the_context_is_scored_whole(tmp_path):
    judge = load(tmp_path)
    scores = judge.score(["xyz" * 50])
    assert judge.context == 64
    assert (scores.windowed, scores.tokens_B[0]) == (1, 149)
    first = gguf_writer.nll(gguf_writer.weights(), judge.encode(["xyz" * 50])[0][:64]).sum()
    assert scores.nll_B[0] > first


def test_bfloat16_products_are_close(tmp_path):
    exact, rough = load(tmp_path), load(tmp_path, torch.bfloat16)
    digest = hashlib.sha256((tmp_path / "tiny.gguf").read_bytes()).hexdigest()
    told = {"name": "tiny.gguf", "dtype": "bfloat16", "context": 64, "file": "tiny.gguf", "sha256": digest}
    assert rough.describe() == told
    text = ["the quick brown fox, 1234, in the inn"]
    a, b = (judge.score(text).nll_B / judge.score(text).tokens_B for judge in (exact, rough))
    np.testing.assert_allclose(a, b, rtol=0.02)


def test_tokens_are_bytes_merged_by_rank_with_digits_alone(tmp_path):
    judge = load(tmp_path)
    spell = lambda text: [gguf_writer.TOKENS[id] for id in judge.encode([text])[0]]  # noqa: E731
    assert spell("in the12") == ["in", "Ġthe", "1", "2"], "digits stand alone, although there is a merge"
    assert spell("then") == ["t", "he", "n"], "a merge of lower rank comes first"
    assert spell("é") == ["Ã", "©"]
    assert spell("x<|endoftext|>y") == ["x", "<|endoftext|>", "y"]
    gpt2 = load(tmp_path, **{"tokenizer.ggml.pre": "gpt-2"})
    assert [gguf_writer.TOKENS[id] for id in gpt2.encode(["12"])[0]] == ["12"]
    for text in ("naïve 東京\n\t 3.14 <|im_end|>", " leading and trailing "):
        assert judge.tokenizer.decode(judge.encode([text])[0], skip_special_tokens=False) == text


L, T = "llama.", "tokenizer.ggml."
BROKEN = struct.pack("<IIQQ", 9, 8, 1, 1) + b"\xff"  # a list of one string, which is no text
ROTARY = {L + "rope.dimension_count": 2**22}  # what a width of 2^24 has with four heads
WIDE = [*gguf_writer.TOKENS, "more"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general.architecture": "gemma"}, "architecture 'gemma'"),
        ({"general.architecture": "a\n\x1b[2J" + "b" * 999}, r"architecture 'a\n\x1b[2J"),
        ({"general.architecture": None}, "architecture 'none'"),
        ({"general.architecture": ["llama"]}, "general.architecture is ['llama'], not a string"),
        ({L + "feed_forward_length": None}, "does not state llama.feed_forward_length"),
        ({L + "feed_forward_length": 96}, "damaged: blk.0.ffn_gate.weight is (64, 32), not (96, 32)"),
        ({L + "feed_forward_length": "64"}, "llama.feed_forward_length is '64', not a whole number"),
        ({L + "embedding_length": 2**24, **ROTARY}, "damaged: token_embd.weight is (263, 32), not (263, 16777216)"),
        ({L + "block_count": 1}, "not have the tensors of a plain Llama: see 'blk.1.attn_k.weight', 'blk.1.attn_n"),
        ({L + "block_count": 3}, "20 tensors are too few for its 3 blocks"),
        ({L + "block_count": 2**24}, "20 tensors are too few for its 16777216 blocks"),
        ({L + "block_count": 2**31}, "llama.block_count is 2147483648, not a whole number from 1 to 16777216"),
        ({L + "block_count": 0}, "llama.block_count is 0"),
        ({L + "context_length": 0}, "llama.context_length is 0, not a whole number from 2"),
        ({L + "context_length": 1}, "llama.context_length is 1"),
        ({L + "context_length": 64.0}, "llama.context_length is 64.0"),
        ({L + "attention.head_count": 0}, "llama.attention.head_count is 0"),
        ({L + "attention.head_count": 3}, "cannot be split into 3 heads"),
        ({L + "attention.head_count": 32}, "cannot be split into 32 heads of even width"),
        ({L + "attention.head_count_kv": 3}, "share 3 key heads"),
        ({L + "attention.head_count_kv": 2**24}, "share 16777216 key heads"),
        ({L + "attention.head_count_kv": [2, 2]}, "head_count_kv is [2, 2]"),
        ({L + "attention.layer_norm_rms_epsilon": float("nan")}, "epsilon is nan, not a positive number"),
        ({L + "rope.freq_base": -1.0}, "freq_base is -1.0"),
        ({L + "rope.scaling.type": "yarn"}, "scaled or partial rotary"),
        ({L + "rope.scaling.type": 1}, "rope.scaling.type is 1, not a string"),
        ({L + "rope.dimension_count": 4}, "scaled or partial rotary"),
        ({T + "model": "llama"}, "tokenizer 'llama'"),
        ({T + "pre": "qwen2"}, "pre-tokenizer 'qwen2'"),
        ({T + "pre": None}, "pre-tokenizer 'none'"),
        ({T + "pre": ["smollm"]}, "pre is ['smollm'], not a string"),
        ({T + "tokens": None}, "does not state tokenizer.ggml.tokens"),
        ({T + "tokens": []}, "0 tokens and an embedding of 263"),
        ({T + "tokens": [1, 2]}, "tokens is [1, 2], not a list of strings"),
        ({T + "tokens": WIDE}, "264 tokens and an embedding of 263"),
        ({T + "tokens": BROKEN}, "tokens is not UTF-8"),
        ({T + "merges": None}, "does not state tokenizer.ggml.merges"),
        ({T + "merges": ["h e", "q u"]}, "merges ('q', 'u'), which are not tokens"),
        ({T + "merges": ["he"]}, "merges ('he', ''), which"),
        ({T + "token_type": "x"}, "token_type is 'x', not a list of numbers"),
        ({T + "eos_token_id": 263}, "eos_token_id is 263, not a whole number from 0 to 262"),
        ({T + "eos_token_id": "x"}, "eos_token_id is 'x'"),
    ],
)
def test_what_is_not_computed_or_damaged_is_refused(tmp_path, changes, words):
    with pytest.raises(UsageError) as error:
        load(tmp_path, **changes)
    assert str(error.value).startswith(str(tmp_path / "tiny.gguf"))
    assert words in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("shape", [(263 * 32,), (0, 32), (263, 4, 8)])
def test_an_embedding_of_another_form_is_refused(tmp_path, shape):
    weights = gguf_writer.weights()
    tensors = weights | {
        "token_embd.weight": weights["token_embd.weight"][: None if np.prod(shape) else 0].reshape(shape)
    }
    path = gguf_writer.write(tmp_path / "a.gguf", gguf_writer.metadata(), {n: (w, 0) for n, w in tensors.items()})
    with pytest.raises(UsageError, match=r"no token_embd\.weight with two axes"):
        GGUFJudge(path, CPU)


@pytest.mark.parametrize(("missing", "more"), [("blk.1.attn_q.weight", None), (None, "rope_freqs.weight")])
def test_tensors_are_those_of_a_plain_llama(tmp_path, missing, more):
    tensors = {name: (w, 0) for name, w in gguf_writer.weights().items() if name != missing}
    tensors |= {more: (np.ones(4, np.float32), 0)} if more else {}
    path = gguf_writer.write(tmp_path / "a.gguf", gguf_writer.metadata(), tensors)
    with pytest.raises(
        UsageError, match=f"a.gguf does not have the tensors of a plain Llama: see '{missing or more}'$"
    ):
        GGUFJudge(path, CPU)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_anywhere_in_the_header_ends_in_one_line(data):
    """A few bytes of a file with other values: it loads, or one line says why not."""
    with TemporaryDirectory() as folder:
        path = gguf_writer.model_file(Path(folder) / "tiny.gguf")
        content = bytearray(path.read_bytes())
        header = content.index(b"blk.1.ffn_down.weight") + 60
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, header))] = data.draw(st.sampled_from([0, 1, 9, 127, 128, 255]))
        path.write_bytes(content)
        told = str(path)
        try:
            GGUFJudge(path, CPU, dtype=torch.float32).score(["the inn<|endoftext|>12"])
        except UsageError as error:
            told = str(error)
        assert str(path) in told
        assert told.isprintable()


@pytest.mark.parametrize("name", ["smollm2", "FILE"])
def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch, name):
    for module in ("gguf", "gguf_reader"):  # the judge's module can be imported without the package
        monkeypatch.delitem(sys.modules, f"dbtm.evals.judges.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setattr(smollm2, "weights", lambda: pytest.fail("nothing is fetched before"))
    judge = str(gguf_writer.model_file(tmp_path / "a.gguf")) if name == "FILE" else name
    with pytest.raises(UsageError, match=r"^[^\n]*need the package gguf: pip install gguf$"):
        load_judge(judge, "cpu")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"no file .*none\.gguf"):
        load_judge(str(tmp_path / "none.gguf"))
    assert load_judge(str(gguf_writer.model_file(tmp_path / "t.gguf")), "cpu").name == "t.gguf"
