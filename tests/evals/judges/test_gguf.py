"""A Llama out of a GGUF file against one written out in float64 by hand, and its tokenizer against the rules."""

import hashlib

import numpy as np
import pytest
import torch

from dbtm.core.errors import UsageError
from dbtm.evals.judges import load_judge
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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general.architecture": "gemma"}, "architecture 'gemma'"),
        ({"llama.feed_forward_length": None}, "llama.feed_forward_length"),
        ({"llama.feed_forward_length": 96}, "damaged: blk.0.ffn_gate.weight is .64, 32."),
        ({"llama.block_count": 3}, "see blk.2.attn_k.weight"),
        ({"llama.rope.scaling.type": "yarn"}, "scaled or partial rotary"),
        ({"llama.rope.dimension_count": 4}, "scaled or partial rotary"),
        ({"tokenizer.ggml.model": "llama"}, "tokenizer 'llama'"),
        ({"tokenizer.ggml.pre": "qwen2"}, "pre-tokenizer 'qwen2'"),
        ({"tokenizer.ggml.merges": None}, "no tokens or no merges"),
    ],
)
def test_what_is_not_computed_is_refused(tmp_path, changes, words):
    with pytest.raises(UsageError, match=words):
        load(tmp_path, **changes)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"no file .*none\.gguf"):
        load_judge(str(tmp_path / "none.gguf"))
    assert load_judge(str(gguf_writer.model_file(tmp_path / "t.gguf")), "cpu").name == "t.gguf"
