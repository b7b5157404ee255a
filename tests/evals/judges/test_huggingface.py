"""A judge from transformers against our own Llama with the same weights, and all that must not become a judge."""

import sys

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file

from dbtm.core.errors import UsageError
from dbtm.evals.judges import load_judge
from dbtm.evals.judges.gguf import GGUFJudge
from dbtm.evals.judges.huggingface import HuggingFaceJudge, digest
from tests.evals.judges import gguf_writer

CPU = torch.device("cpu")


def test_without_transformers_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match="'gpt2-large' needs the package transformers: pip install"):
        load_judge("gpt2-large", "cpu")


def test_a_folder_is_known_by_its_content(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"weights")
        (tmp_path / name / "README.md").write_text(name)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    (tmp_path / "b" / "tokenizer.json").write_text("{}")
    assert digest(tmp_path / "a") != digest(tmp_path / "b")


@pytest.fixture
def folder(tmp_path):
    """The tiny Llama of the GGUF tests as a folder of transformers."""
    import transformers

    ours = GGUFJudge(gguf_writer.model_file(tmp_path / "tiny.gguf"), CPU, dtype=torch.float32)
    config = transformers.LlamaConfig(
        vocab_size=len(gguf_writer.TOKENS),
        hidden_size=gguf_writer.WIDTH,
        intermediate_size=gguf_writer.FFN,
        num_hidden_layers=gguf_writer.DEPTH,
        num_attention_heads=gguf_writer.HEADS,
        num_key_value_heads=gguf_writer.KV_HEADS,
        max_position_embeddings=48,
        rope_parameters={"rope_type": "default", "rope_theta": gguf_writer.BASE},
        rope_theta=gguf_writer.BASE,
        rms_norm_eps=gguf_writer.EPS,
        tie_word_embeddings=True,
    )
    model = transformers.LlamaForCausalLM(config)
    names = {
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        **{f"attn_{x}": f"self_attn.{x}_proj" for x in "qkv"},
        "attn_output": "self_attn.o_proj",
        **{f"ffn_{x}": f"mlp.{x}_proj" for x in ("gate", "up", "down")},
    }
    weights = {"model.embed_tokens.weight": ours.model.token_embd.weight}
    weights |= {"model.norm.weight": ours.model.output_norm.weight, "lm_head.weight": ours.model.token_embd.weight}
    for i, block in enumerate(ours.model.blk):
        weights |= {f"model.layers.{i}.{name}.weight": getattr(block, own).weight for own, name in names.items()}
    model.load_state_dict(weights)
    path = tmp_path / "tiny"
    model.save_pretrained(path)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=ours.tokenizer, eos_token="<|im_end|>")
    tokenizer.save_pretrained(path)
    return path, ours


def test_same_weights_same_scores(folder):
    path, ours = folder
    judge = HuggingFaceJudge(str(path), CPU)
    assert (judge.name, judge.ends, judge.context) == ("tiny", ours.ends, 48)
    assert judge.describe()["sha256"] == digest(path)
    texts = ["the 12 inns<|endoftext|>in the end", "a", "thin<|im_end|>x", "in " * 15]
    assert judge.encode(texts) == ours.encode(texts)
    theirs, wanted = judge.score(texts), ours.score(texts)
    assert theirs.tokens_B.tolist() == wanted.tokens_B.tolist()
    torch.testing.assert_close(torch.tensor(theirs.nll_B), torch.tensor(wanted.nll_B), rtol=1e-4, atol=1e-4)
    assert judge.score(["xyz" * 40]).windowed == 1


@pytest.mark.parametrize("template", ["<|im_end|> $A", "$A <|im_end|>"])
def test_a_tokenizers_own_first_and_last_tokens_are_left_out(folder, template):
    """With them, tokens would be scored that no sample has, or a sample's first."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing

    path, ours = folder
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    end = "<|im_end|>"
    tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=[(end, tokenizer.token_to_id(end))])
    tokenizer.save(str(path / "tokenizer.json"))
    texts = ["the 12 inns<|endoftext|>in the end", "a"]
    assert len(tokenizer.encode("a")) == 2
    assert HuggingFaceJudge(str(path), CPU).encode(texts) == ours.encode(texts)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no causal language model"):
        load_judge(str(tmp_path), "cpu")


def test_weights_must_all_be_there(folder):
    """transformers would draw what is missing at random; what is too much is left alone."""
    path, ours = folder
    file = path / "model.safetensors"
    whole = load_file(file)
    name = "model.layers.0.mlp.up_proj.weight"
    without = {key: value for key, value in whole.items() if key != name}
    for wrong, words in (
        (without, f"incomplete: .* {name}$"),
        (whole | {name: whole[name][:-1].clone()}, f"incomplete: .* {name}$"),
        ({"model.norm.weight": whole["model.norm.weight"]}, r"incomplete: .* and \d+ more$"),
    ):
        save_file(wrong, file, metadata={"format": "pt"})
        with pytest.raises(UsageError, match=words):
            load_judge(str(path), "cpu")
    save_file(whole | {"model.old.bias": torch.ones(3)}, file, metadata={"format": "pt"})
    texts = ["the end"]
    assert load_judge(str(path), "cpu").score(texts).nll_B == pytest.approx(ours.score(texts).nll_B, rel=1e-4)


def test_damaged_files_are_refused_in_a_line(folder):
    path, _ = folder
    for name, content in (
        ("model.safetensors", (path / "model.safetensors").read_bytes()[:1000]),
        ("tokenizer.json", b"{"),
        ("config.json", b'{"model_type": "nope"}'),
    ):
        before = (path / name).read_bytes()
        (path / name).write_bytes(content)
        with pytest.raises(UsageError, match="the folder cannot be loaded: ") as refused:
            load_judge(str(path), "cpu")
        assert "\n" not in str(refused.value)
        (path / name).write_bytes(before)


def test_a_tokenizer_must_be_there(folder):
    import transformers

    path, _ = folder
    empty = tokenizers.Tokenizer(tokenizers.models.BPE())
    transformers.PreTrainedTokenizerFast(tokenizer_object=empty, eos_token="<|im_end|>").save_pretrained(path)
    with pytest.raises(UsageError, match="has no tokenizer"):
        load_judge(str(path), "cpu")
    for file in path.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(UsageError, match="tokenizer"):
        load_judge(str(path), "cpu")


def test_a_model_that_reads_ahead_is_refused(folder):
    import transformers

    path, _ = folder
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(gguf_writer.TOKENS), max_position_embeddings=48, **sizes)
    torch.manual_seed(0)
    transformers.BertForMaskedLM(config).save_pretrained(path)
    with pytest.raises(UsageError, match="is not causal"):
        load_judge(str(path), "cpu")
    config.is_decoder = True
    config.save_pretrained(path)
    assert load_judge(str(path), "cpu").context == 48, "the same weights with a causal mask"
