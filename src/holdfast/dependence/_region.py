"""What a trajectory says about a transition matrix, and the slowest chain that it leaves possible."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from holdfast.dependence._contraction import Forgetting

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Counts = NDArray[Any]

_STEPS = 512
_NEGLIGIBLE = 1e-8
# With so many states all sets of them are looked at one by one.
_FEW_STATES = 10
_MOST_COUNTS = 1_000_000
_MOST_NUMBERS = 5_000_000
_EPS = float(np.finfo(float).eps)


def code_excess(counts: Counts, allowed: Mask) -> Matrix:
    """C_i = Σ_j N_ij ln p̂_ij − ln KT(N_i·): what the Krichevsky–Trofimov code pays more than the frequencies.

    KT(N) = Γ(s/2)/Γ(N + s/2) · Π_j Γ(N_j + ½)/Γ(½) over the s entries that are ``allowed``. Rounded up.
    """
    size = allowed.sum(axis=1).astype(float)
    leaving = counts.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        fitted = np.where(counts > 0.0, counts * np.log(counts / leaving[:, None]), 0.0).sum(axis=1)
    gained = np.where(allowed, scipy.special.gammaln(counts + 0.5) - scipy.special.gammaln(0.5), 0.0)
    lost = scipy.special.gammaln(leaving + size / 2.0) - scipy.special.gammaln(size / 2.0)
    slack = 16.0 * _EPS * (np.abs(fitted) + np.abs(gained).sum(axis=1) + np.abs(lost) + 1.0)
    excess: Matrix = fitted - gained.sum(axis=1) + lost + slack
    return excess


def budgets(counts: Counts, allowed: Mask, failure: float) -> Matrix:
    """How far each row of the matrix may be from the observed frequencies p̂_i, in Kullback–Leibler distance.

    ``counts[i, j]`` is how often j followed i; ``allowed`` marks the entries that may differ from 0.

    Guarantee: with probability ≥ 1 − ``failure`` over the trajectory, from any start, KL(p̂_i ‖ P_i) ≤ the
    result for all i at once.
    Assumes: the trajectory follows a chain whose rows are ``allowed`` ones (not checkable from the data).
    Reference: ``docs/theory/dependence.md``, "A fitted chain".
    """
    leaving = counts.sum(axis=1)
    choices = int((allowed.sum(axis=1) > 1).sum())
    nats = math.log(max(1, choices) / failure) + code_excess(counts, allowed)
    with np.errstate(divide="ignore"):
        return np.where(leaving > 0.0, nats / leaving, np.inf)


def highest(share: Matrix, budget: Matrix | float) -> Matrix:
    """The largest q with kl(share ‖ q) ≤ budget, rounded up, elementwise."""
    share, budget = np.broadcast_arrays(share, np.asarray(budget, dtype=float))
    limit = budget * (1.0 + 1e-9) + 1e-14
    low, high = share.astype(float), np.ones(share.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(60):
            middle = (low + high) / 2.0
            inside = np.where(share > 0.0, share * np.log(share / middle), 0.0) + np.where(
                share < 1.0, (1.0 - share) * np.log((1.0 - share) / (1.0 - middle)), 0.0
            )
            within = inside <= limit
            low, high = np.where(within, middle, low), np.where(within, high, middle)
    return high


def radii(counts: Counts, allowed: Mask, budget: Matrix) -> Matrix:
    """The largest total variation between p̂_i and a law within the row's budget, exactly (rounded up).

    The distance is P(A) − p̂(A) for some set A of states, and kl(p̂(A) ‖ P(A)) ≤ KL(p̂ ‖ P). So it is the
    largest value of ``highest(a) − a`` over the shares a that sets of states can have. Only with many states
    and counts is it Pinsker's √(budget/2) instead.
    """
    found = np.zeros(len(counts))
    for i, (row, free) in enumerate(zip(counts, allowed, strict=True)):
        total = int(row.sum())
        if free.sum() < 2:
            continue
        if not total:
            found[i] = 1.0
            continue
        parts, limit = row[free], float(budget[i])
        if len(parts) <= _FEW_STATES:
            shares = _sets(len(parts)) @ parts / total
            found[i] = float((highest(shares, limit) - shares).max()) + 1e-12
        elif total <= _MOST_COUNTS:
            found[i] = _largest_rise(_sums(parts.astype(np.int64), total) / total, limit)
        else:  # Sums of so many parts are almost everywhere, also where Pinsker's inequality is sharp.
            found[i] = math.sqrt(limit / 2.0) * (1.0 + 1e-12)
    return np.minimum(1.0, found)


def _sets(size: int) -> NDArray[np.int64]:
    """The non-empty proper sets of so many states; the complement of the k-th from the start is the k-th from
    the end."""
    return (np.arange(1, 2**size - 1)[:, None] >> np.arange(size)) & 1


def _sums(parts: NDArray[np.int64], total: int) -> Matrix:
    """The sums of the non-empty proper subsets of ``parts``, sorted; bit k of a whole number stands for k."""
    reached = 1
    for part in parts.tolist():
        reached |= reached << part
    if parts.min() > 0:
        reached &= ~1
    bits = np.frombuffer(reached.to_bytes(total // 8 + 1, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(float)


def _largest_rise(shares: Matrix, budget: float) -> float:
    """The largest ``highest(a) − a``: it is concave in a, since kl is convex in both, so it has one peak."""
    first, last = 0, len(shares) - 1
    while last - first > 512:
        trial = np.linspace(first, last, 129).astype(np.int64)
        peak = int(np.argmax(highest(shares[trial], budget) - shares[trial]))
        first, last = int(trial[max(0, peak - 1)]), int(trial[min(128, peak + 1)])
    near = shares[first : last + 1]
    return float((highest(near, budget) - near).max()) + 1e-12


def one_step(frequencies: Matrix, budget: Matrix, radius: Matrix, *, sets: bool) -> Matrix:
    """A bound on the total variation between rows i and k of every matrix in the region.

    With few states and ``sets`` it is exact: the distance is P_i(A) − P_k(A) for a set A, the first term is
    at most highest(p̂_i(A)), the second at least 1 − highest(p̂_k of the other states), and a matrix of the
    region attains both.
    """
    size = frequencies.shape[1]
    apart = np.abs(frequencies[:, None] - frequencies[None]).sum(axis=2) / 2.0
    bound = np.minimum(1.0, apart + radius[:, None] + radius[None] + 4.0 * size * _EPS)
    if sets and size <= _FEW_STATES:
        upper = highest(_sets(size) @ frequencies.T, budget)
        exact = np.array([(row[:, None] + upper[::-1] - 1.0).max(axis=0) for row in upper.T])
        bound = np.minimum(bound, np.maximum(exact + 1e-12, 0.0))
    np.fill_diagonal(bound, 0.0)
    distances: Matrix = bound
    return distances


def slowest(matrix: Matrix, budget: Matrix, radius: Matrix, first: Matrix, shift: int) -> Forgetting | None:
    """Bounds θ_g on the Dobrushin coefficient of P^g, for every g and every P in the region.

    ``matrix`` holds the observed frequencies P̂, ``radius`` and ``budget`` say how far the rows of P may be in
    total variation and in Kullback–Leibler distance, ``first`` bounds the distances between rows of P.
    With ν_s = (δ_i − δ_k)P̂^s,

        (δ_i − δ_k)P^g = ν_g + Σ_{s<g} ν_s (P − P̂) P^{g−1−s},

    so the distance D_g of rows i and k of P^g is at most

        TV(P̂^g_i, P̂^g_k) + Σ_{s<g} Σ_x |ν_s(x)| e_{g−1−s}(x),

    e_m(x) a bound on the distance between P_x P^m and P̂_x P^m. Also D_{a+b} ≤ D_a θ_b. None where no θ_g gets
    below 1.
    """
    size = len(matrix)
    left, right = np.triu_indices(size, 1)
    steps = max(2, min(_STEPS, _MOST_NUMBERS // (size * len(left))))
    apart, thetas = np.ones((steps + 1, len(left))), np.ones(steps + 1)
    nus, errors = np.empty((steps, len(left), size)), np.empty((steps, size))
    power, distances = np.eye(size), np.zeros((size, size))
    for g in range(1, steps + 1):
        nus[g - 1] = np.abs(power[left] - power[right])
        distances[left, right] = distances[right, left] = apart[g - 1]
        errors[g - 1] = _row_errors(matrix, budget, radius, distances)
        power = power @ matrix
        plain = np.abs(power[left] - power[right]).sum(axis=1) / 2.0
        spoilt = np.matmul(nus[:g], errors[g - 1 :: -1, :, None])[..., 0].sum(axis=0)
        direct = (plain + spoilt) * (1.0 + 1e-12) + 8.0 * g * size * _EPS
        products = (apart[1:g] * thetas[g - 1 : 0 : -1, None]).min(axis=0, initial=1.0) * (1.0 + 1e-15)
        apart[g] = np.minimum(np.minimum(apart[g - 1], direct), first[left, right] if g == 1 else products)
        thetas[g] = apart[g].max()
        if thetas[g] <= _NEGLIGIBLE:
            break
    if not thetas[g] < 1.0:
        return None
    logs = np.log(thetas[: g + 1])
    return Forgetting(logs[:-1], logs[:-1], float(logs[-1]), shift)


def _row_errors(matrix: Matrix, budget: Matrix, radius: Matrix, distances: Matrix) -> Matrix:
    """Bounds on the total variation between P_x P^m and P̂_x P^m, from those on the distances of rows of P^m.

    r_x θ_m, or c_x θ_m + √(2 c_x v) with v the variance under P̂_x that the distances leave possible: a row
    may move much mass between states that soon behave alike, and little to where it was never seen to go.
    """
    farthest = float(distances.max())
    variance = 0.5 * (matrix * (matrix @ (distances * distances))).sum(axis=1) * (1.0 + 1e-12)
    errors: Matrix = np.minimum(radius * farthest, budget * farthest + np.sqrt(2.0 * budget * variance))
    return errors
