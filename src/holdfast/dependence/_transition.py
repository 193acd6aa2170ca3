"""Facts about one transition matrix: whether it connects, where it settles, how far one step gets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgument

Matrix = NDArray[np.float64]


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
    """Which states are reached from which in 2^j ≥ ``at_least`` steps, fewer too if one may ``stay``."""
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
