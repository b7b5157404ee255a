"""Time and memory of calls with known values, and the fits against exact power laws."""

import time

import pytest
import torch

from dbtm.bench.timing import crossing, exponent, milliseconds, peak_bytes

CPU = torch.device("cpu")


def test_milliseconds_is_the_median_and_calls_take_turns():
    order, naps = [], iter([0, 0, 0.01, 0.05, 0.02])

    def nap():
        order.append("nap")
        time.sleep(next(naps))

    found = milliseconds({"nap": nap, "nothing": lambda: order.append("nothing")}, CPU, repeats=3)
    assert found["nap"] >= 20
    assert found["nothing"] < 5
    assert order == ["nap", "nothing"] * 5


def test_peak_counts_what_is_held_at_once():
    before = torch.zeros(1000, 1000)

    def call():
        a = before + 1  # 4 MB
        b = a + 1
        del a
        c = b + 1
        del b
        return c.sum()

    assert peak_bytes(call, CPU) == pytest.approx(8e6, rel=1e-3)
    assert peak_bytes(lambda: before.sum(), CPU) < 1e3


def test_exponent_of_a_power_law():
    assert exponent([1, 2, 8], [3, 3 * 2**1.5, 3 * 8**1.5]) == pytest.approx(1.5)


def test_crossing():
    lengths = [1, 4, 16]
    quadratic, linear = [l**2 for l in lengths], [8 * l for l in lengths]
    assert crossing(lengths, quadratic, linear) == pytest.approx(8)
    assert crossing(lengths, linear, quadratic) is None, "it is above at the end"
    assert crossing(lengths, quadratic, [l / 2 for l in lengths]) == 1, "it is below from the start"
