"""Idle threads sleep soon, in every process that imports the package, unless the user sets otherwise."""

import os
import subprocess
import sys

import pytest
import torch

from dbtm.core.threads import SLEEP_SOON, let_idle_threads_sleep, let_idle_threads_sleep_at_once, thread_count


def test_what_the_user_has_set_stays():
    environment = {"GOMP_SPINCOUNT": "7"}
    let_idle_threads_sleep(environment)
    assert environment == {**SLEEP_SOON, "GOMP_SPINCOUNT": "7"}


def test_a_wait_policy_of_the_users_own_is_left_alone():
    environment = {"OMP_WAIT_POLICY": "active"}
    let_idle_threads_sleep(environment)
    assert environment == {"OMP_WAIT_POLICY": "active"}


@pytest.mark.parametrize("start", ["import dbtm", "import dbtm.cli", "from dbtm import load"])
def test_it_is_set_before_pytorch_is_imported(start):
    """An import hook records the environment at the first import of torch."""
    script = (
        "import os, sys\n"
        "class Look:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        "            print(os.environ.get('GOMP_SPINCOUNT'), os.environ.get('KMP_BLOCKTIME'))\n"
        "            sys.stdout.flush(); os._exit(0)\n"
        "sys.meta_path.insert(0, Look())\n"
        f"{start}\n"
        "import torch\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in {*SLEEP_SOON, "OMP_WAIT_POLICY"}}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*SLEEP_SOON.values()]


def test_a_server_lets_them_sleep_at_once_unless_the_user_says_otherwise():
    environment = {}
    let_idle_threads_sleep(environment)
    let_idle_threads_sleep_at_once(environment)
    assert all(0 <= int(environment[name]) < int(value) for name, value in SLEEP_SOON.items())
    for chosen in ({"GOMP_SPINCOUNT": "7", "KMP_BLOCKTIME": "9"}, {"OMP_WAIT_POLICY": "active"}):
        environment = dict(chosen)
        let_idle_threads_sleep(environment)
        let_idle_threads_sleep_at_once(environment)
        assert environment == chosen


def test_a_number_of_threads_for_a_while():
    before = torch.get_num_threads()
    with thread_count(before + 1):
        assert torch.get_num_threads() == before + 1
        with thread_count(0):
            assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
