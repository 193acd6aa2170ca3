"""Promises computed again from the parameters a plan returns, with numpy and scipy alone.

Nothing here imports Holdfast. A function returns the list of conditions that fail; an empty list keeps the
promise.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

LOOSE = 1e-9


def gaussian_broken(p: dict, sigma: float, error: float, confidence: float) -> list[str]:
    """Gaussian noise, for queries that are subgaussian with ``sigma``.

    The theorem is in ``docs/theory/adaptive-validity.md``, "The theorem (ours)".
    """
    k, broken = p["k"], _common(p, sigma, error, confidence)
    if p["scale"] > 0:
        start = special.ndtri_exp(math.log(k) + _log_nu(p["radius"], sigma))
        reached = special.log_ndtr(start + math.sqrt(k - 1) * p["radius"] / p["scale"])
        if not math.exp(reached) <= p["b2"] * (1 + LOOSE):
            broken.append("trade-off")
        large = 2 * special.ndtr(-p["noise"] / p["scale"])
        if not -math.expm1(k * math.log1p(-large)) <= p["b1"] * (1 + LOOSE):
            broken.append("noise")
    return broken


def laplace_broken(p: dict, sigma: float, error: float, confidence: float) -> list[str]:
    """Laplace noise: e^ε·kν + δ(ε) ≤ b2, δ of k − 1 answers by convolution.

    The theorem is in ``docs/theory/adaptive-validity.md``, "The theorem (ours)".
    """
    k, broken = p["k"], _common(p, sigma, error, confidence)
    if p["scale"] > 0:
        carried = p["epsilon"] + math.log(k) + _log_nu(p["radius"], sigma)
        delta = laplace_delta(p["epsilon"], p["radius"] / p["scale"], k - 1)
        if not math.exp(min(carried, 700.0)) + delta <= p["b2"] * 1.003:
            broken.append("trade-off")
        large = math.exp(-p["noise"] / p["scale"])
        if not -math.expm1(k * math.log1p(-large)) <= p["b1"] * (1 + LOOSE):
            broken.append("noise")
    return broken


def _common(p: dict, sigma: float, error: float, confidence: float) -> list[str]:
    broken = []
    if not p["b1"] + p["b2"] <= (1 - confidence) * (1 + LOOSE):
        broken.append("beta")
    if not p["radius"] + p["noise"] <= error * (1 + LOOSE):
        broken.append("error")
    if p["scale"] == 0 and not p["k"] * math.exp(_log_nu(p["radius"], sigma)) <= p["b2"] * (1 + LOOSE):
        broken.append("radius")
    return broken


def _log_nu(radius: float, sigma: float) -> float:
    """ln P(|q − E q| > radius) at most, for a subgaussian query fixed in advance."""
    return min(0.0, math.log(2) - (radius / sigma) ** 2 / 2)


def laplace_delta(epsilon: float, ratio: float, k: int, cells: int = 1 << 16) -> float:
    """δ(ε) of k-fold (Lap, Lap + ratio) by convolving the loss on a grid, upper and lower halves averaged."""
    if k * ratio <= epsilon * (1 + 1e-12):
        return 0.0
    # The loss is r − 2x for x in (0, r), with density e^-x/2, and has atoms at ±r; convolve z = (r − loss)/2.
    width = ratio / 400
    while k * ratio / width > cells:
        cells *= 2
    places = np.arange(401)
    mass = np.zeros(cells)
    # P(x ≤ 0) = 1/2 is the largest loss; between, split each cell's mass to keep its mean.
    mass[0] = 0.5
    edges = np.exp(-places * width) / 2
    for i in range(400):
        here = edges[i] - edges[i + 1]
        mean = places[i] * width + (width - _mean_from_end(width))
        share = (mean - places[i] * width) / width
        mass[i] += here * (1 - share)
        mass[i + 1] += here * share
    mass[400] += edges[400]
    powered = np.fft.irfft(np.fft.rfft(mass) ** k, cells)
    loss = k * ratio - 2 * width * np.arange(cells)
    above = loss > epsilon
    return float(np.sum(np.maximum(powered[above], 0) * -np.expm1(epsilon - loss[above])))


def _mean_from_end(width: float) -> float:
    """width − E x for x exponential on (0, width)."""
    return width - (1 - width / math.expm1(width))


def information_broken(p: dict, n: int, error: float, confidence: float) -> list[str]:
    """Mutual information k/(8 n sd²) and kl(b2 ‖ q) ≥ it, q = exp(−2 n t²): ``docs/theory/transfer.md``,
    "Information"."""
    broken = []
    k, t = p["k"], p["generalization"]
    information = k / (8 * n * p["sd"] ** 2)
    log_q = -2 * n * t * t
    b2 = p["b2"]
    kl = b2 * (math.log(b2) - log_q) + (1 - b2) * (math.log1p(-b2) - math.log1p(-math.exp(log_q)))
    if not kl >= information * (1 - LOOSE):
        broken.append("information")
    if not 2 * k * special.ndtr(-p["noise"] / p["sd"]) <= p["b1"] * (1 + LOOSE):
        broken.append("noise")
    if not p["b1"] + b2 <= (1 - confidence) * (1 + LOOSE):
        broken.append("beta")
    if not t + p["noise"] <= error * (1 + LOOSE):
        broken.append("error")
    return broken


def jung_broken(p: dict, n: int, error: float, confidence: float) -> list[str]:
    """Jung et al. 2019: accuracy b1 on the sample, (ε, δ)-privacy, b1/c + δ/d ≤ β."""
    broken = []
    k, a = p["k"], math.sqrt(p["k"]) / (n * p["sd"])
    delta = special.ndtr(a / 2 - p["epsilon"] / a) - math.exp(p["epsilon"]) * special.ndtr(
        -a / 2 - p["epsilon"] / a
    )
    if not delta <= p["delta"] * (1 + 1e-6) + 1e-15:
        broken.append("privacy")
    if not p["b1"] / p["c"] + p["delta"] / p["d"] <= (1 - confidence) * (1 + LOOSE):
        broken.append("beta")
    if not 2 * k * special.ndtr(-p["noise"] / p["sd"]) <= p["b1"] * (1 + LOOSE):
        broken.append("noise")
    if not p["noise"] + math.expm1(p["epsilon"]) + p["c"] + 2 * p["d"] <= error * (1 + LOOSE):
        broken.append("error")
    return broken


def code_broken(p: dict, error: float, confidence: float) -> list[str]:
    """The theorem of ``docs/theory/code-guard.md`` with the guard's prior and weights for k questions.

    Every surprise is as far off as [0, 1] allows.
    """
    k, surprises, half = p["k"], int(p["surprises"]), p["half_cell"]
    step = k + 1
    series = 1 / (2.10975 * step * math.log(step) ** 2)
    nats = -math.log(1 - confidence - p["bias"]) - math.log(0.8 * (1 - 3.4e-6) / k + 0.2 * series)
    # One of the hypotheses counts surprises; what the mixture costs beyond that, forgetting included.
    nats += math.log(20) + 0.1 * math.log1p(k / 100)
    farthest = max(1, math.floor(0.5 / half + 0.5))
    place = math.log(2 * farthest * (farthest + 1) / (63 / 64))

    def pattern(f: int) -> float:
        c = k - 1 - f
        mixture = math.exp(math.lgamma(c + 0.5) + math.lgamma(f + 0.5) - math.lgamma(c + f + 1)) / math.pi
        return -math.log((0.5 if f == 0 else 0.0) + 0.5 * mixture)

    nats += max(pattern(f) + f * place for f in range(surprises + 1))
    width = half + math.sqrt((nats + math.log(2)) / (2 * p["protected_rows"]))
    return [] if width <= error * (1 + LOOSE) else ["width"]


def agreed_broken(p: dict, rows: int, error: float, confidence: float) -> list[str]:
    """Counted transcripts: ``docs/theory/code-guard.md``, "Agreed numbers".

    Every stage gets an equal part of β, divided by the number of transcripts before a question there.
    Hoeffding's radius at that probability leaves room for half a cell.
    """
    k, surprises = p["k"], p.get("surprises")
    beta = 1 - confidence - p.get("bias", 0.0)
    cells = [count for count, stages in p["cells"] for _ in range(stages)]
    broken = []
    if len(cells) != (k if surprises is None else min(surprises, k - 1) + 1):
        broken.append("stages")
    said, room = math.log(len(cells) / beta), math.inf
    for stage, count in enumerate(cells):
        ways = math.log(k if stage == 0 else (k - stage) / (stage + 1)) if surprises is not None else 0.0
        said += ways
        room = error - math.sqrt((said + math.log(2)) / (2 * rows))
        if not room >= 0.5 / count:
            broken.append("cells")
            break
        said += math.log(count + 1)
    if not room >= p["half_cell"]:
        broken.append("last cell")
    if surprises is not None:
        honest = -special.ndtri(min(0.5, max(p["beta"], 0.05 * surprises) / k / 2))
        if not p["half_cell"] >= honest * 0.5 * math.sqrt(1 / rows + 1 / p["training_rows"]) * (1 - 1e-6):
            broken.append("guesses")
    return broken


def holdout_broken(p: dict, n: int, error: float, confidence: float) -> list[str]:
    """BDP Theorem 2 for independent rows with sharp max-information nε²/8 + ε√(n ln(1/b)/2)."""
    m, budget, c, beta = p["k"], p["budget"], p["c"], 1 - confidence
    noise = (1 - c) * error / (12 * math.log(4 * m / beta))
    broken = []
    if not math.isclose(p["noise"], noise) or not math.isclose(p["threshold"], (1 + c) * error / 2):
        broken.append("settings")
    epsilon = 9 * budget / (4 * noise * n)
    b = np.exp(-np.geomspace(1e-3, 600, 20_001))
    nats = math.log(2 * m) - 2 * n * ((1 - c) * error / 4) ** 2
    nats = nats + n * epsilon**2 / 8 + epsilon * np.sqrt(n * np.log(1 / b) / 2)
    chosen = float(np.min(np.exp(np.minimum(nats, 0)) + b))
    share = beta / (4 * m)
    loud = (budget + m) * share + budget * math.exp(-(3 + c) * error / (16 * noise))
    if not chosen + loud <= beta * (1 + 1e-3):
        broken.append("failure")
    return broken
