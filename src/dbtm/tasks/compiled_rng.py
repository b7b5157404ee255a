"""Counter-based random numbers for compiled code: splitmix64 on a state of one uint64.

A stream starts from a key, so its numbers are a function of that key alone, not of the order of calls, the number
of workers or numpy's generators. Everything here stays in uint64, since numba turns a mixture of
signed and unsigned 64-bit integers into floats.
"""

import numba
import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_HALF = np.uint64(32)


@numba.njit(nogil=True)
def mix(key):
    """The splitmix64 finalizer: a bijection of uint64 whose output bits look independent of the input's."""
    key = (key ^ (key >> _SHIFT_1)) * _MULTIPLY_1
    key = (key ^ (key >> _SHIFT_2)) * _MULTIPLY_2
    return key ^ (key >> _SHIFT_3)


@numba.njit(nogil=True)
def fold(key, word):
    """A new key from a key and one more word of identity, such as an index."""
    return mix(mix(key + _GOLDEN) ^ np.uint64(word))


@numba.njit(nogil=True)
def below(state_1, bound):
    """Next integer in [0, bound) from the stream; the bias, below bound / 2^32, does not matter here."""
    state_1[0] += _GOLDEN
    return np.int64(((mix(state_1[0]) >> _HALF) * np.uint64(bound)) >> _HALF)


@numba.njit(nogil=True)
def shuffle(values, state_1):
    """Fisher-Yates in place."""
    for last in range(len(values) - 1, 0, -1):
        other = below(state_1, last + 1)
        values[last], values[other] = values[other], values[last]
