"""How fast a Markov chain forgets its past.

The transition matrix is given, or it is any matrix that counted transitions leave possible. Then the slowest
of these matrices counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from holdfast import rounding
from holdfast.errors import InvalidArgument

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Counts = NDArray[Any]

_EPS = float(np.finfo(float).eps)
_MOST_STEPS = 512
_WORK = 1e8
_NEGLIGIBLE = 1e-8
_EXACT_ROWS = 1 << 20
_STEPS = 512
# Up to this many states, all sets of states are tried one by one.
_FEW_STATES = 10
_MOST_COUNTS = 1_000_000
_MOST_NUMBERS = 5_000_000


def read_transition(transition: Any) -> Matrix:
    """Check a transition matrix and divide each row by its sum, which may be off by 1e-9."""
    try:
        matrix = np.array(transition, dtype=float)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.ndim != 2 or not matrix.size or matrix.shape[0] != matrix.shape[1]:
        raise InvalidArgument("transition", "a square matrix of probabilities", transition, of="MarkovChain")
    if not np.isfinite(matrix).all() or not (matrix >= 0.0).all():
        raise InvalidArgument(
            "transition", "a matrix of finite numbers, none negative", transition, of="MarkovChain"
        )
    sums = matrix.sum(axis=1)
    wrong = np.flatnonzero(~(np.abs(sums - 1.0) <= 1e-9))
    if len(wrong):
        row = int(wrong[0])
        raise InvalidArgument(
            "transition",
            f"a matrix whose rows sum to one (row {row} sums to {float(sums[row])!r})",
            transition,
            of="MarkovChain",
        )
    matrix /= sums[:, None]
    return matrix


def read_initial(initial: Any, states: int) -> Matrix:
    """Check the law of the first row."""
    try:
        law = np.array(initial, dtype=float)
    except (TypeError, ValueError):
        law = np.empty(0)
    if (
        law.shape != (states,)
        or not np.isfinite(law).all()
        or not (law >= 0.0).all()
        or not abs(law.sum() - 1.0) <= 1e-9
    ):
        raise InvalidArgument(
            "initial",
            f"{states} probabilities that sum to one, or None for a stationary start",
            initial,
            of="MarkovChain",
        )
    law /= law.sum()
    return law


def _steps(transition: Matrix, at_least: int, *, stay: bool) -> NDArray[np.bool_]:
    """Which states are reached from which in 2^j ≥ ``at_least`` steps; with ``stay``, also in fewer."""
    reach = transition > 0.0
    if stay:
        reach = reach | np.eye(len(reach), dtype=np.bool_)
    steps = 1
    while steps < at_least:
        reach = (reach.astype(np.float32) @ reach.astype(np.float32)) > 0.0
        steps *= 2
    return reach


def unreachable(transition: Matrix) -> tuple[int, int] | None:
    """Two states of which the second is never reached from the first; None for an irreducible chain."""
    reach = _steps(transition, len(transition), stay=True)
    if reach.all():
        return None
    source, goal = np.argwhere(~reach)[0]
    return int(source), int(goal)


def forgets(transition: Matrix) -> bool:
    """Whether the chain forgets its start: some power has Dobrushin coefficient below one.

    That is so if after enough steps any two starts can be in the same state; S² steps are enough for S
    states.
    """
    reach = _steps(transition, len(transition) ** 2, stay=False).astype(np.float32)
    return bool((reach @ reach.T > 0.0).all())


def stationary_law(transition: Matrix) -> Matrix:
    """The stationary law of an irreducible chain, by elimination without subtraction.

    Reference: Grassmann, Taksar and Heyman 1985. Every entry is accurate to a few units in the last place
    however slowly the chain mixes.
    """
    work = transition.copy()
    size = len(work)
    for k in range(size - 1, 0, -1):
        work[:k, k] /= work[k, :k].sum()
        work[:k, :k] += np.outer(work[:k, k], work[k, :k])
    law = np.empty(size)
    law[0] = 1.0
    for k in range(1, size):
        law[k] = law[:k] @ work[:k, k]
    law /= law.sum()
    return law


def operator_norm(transition: Matrix, stationary: Matrix) -> float:
    """The norm of P on mean-zero functions in L²(π): the second singular value of D^½ P D^−½, rounded up.

    The first singular value is 1 with both singular vectors √π; taking it away leaves the norm of the rest.
    """
    root = np.sqrt(stationary)
    scaled = root[:, None] * transition / root
    rest = scaled - np.outer(root, root)
    norm = float(np.linalg.svd(rest, compute_uv=False)[0])
    return min(1.0, norm + 32.0 * len(root) * float(np.finfo(float).eps))


def dobrushin(matrix: Matrix) -> float:
    """The Dobrushin coefficient: the largest total variation between two rows of a transition matrix."""
    return max(float(np.abs(matrix[i:] - row).sum(axis=1).max()) for i, row in enumerate(matrix)) / 2.0


def coefficient(power: Matrix, steps: int) -> float:
    """The Dobrushin coefficient of a computed power, widened by what ``steps`` products may have lost."""
    return min(1.0, rounding.up(dobrushin(power)) + 4.0 * steps * len(power) * _EPS)


@dataclass(frozen=True)
class Forgetting:
    """Upper bounds θ_k on the Dobrushin coefficient of P^k and β(k) on the mixing coefficient, for every k.

    β(k) is the mean total variation between the law of a row given the row k before and its own law. Both
    are computed for k < K and extended by θ_{qK+r} ≤ θ_K^q θ_r and β(qK+r) ≤ θ_K^q β(r), in logarithms, so
    that they never vanish by underflow. For a chain on runs of states, ``shift`` more steps are behind the
    first row of a stretch than its last: θ is then that of k + shift steps, for k ≥ 1.
    """

    log_theta: Matrix
    log_beta: Matrix
    log_block: float
    shift: int = 0

    def log_theta_at(self, steps: NDArray[np.int64]) -> Matrix:
        """ln θ_k."""
        return np.where(steps == 0, 0.0, self._extend(self.log_theta, steps + self.shift))

    def log_beta_at(self, steps: NDArray[np.int64]) -> Matrix:
        """ln β(k)."""
        return self._extend(self.log_beta, steps)

    def _extend(self, table: Matrix, steps: NDArray[np.int64]) -> Matrix:
        blocks, rest = np.divmod(steps, len(table))
        return table[rest] + blocks * self.log_block

    def row_sums(self, n: int) -> tuple[float, float]:
        """(S_{n−1}, Σ_{m<n} S_m²) with S_m = θ_0 + … + θ_m, rounded up: the row sums of Γ for n rows.

        Γ_ij = θ_{j−i} for j ≥ i, so row i of Γ sums to S_{n−i}.
        Reference: ``docs/theory/dependence.md``, "The tail of a mean".
        """
        exact = min(n, _EXACT_ROWS)
        sums = np.cumsum(np.exp(self.log_theta_at(np.arange(exact)))) * (1.0 + 2.0 * exact * _EPS)
        last, squares = float(sums[-1]), float(sums @ sums)
        if n > exact:
            last += self._beyond(exact, n)
            squares += (n - exact) * last * last
        return rounding.up(last), rounding.up(squares)

    def _beyond(self, first: int, n: int) -> float:
        """A bound on θ_first + … + θ_{n−1}."""
        following = math.exp(float(self.log_theta_at(np.array([first]))[0]))
        if self.log_block == 0.0:
            return (n - first) * following
        # θ does not increase, so a block of K terms is at most K times its first.
        return min((n - first) * following, len(self.log_theta) * following / -math.expm1(self.log_block))


def tabulated_forgetting(transition: Matrix, n: int, stationary: Matrix | None) -> Forgetting:
    """Tabulate θ_k, and β(k) from ``stationary`` where the chain starts there (elsewhere β(k) ≤ θ_k)."""
    size = len(transition)
    most = int(min(max(n - 1, 1), _MOST_STEPS, max(1.0, _WORK / size**3)))
    thetas = [1.0]
    betas = [1.0 if stationary is None else 1.0 - float(stationary @ stationary)]
    power = np.eye(size)
    while len(thetas) <= most and thetas[-1] > _NEGLIGIBLE:
        power = power @ transition
        steps = len(thetas)
        thetas.append(min(thetas[-1], coefficient(power, steps)))
        if stationary is None:
            betas.append(thetas[-1])
        else:
            distance = 0.5 * float(stationary @ np.abs(power - stationary).sum(axis=1))
            betas.append(min(thetas[-1], rounding.up(distance) + 4.0 * steps * size * _EPS))
    block = math.log(thetas.pop())
    betas.pop()
    with np.errstate(divide="ignore"):
        return Forgetting(np.log(thetas), np.log(betas), block)


def steps_to_reach(transition: Matrix, target: float) -> tuple[int, float] | None:
    """The smallest k with θ_k ≤ ``target`` and that θ_k, or None if 2^40 steps are not enough.

    θ_k does not increase with k, so the powers 2^j bracket k and the stored ones give its binary digits.
    """
    squares = [transition]
    while coefficient(squares[-1], 1 << (len(squares) - 1)) > target:
        if len(squares) > 40:
            return None
        squares.append(squares[-1] @ squares[-1])
    if len(squares) == 1:
        return 1, coefficient(transition, 1)
    reached = coefficient(squares[-1], 1 << (len(squares) - 1))
    below, steps = squares[-2], 1 << (len(squares) - 2)
    for j in range(len(squares) - 3, -1, -1):
        trial = below @ squares[j]
        value = coefficient(trial, steps + (1 << j))
        if value > target:
            below, steps = trial, steps + (1 << j)
        else:
            reached = value
    return steps + 1, reached


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
    """The largest q with kl(share ‖ q) ≤ budget, rounded up, elementwise.

    It searches for all elements at once, in numpy, so it cannot use ``holdfast.search``: a chain may have
    thousands of shares.
    """
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
    distances = np.zeros(len(counts))
    for i, (row, free) in enumerate(zip(counts, allowed, strict=True)):
        total = int(row.sum())
        if free.sum() < 2:
            continue
        if not total:
            distances[i] = 1.0
            continue
        parts, limit = row[free], float(budget[i])
        if len(parts) <= _FEW_STATES:
            shares = _sets(len(parts)) @ parts / total
            distances[i] = float((highest(shares, limit) - shares).max()) + 1e-12
        elif total <= _MOST_COUNTS:
            distances[i] = _largest_rise(_sums(parts.astype(np.int64), total) / total, limit)
        else:  # With this many parts, some set has nearly every share, so Pinsker's bound is nearly exact.
            distances[i] = math.sqrt(limit / 2.0) * (1.0 + 1e-12)
    return np.minimum(1.0, distances)


def _sets(size: int) -> NDArray[np.int64]:
    """The non-empty proper sets of ``size`` states. The complement of the k-th set from the start is the k-th
    from the end."""
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

    With few states and ``sets`` it is exact. The distance is P_i(A) − P_k(A) for a set A. The first term is
    at most highest(p̂_i(A)), and the second at least 1 − highest(p̂_k of the other states). A matrix of the
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
