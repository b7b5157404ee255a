"""benchmarks/text_tiny.py: which words count, and a measurement at a small size."""

import pytest

from dbtm.service.training import TrainRequest, train
from tests.scripts import load_script
from tests.service.conftest import TINY, prepared  # noqa: F401


@pytest.fixture(scope="module")
def script():
    return load_script("text_tiny")


def test_whole_words_count(script):
    found = script.readability(["ut a cat's hat xq ca"], frozenset(["a", "cat's", "hat"]))
    assert found == {"words": 4, "real": 0.75, "letters": 11 / 4, "different": 1.0}


def test_measurement(script, prepared, tmp_path):  # noqa: F811
    settings = (*TINY, "task.evaluate_n=2", "sample.rounds=equal")
    run = train(TrainRequest("text-tiny", data=prepared["text-small"], out=tmp_path / "run", changes=settings))
    text, *samples = script.measure(run, (1, 2), 3)
    assert text["real"] == 1.0, "nine words make up this text"
    assert [row["nfe"] for row in samples] == [1, 2]
    assert all(len(row["samples"]) == 2 and 0 <= row["real"] <= 1 for row in samples)
