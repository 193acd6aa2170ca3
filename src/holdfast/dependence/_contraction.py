"""How fast a chain forgets its start: Dobrushin coefficients of the powers of a transition matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast import rounding

Matrix = NDArray[np.float64]

_EPS = float(np.finfo(float).eps)
_MOST_STEPS = 512
_WORK = 1e8
_NEGLIGIBLE = 1e-8
_EXACT_ROWS = 1 << 20


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

        Γ_ij = θ_{j−i} for j ≥ i, so row i of Γ sums to S_{n−i} (theory 1.1, the Dobrushin row).
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
        next_one = math.exp(float(self.log_theta_at(np.array([first]))[0]))
        if self.log_block == 0.0:
            return (n - first) * next_one
        # θ does not increase, so a block of K terms is at most K times its first.
        return min((n - first) * next_one, len(self.log_theta) * next_one / -math.expm1(self.log_block))


def forgetting(transition: Matrix, n: int, stationary: Matrix | None) -> Forgetting:
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
