"""Random satisfiable 3-SAT, with the first satisfying assignment.

Clauses have three different variables and random signs; a formula without a solution is drawn again. Solutions
are not planted, as that makes formulas of this density easier. A search with unit propagation assigns variables in
order, false first, and so finds the first assignment in alphabetical order.

Shapes: B formulas, M clauses, n variables. A literal is 2 v for the variable v, 2 v + 1 for its negation.
"""

import numba
import numpy as np

from dbtm.tasks.compiled_rng import below


@numba.njit(nogil=True)
def _draw(n, random_1, clauses_M3):
    """Clauses of different variables, each with its variables in order, and in order themselves."""
    for clause in range(len(clauses_M3)):
        a = below(random_1, n)
        b = below(random_1, n - 1)
        b += b >= a
        c = below(random_1, n - 2)
        low, high = min(a, b), max(a, b)
        c += c >= low
        c += c >= high
        first, third = min(low, c), max(high, c)
        second = a + b + c - first - third
        signs = below(random_1, 8)
        clauses_M3[clause, 0] = 2 * first + (signs & 1)
        clauses_M3[clause, 1] = 2 * second + (signs >> 1 & 1)
        clauses_M3[clause, 2] = 2 * third + (signs >> 2)
    order_M = np.argsort((clauses_M3[:, 0] * 2 * n + clauses_M3[:, 1]) * 2 * n + clauses_M3[:, 2], kind="mergesort")
    clauses_M3[:] = clauses_M3[order_M]


@numba.njit(nogil=True)
def _index(clauses_M3, n, where_NM, count_N):
    """The clauses of each literal."""
    count_N[:] = 0
    for clause in range(len(clauses_M3)):
        for literal in clauses_M3[clause]:
            where_NM[literal, count_N[literal]] = clause
            count_N[literal] += 1


@numba.njit(nogil=True)
def _assign(literal, clauses_M3, where_NM, count_N, value_n, trail_n, length):
    """Make a literal true, and all that follows by unit clauses; the new length of the trail, or -1 - length if a
    clause is false.
    """
    value_n[literal >> 1] = 1 - (literal & 1)
    trail_n[length] = literal
    read, length = length, length + 1
    while read < length:
        false = trail_n[read] ^ 1
        read += 1
        for k in range(count_N[false]):
            open_literal, open_count, true = -1, 0, False
            for other in clauses_M3[where_NM[false, k]]:
                value = value_n[other >> 1]
                if value < 0:
                    open_count += 1
                    open_literal = other
                elif value == 1 - (other & 1):
                    true = True
                    break
            if true:
                continue
            if open_count == 0:
                return -1 - length
            if open_count == 1:
                value_n[open_literal >> 1] = 1 - (open_literal & 1)
                trail_n[length] = open_literal
                length += 1
    return length


@numba.njit(nogil=True)
def first_solution(clauses_M3, value_n):
    """The first satisfying assignment in alphabetical order, false before true; False if there is none."""
    n = len(value_n)
    where_NM, count_N = np.empty((2 * n, len(clauses_M3)), np.int32), np.empty(2 * n, np.int32)
    trail_n, decision_n = np.empty(n, np.int64), np.empty(n, np.int64)  # decisions: their places in the trail
    _index(clauses_M3, n, where_NM, count_N)
    value_n[:] = -1
    length = depth = 0
    while length < n:
        variable = 0
        while value_n[variable] >= 0:
            variable += 1
        decision_n[depth] = length
        depth += 1
        length = _assign(2 * variable + 1, clauses_M3, where_NM, count_N, value_n, trail_n, length)
        while length < 0:  # undo the last decision for false; only true is left
            length = -1 - length
            if depth == 0:
                return False
            depth -= 1
            at = decision_n[depth]
            literal = trail_n[at]
            for k in range(at, length):
                value_n[trail_n[k] >> 1] = -1
            length = _assign(literal ^ 1, clauses_M3, where_NM, count_N, value_n, trail_n, at)
    return True


@numba.njit(nogil=True)
def make(keys_B, tries, clauses_BM3, value_Bn):
    """Formulas and solutions, one per key; the number made before the first failure."""
    random_1 = np.empty(1, np.uint64)
    for row in range(len(keys_B)):
        random_1[0] = keys_B[row]
        found = False
        for _ in range(tries):
            _draw(value_Bn.shape[1], random_1, clauses_BM3[row])
            if first_solution(clauses_BM3[row], value_Bn[row]):
                found = True
                break
        if not found:
            return row
    return len(keys_B)
