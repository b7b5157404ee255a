"""`dbtm.fit` by a recipe's name or by a configuration."""

from pathlib import Path

import pytest

import dbtm
from dbtm.checkpoint.migrate import read_config
from dbtm.core.errors import UsageError
from dbtm.service import training
from tests.service.conftest import TINY

ROWS = "0123\n1234\n2340\n" * 20


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.txt").write_text(ROWS)


def test_own_rows_train_from_their_file(rows):
    class Heard(dbtm.Callback):
        steps: tuple[int, ...] = ()

        def record(self, step, values):
            self.steps += (step,)

    heard = Heard()
    changes = [change for change in TINY if "compile" not in change]
    folder = dbtm.fit("own", data="rows.txt", changes=changes, callbacks=[heard])
    assert folder == Path("runs/own/step-00000003")
    assert 3 in heard.steps
    config = read_config(folder)
    assert (config.task.vocab, config.task.length, config.model.width) == (5, 4, 16)
    assert set("".join(dbtm.load(folder, device="cpu").sample(4, nfe=2).texts)) <= set("01234 ")


def test_arguments_reach_the_run(rows, monkeypatch):
    called = []
    monkeypatch.setattr(training, "fit", lambda *arguments: called.append(arguments))
    dbtm.fit("own", "out", True, 5.0, 2, data="rows.txt", method="mdlm", size="small")
    config, *rest = called.pop()
    assert (config.method_name, config.model.width) == ("mdlm", 128)
    assert rest == [Path("out"), True, 5.0, 2, ()]
    dbtm.fit(dbtm.recipe("markov"), minutes=1)
    assert called.pop() == (dbtm.recipe("markov"), Path("runs/markov"), False, None, 1, ())


def test_a_configuration_is_complete(rows):
    with pytest.raises(UsageError, match=r"data: only with the name of a recipe, as in dbtm.fit\('own', data=...\)"):
        dbtm.fit(dbtm.recipe("own"), data="rows.txt")
    unsized = dbtm.override(dbtm.recipe("own"), ["task.data=rows.txt"])
    with pytest.raises(UsageError, match=r"dbtm.fit\('own', data='rows.txt'\) reads them from the file"):
        dbtm.fit(unsized, "runs/mine")
    assert not Path("runs").exists()
