"""Work that several processes share: whose error is raised, and what the others say of theirs."""

import os

import pytest

from dbtm.core.errors import UsageError
from dbtm.train.distributed import World
from dbtm.train.team import Team
from tests.processes import wait_until
from tests.train import workers

pytest.importorskip("resource", reason="processes are forked")


def fail_first(team, ended):
    if not team.rank:
        raise ValueError("this measure is wrong")
    wait_until(ended.exists)


def with_a_peer_at_work(ended):
    """The first process's error, raised while the second one is still at work for longer than the first one waits."""
    team = Team(World.join(cuda=False).on_cpus(), seconds=0.5)
    if team.rank:
        with pytest.raises(UsageError, match="process 1 of 2 lost another one"):
            team.serve()
        os._exit(0)
    with pytest.raises((ValueError, UsageError)) as raised, team.leading():
        team.everywhere(fail_first, ended)
    ended.touch()
    return repr(raised.value)


def test_an_error_of_the_first_process_is_not_lost_while_others_work(tmp_path):
    ended = tmp_path / "ended"
    said = workers.run(2, with_a_peer_at_work, ended, folder=tmp_path, leave=False, results=1)
    assert said == ["ValueError('this measure is wrong')"]
