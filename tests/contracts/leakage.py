"""What the worst of all private mechanisms leaks about a row, by linear programs: the tests' oracle."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from holdfast.dependence import BayesianNetwork


def supremum(law, epsilon):
    """The largest ln E[f|a,x_K]/E[f|b,x_K] over all ε-DP f, rows, known rows and values: linear programs."""
    cards = law.shape
    n, cells = law.ndim, np.arange(law.size).reshape(law.shape)
    above, below = [], []
    for row in range(n):
        for x, other in itertools.permutations(range(cards[row]), 2):
            above.append(np.take(cells, x, axis=row).ravel())
            below.append(np.take(cells, other, axis=row).ravel())
    above, below = np.concatenate(above), np.concatenate(below)
    lines = np.arange(len(above))
    entries = np.concatenate([np.ones(len(lines)), np.full(len(lines), -math.exp(epsilon))])
    places = (np.concatenate([lines, lines]), np.concatenate([above, below]))
    neighbours = csr_array((entries, places), shape=(len(lines), law.size))
    best = 0.0
    for row in range(n):
        others = [r for r in range(n) if r != row]
        for size in range(n):
            for known in itertools.combinations(others, size):
                for values in itertools.product(*(range(cards[r]) for r in known)):
                    place = [slice(None)] * n
                    for r, value in zip(known, values, strict=True):
                        place[r] = slice(value, value + 1)
                    seen = np.zeros_like(law)
                    seen[tuple(place)] = law[tuple(place)]
                    laws = []
                    for value in range(cards[row]):
                        at = np.zeros_like(law)
                        index = (slice(None),) * row + (value,)
                        at[index] = seen[index]
                        if at.sum() > 0:
                            laws.append(at.ravel() / at.sum())
                    for a, b in itertools.permutations(laws, 2):
                        found = linprog(
                            -a, A_ub=neighbours, b_ub=np.zeros(len(lines)), A_eq=b[None], b_eq=[1.0]
                        )
                        best = max(best, math.log(-found.fun))
    return best


def law_of(net):
    law = np.ones([net.states[node] for node in net.nodes])
    entries = (
        [((*parents, node), table) for node, (parents, table) in net.model.items()]
        if isinstance(net, BayesianNetwork)
        else net.model
    )
    for scope, table in entries:
        order = sorted(range(len(scope)), key=lambda k: scope[k])
        law = law * np.transpose(table, order).reshape(
            [law.shape[r] if r in scope else 1 for r in range(law.ndim)]
        )
    return law / law.sum()
