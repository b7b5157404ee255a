import logging
import sys

import pytest
from tokenizers import Tokenizer, models

from dbtm.core.errors import UsageError
from dbtm.tasks.text import tokenizer as tokenizers


def test_a_trained_tokenizer_writes_every_text_and_only_we_end_it(words, documents):
    assert tokenizers.size(words) == 300
    assert tokenizers.edges(words) == (0, 0)
    for text in [*documents, "ünseen ✓ text\twith\nanything", "<|endoftext|>"]:
        ids = words.encode(text, add_special_tokens=False).ids
        assert words.decode(ids, skip_special_tokens=False) == text
        assert 0 not in ids, "the spelling of the end of text in a document is not an end of text"


def test_training_stops_at_its_share_of_text(documents, monkeypatch):
    taken = []

    def texts():
        for text in documents:
            taken.append(text)
            yield text

    monkeypatch.setattr(tokenizers, "MOST_TRAINING", 1000)
    tokenizers.train(texts(), 270)
    assert 0 < len(taken) < len(documents) // 2
    with pytest.raises(UsageError, match="no text to train"):
        tokenizers.train([], 270)


def test_sizes_asked_for():
    assert tokenizers.asked_size("train:8192") == 8192
    assert tokenizers.asked_size("train:1048576") == 1 << 20
    assert tokenizers.asked_size("gpt2") is None
    for name in ("train:", "train:many", "train:256", "train:-5", "train:²"):
        with pytest.raises(UsageError, match="at least 257"):
            tokenizers.asked_size(name)
    for size in (1 << 20) + 1, 10**20, "9" * 5000:
        with pytest.raises(UsageError, match="at most 1048576"):
            tokenizers.asked_size(f"train:{size}")


def test_from_a_file_or_its_folder_uncut_and_unpadded(words, tmp_path):
    cut = Tokenizer.from_str(words.to_str())
    cut.enable_truncation(2)
    cut.enable_padding(length=50)
    cut.save(str(tmp_path / "tokenizer.json"))
    text = "the quick fox jumps over the lazy dog"
    for name in (tmp_path, tmp_path / "tokenizer.json"):
        assert tokenizers.load(str(name)).encode(text).ids == words.encode(text).ids


def test_what_cannot_be_had_says_how_to_go_on(tmp_path, monkeypatch, caplog):
    with pytest.raises(UsageError, match="no such tokenizer file"):
        tokenizers.load(str(tmp_path / "nowhere.json"))
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(UsageError, match="is not a tokenizer"):
        tokenizers.load(str(tmp_path / "bad.json"))

    class Offline:
        @staticmethod
        def from_pretrained(name):
            logging.getLogger("huggingface_hub").warning("a retry that nobody wants to read")
            raise OSError("no network\nand more")

    monkeypatch.setattr(tokenizers, "Tokenizer", Offline)
    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "propagate", True)  # its import stops it
    caplog.set_level(logging.WARNING, "huggingface_hub")  # a judge that is loaded before in this process silences it
    with pytest.raises(
        UsageError, match=r"'gpt2' is neither a local file .* \(no network\): give a local file, PATH/tokenizer\.json"
    ) as e:
        tokenizers.load("gpt2")
    assert "\n" not in str(e.value)
    assert not caplog.records
    logging.getLogger("huggingface_hub").error("heard again")  # its import may silence warnings
    assert caplog.records


def test_a_name_goes_to_the_hub(words, monkeypatch):
    asked = []

    class Hub:
        @staticmethod
        def from_pretrained(name):
            asked.append(name)
            return Tokenizer.from_str(words.to_str())

    monkeypatch.setattr(tokenizers, "Tokenizer", Hub)
    assert tokenizers.size(tokenizers.load("bert-base-uncased")) == 300
    assert asked == ["bert-base-uncased"]


@pytest.mark.parametrize(
    ("names", "want"),
    [
        (["[PAD]", "[CLS]", "[SEP]", "the"], (1, 2)),  # bert
        (["a", "<|endoftext|>"], (1, 1)),  # gpt2
        (["<s>", "</s>", "a"], (0, 1)),
    ],
)
def test_borders_of_documents_by_their_usual_names(names, want):
    assert tokenizers.edges(_word_level(names)) == want


def test_another_end_of_text_is_asked_for_by_name():
    with pytest.raises(UsageError, match="give its end-of-text token"):
        tokenizers.edges(_word_level(["a", "STOP"]))
    with pytest.raises(UsageError, match="no 'HALT'"):
        tokenizers.edges(_word_level(["a", "STOP"]), "HALT")
    assert tokenizers.edges(_word_level(["a", "STOP"]), "STOP") == (1, 1)


def test_gaps_in_the_ids_count():
    assert tokenizers.size(Tokenizer(models.WordLevel({"a": 0, "b": 9}, unk_token="a"))) == 10


def _word_level(names: list[str]) -> Tokenizer:
    return Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token=names[0]))


def test_workers_start_without_torch():
    """What a worker process imports must be quick."""
    import subprocess

    code = "import sys, dbtm.tasks.text.prepare; assert 'torch' not in sys.modules and 'rich' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
