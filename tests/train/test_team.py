"""Work shared by several processes: the error that is raised, and the messages of the others."""

import os
from contextlib import redirect_stderr
from io import StringIO

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
    """The first process's error, raised while the second one works for longer than the first one waits."""
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


def fail_second(team, error):
    if team.rank:
        raise error


def lead_or_serve(team, *asked):
    if team.rank:
        team.serve()
    with team.leading():
        team.everywhere(*asked)


def with_a_peer_that_fails(error):
    """The stderr of each process and the error that ends it, if the second one's share raises `error`."""
    team, written = Team(World.join(cuda=False).on_cpus(), seconds=60), StringIO()
    with redirect_stderr(written), pytest.raises((UsageError, SystemExit)) as raised:
        lead_or_serve(team, fail_second, error)
    return written.getvalue(), str(raised.value)


def test_a_bug_in_a_share_of_another_process_leaves_its_traceback(tmp_path):
    first, second = workers.run(2, with_a_peer_that_fails, KeyError("state"), folder=tmp_path)
    assert first == ("", "process 1 of 2: KeyError: 'state'")
    assert second[0].startswith("Traceback (most recent call last)")
    assert "in fail_second" in second[0]
    assert second[0].endswith("KeyError: 'state'\n")


def test_a_mistake_that_another_process_finds_is_told_once(tmp_path):
    first, second = workers.run(2, with_a_peer_that_fails, UsageError("no judge here"), folder=tmp_path)
    assert first == ("", "process 1 of 2: no judge here")
    assert second == ("", "1")
