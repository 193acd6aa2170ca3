"""Transfer for independent rows: what k adaptive answers, mean + N(0, sd²), say of the law
(``docs/theory/transfer.md``).

Every point of the search is a valid promise, so the search decides only how sharp the result is, never
whether it holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from holdfast import checks, rounding, search
from holdfast.records import Record
from holdfast.stability._composition import Floats
from holdfast.stability._profiles import gaussian_delta, log_gaussian_delta

__all__ = ["TransferError", "split_error", "transfer_error"]

_INFORMATION = "docs/theory/transfer.md, Information (after Feldman and Steinke 2018)"
_JUNG = "Jung, Ligett, Neel, Roth, Sharifi-Malvajerdi and Shenfeld 2019"
_ROUNDS, _SHRINK = 18, 0.4


@dataclass(frozen=True, repr=False)
class TransferError(Record):
    """The certified error of k adaptive answers, with every number needed to check the promise again.

    ``error`` = min(1, ``generalization`` + ``noise``): with probability 1 − ``beta`` no answer is further
    from its population mean. ``sd`` is the noise to add to every answer, ``noise`` what it costs in error.

    information: ``b1`` pays for the noise, ``b2`` = β − b1 for the rows; ``information`` is the bound on the
    mutual information in nats, ``log_independent`` = −2nt², t = ``generalization``, bounds the same event
    where rows and answers are independent. jung: the answers are within ``noise`` of the sample with
    probability 1 − ``b1``; the mechanism is (``epsilon``, ``delta``)-private; b1/c + delta/d = ``b2`` = β and
    ``generalization`` = e^ε − 1 + c + 2d.

    Args:
        method: The proof that was used.
        n: How many rows there are.
        k: How many queries are answered.
    """

    method: str
    n: int
    k: int
    beta: float
    error: float
    sd: float
    generalization: float
    noise: float
    b1: float
    b2: float
    information: float | None = None
    log_independent: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    c: float | None = None
    d: float | None = None


def transfer_error(
    n: int, k: int, beta: float, *, method: Literal["information", "jung"] = "information"
) -> TransferError:
    """The error of k adaptive mean queries in [0, 1] on n independent rows, answered with Gaussian noise.

    Guarantee: with probability 1 − ``beta`` over rows, noise and the analyst's coins, every answer is within
        ``error`` of its population mean; the noise is chosen to make ``error`` least.
    Assumes: independent rows; queries with values in [0, 1] (neither is checkable from the answers).
    Reference: ``information``: ``docs/theory/transfer.md``, mutual information ≤ k/(8 n sd²) and kl(b2 ‖
    e^{−2nt²}) ≥ that.
        ``jung``: Jung et al. 2019, theorem 3.5, with the exact (ε, δ) of √k/(n·sd)-Gaussian privacy and the
        best split.

    Args:
        n: How many rows there are.
        k: How many queries are answered.
        method: The proof: "information" or "jung".

    >>> round(transfer_error(10_000, 10, 0.05).error, 4)
    0.0746
    """
    name = "transfer_error"
    method = checks.choice(method, "method", ("information", "jung"), of=name)
    source = _INFORMATION if method == "information" else _JUNG
    n = checks.whole(n, "n", of=name, by=source)
    k = checks.whole(k, "k", of=name, by=source)
    beta = checks.real(beta, "beta", "[1e-300, 1)", of=name, by=source)
    return _information(n, k, beta) if method == "information" else _jung(n, k, beta)


def split_error(n: int, k: int, beta: float) -> float:
    """The error of k adaptive mean queries in [0, 1], each on its own n // k rows.

    Guarantee: √(ln(2k/β) / (2⌊n/k⌋)) with probability 1 − β, at most 1; exactly 1 when k > n.
    Assumes: independent rows; queries with values in [0, 1] (not checkable).
    Reference: Hoeffding 1963, at β/k for each query.

    Args:
        n: How many rows there are.
        k: How many queries are answered.
        beta: β in [0, 1]: the probability with which the bound may fail.

    >>> round(split_error(10_000, 10, 0.05), 4)
    0.0547
    """
    n = checks.whole(n, "n", of="split_error", by="Hoeffding 1963")
    k = checks.whole(k, "k", of="split_error", by="Hoeffding 1963")
    beta = checks.real(beta, "beta", "(0, 1)", of="split_error", by="Hoeffding 1963")
    if k > n:
        return 1.0
    return rounding.probability(math.sqrt((math.log(2.0 * k) - math.log(beta)) / (2.0 * (n // k))))


def _information(n: int, k: int, beta: float) -> TransferError:
    def error(point: Floats) -> Floats:
        sd, share = np.exp(point[0]), scipy.special.expit(point[1])
        exponent = transfer_exponent(beta * (1.0 - share), k / (8.0 * n) / sd**2)
        total: Floats = np.sqrt(exponent / (2.0 * n)) + sd * _noise_quantile(beta * share, k)
        return total

    middle = math.log(k) / 4.0 - math.log(n) / 2.0
    log_sd, log_odds = search.least_in_box(
        error, ((middle - 8.0, middle + 8.0), (-25.0, 5.0)), points=41, rounds=_ROUNDS, shrink=_SHRINK
    )
    sd = math.exp(log_sd)
    b1 = rounding.down(beta * float(scipy.special.expit(log_odds)))
    b2 = rounding.down(beta - b1)
    information = rounding.up(k / (8.0 * n) / sd**2)
    exponent = rounding.up(float(transfer_exponent(np.array(b2), np.array(information))))
    noise = rounding.up(sd * float(_noise_quantile(np.array(b1), k)))
    generalization = rounding.up(math.sqrt(exponent / (2.0 * n)))
    return TransferError(
        method="information",
        n=n,
        k=k,
        beta=beta,
        error=rounding.probability(generalization + noise),
        sd=sd,
        generalization=generalization,
        noise=noise,
        b1=b1,
        b2=b2,
        information=information,
        log_independent=-exponent,
    )


def _jung(n: int, k: int, beta: float) -> TransferError:
    def error(point: Floats) -> Floats:
        sd, b1, epsilon = np.exp(point)
        log_delta = log_gaussian_delta(epsilon, math.sqrt(k) / n / sd)
        shares = (np.sqrt(b1) + np.exp(0.5 * (math.log(2.0) + log_delta))) ** 2 / beta
        total: Floats = sd * _noise_quantile(b1, k) + np.expm1(epsilon) + shares
        return total

    middle = math.log(k) / 4.0 - math.log(n) / 2.0
    small = math.log(beta)
    box = ((middle - 6.0, middle + 6.0), (small - 40.0, small), (-20.0, 2.0))
    log_sd, log_b1, log_epsilon = search.least_in_box(error, box, points=17, rounds=_ROUNDS, shrink=_SHRINK)
    sd, b1, epsilon = math.exp(log_sd), math.exp(log_b1), math.exp(log_epsilon)
    delta = gaussian_delta(epsilon, rounding.up(math.sqrt(k) / n / sd))
    root_b1, root_delta = math.sqrt(b1), math.sqrt(delta)
    whole = root_b1 + math.sqrt(2.0) * root_delta
    c = rounding.up(root_b1 * whole / beta)
    d = rounding.up(root_delta * whole / (math.sqrt(2.0) * beta))
    noise = rounding.up(sd * float(_noise_quantile(np.array(b1), k)))
    generalization = rounding.up(math.expm1(epsilon) + c + 2.0 * d)
    return TransferError(
        method="jung",
        n=n,
        k=k,
        beta=beta,
        error=rounding.probability(generalization + noise),
        sd=sd,
        generalization=generalization,
        noise=noise,
        b1=b1,
        b2=beta,
        epsilon=epsilon,
        delta=delta,
        c=c,
        d=d,
    )


def _noise_quantile(failure: Floats, k: int) -> Floats:
    """Φ⁻¹(1 − failure/2k): k Gaussians stay below it in size with probability 1 − failure."""
    result: Floats = -scipy.special.ndtri(failure / (2.0 * k))
    return result


def transfer_exponent(failure: Floats, information: Floats) -> Floats:
    """x = ln(1/q) for the largest q ≤ failure with kl(failure ‖ q) ≥ information, elementwise.

    kl(b ‖ q) = b (x + ln b) + (1−b) ln((1−b)/(1−q)) is convex and increasing in x for q < b, so Newton's
    steps from above stay above, which is the safe side; all divided by b, which may be tiny.
    """
    odds = (1.0 - failure) / failure
    with np.errstate(over="ignore"):
        start = np.minimum(information / failure, 1e300) - np.log(failure) - odds * np.log1p(-failure)
    exponent: Floats = start
    for _ in range(50):
        independent = np.exp(-exponent)
        excess = exponent - start - odds * np.log1p(-independent)
        slope = 1.0 - odds * independent / (1.0 - independent)
        step = np.where((excess > 0.0) & (slope > 0.0), excess / np.where(slope > 0.0, slope, 1.0), 0.0)
        exponent = exponent - step
        if np.all(step <= 1e-15 * exponent):
            break
    return exponent
