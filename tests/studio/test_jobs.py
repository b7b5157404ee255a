"""The line of work: turns, limits, cancellation, and what is told of failures."""

import asyncio
import threading

import pytest

from dbtm.core.errors import UsageError
from dbtm.studio.jobs import Busy, Job, Jobs


def run(scenario):
    """A scenario with a line of its own, whose thread ends with it."""

    async def inside():
        jobs = Jobs(most=6, most_per_client=3)
        jobs.start()
        try:
            return await asyncio.wait_for(scenario(jobs), 20)
        finally:
            jobs.close()
            await asyncio.to_thread(jobs.thread.join, 10)
            assert not jobs.thread.is_alive()

    return asyncio.run(inside())


class Gate:
    """Work that begins and then waits to be let on."""

    def __init__(self):
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, job: Job):
        self.begun.set()
        while not self.go.wait(0.005):
            job.check()
        return {}


async def last(job: Job):
    while True:
        event, data = await job.events.get()
        if event in ("done", "error", "cancelled"):
            return event, data


def test_clients_take_turns():
    """One client asks for three, then others for one each: they do not wait behind all three."""

    async def scenario(jobs):
        order, gate = [], Gate()
        first = jobs.submit("a", gate)
        await asyncio.to_thread(gate.begun.wait)
        named = [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")]
        waiting = [jobs.submit(client, lambda job, name=name: order.append(name) or {}) for client, name in named]
        gate.go.set()
        assert [(await last(job))[0] for job in (first, *waiting)] == ["done"] * 6
        return order

    assert run(scenario) == ["a1", "b1", "c1", "a2", "a3"]


def test_positions_are_told_and_move_up():
    async def scenario(jobs):
        gate, second = Gate(), Gate()
        jobs.submit("a", gate)
        await asyncio.to_thread(gate.begun.wait)
        jobs.submit("b", second)
        third = jobs.submit("c", lambda job: {})
        assert await third.events.get() == ("queued", {"position": 2})
        gate.go.set()
        assert await third.events.get() == ("queued", {"position": 1})
        second.go.set()
        return await third.events.get(), await third.events.get()

    assert run(scenario) == (("begun", {}), ("done", {}))


def test_the_line_has_an_end_for_each_and_for_all():
    async def scenario(jobs):
        gate = Gate()
        jobs.submit("a", gate)
        await asyncio.to_thread(gate.begun.wait)
        for _ in range(3):
            jobs.submit("a", lambda job: {})
        with pytest.raises(Busy, match="3 of your requests"):
            jobs.submit("a", lambda job: {})
        for client in "bcd":
            jobs.submit(client, lambda job: {})
        with pytest.raises(Busy, match="6 requests are waiting"):
            jobs.submit("e", lambda job: {})
        gate.go.set()

    run(scenario)


def test_waiting_work_that_is_cancelled_is_never_done():
    async def scenario(jobs):
        gate, done = Gate(), []
        first = jobs.submit("a", gate)
        await asyncio.to_thread(gate.begun.wait)
        jobs.submit("b", lambda job: done.append("b") or {}).cancel()
        third = jobs.submit("c", lambda job: done.append("c") or {})
        gate.go.set()
        await last(first)
        await last(third)
        return done

    assert run(scenario) == ["c"]


def test_running_work_hears_that_nobody_wants_it():
    async def scenario(jobs):
        gate = Gate()
        job = jobs.submit("a", gate)
        await asyncio.to_thread(gate.begun.wait)
        job.cancel()
        return await last(job)

    assert run(scenario) == ("cancelled", {})


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (UsageError("give less"), 400, "give less"),
        (MemoryError(), 503, "not enough memory"),
        (RuntimeError("secret of /home/me"), 500, "the studio failed"),
    ],
)
def test_failures_are_sentences(error, status, words, capfd):
    def work(job):
        raise error

    async def scenario(jobs):
        return await last(jobs.submit("a", work))

    event, data = run(scenario)
    assert (event, data["status"]) == ("error", status)
    assert words in data["error"]
    assert "secret" not in data["error"]
    assert ("secret" in capfd.readouterr().err) == (status == 500), "the terminal is told, the browser is not"
