"""Random graphs that can be coloured, with their first colouring.

A graph has a fixed number of edges, drawn uniformly from all pairs; one without a colouring is drawn again. Colourings
are not planted, as that makes graphs of this density easier. A search in node order tries colours from the first on,
and so finds the first colouring in alphabetical order, which also breaks the symmetry of the colours.

Shapes: B graphs, n nodes, E pairs of nodes (i < j) row by row.
"""

import numba
import numpy as np

from dbtm.tasks.compiled_rng import below


@numba.njit(nogil=True)
def _draw(n, edges, random_1, adjacent_nn, pairs_E):
    """A number of different edges: the first of a shuffle of all pairs."""
    adjacent_nn[:] = 0
    for pair in range(len(pairs_E)):
        pairs_E[pair] = pair
    for edge in range(edges):
        other = edge + below(random_1, len(pairs_E) - edge)
        pairs_E[edge], pairs_E[other] = pairs_E[other], pairs_E[edge]
        i, left = 0, pairs_E[edge]
        while left >= n - 1 - i:
            left -= n - 1 - i
            i += 1
        j = i + 1 + left
        adjacent_nn[i, j] = adjacent_nn[j, i] = 1


@numba.njit(nogil=True)
def first_colouring(adjacent_nn, colours, colour_n, used_nk):
    """The first colouring in alphabetical order, by a search with forward checking; False if there is none.

    `used_nk` counts the neighbours before a node that have each colour.
    """
    n = len(colour_n)
    used_nk[:] = 0
    colour_n[:] = -1
    node = 0
    while node < n:
        if node < 0:
            return False
        if colour_n[node] >= 0:  # backtracking: remove it
            for other in range(node + 1, n):
                used_nk[other, colour_n[node]] -= adjacent_nn[node, other]
        highest = 0  # try one new colour only: unused colours are interchangeable
        for before in range(node):
            highest = max(highest, colour_n[before] + 1)
        found = False
        for colour in range(colour_n[node] + 1, min(colours, highest + 1)):
            if used_nk[node, colour] == 0 and _leaves_a_choice(adjacent_nn, colours, node, colour, used_nk):
                found = True
                colour_n[node] = colour
                break
        if found:
            for other in range(node + 1, n):
                used_nk[other, colour_n[node]] += adjacent_nn[node, other]
            node += 1
        else:
            colour_n[node] = -1
            node -= 1
    return True


@numba.njit(nogil=True)
def _leaves_a_choice(adjacent_nn, colours, node, colour, used_nk):
    """Whether every later neighbour could still be coloured."""
    for other in range(node + 1, len(adjacent_nn)):
        if adjacent_nn[node, other]:
            left = False
            for choice in range(colours):
                if choice != colour and used_nk[other, choice] == 0:
                    left = True
                    break
            if not left:
                return False
    return True


@numba.njit(nogil=True)
def make(keys_B, edges, colours, tries, adjacent_Bnn, colour_Bn):
    """Graphs and colourings, one per key; the number made before the first failure."""
    n = adjacent_Bnn.shape[1]
    pairs_E, used_nk = np.empty(n * (n - 1) // 2, np.int64), np.empty((n, colours), np.int64)
    random_1 = np.empty(1, np.uint64)
    for row in range(len(keys_B)):
        random_1[0] = keys_B[row]
        found = False
        for _ in range(tries):
            _draw(n, edges, random_1, adjacent_Bnn[row], pairs_E)
            if first_colouring(adjacent_Bnn[row], colours, colour_Bn[row], used_nk):
                found = True
                break
        if not found:
            return row
    return len(keys_B)
