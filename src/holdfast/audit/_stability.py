"""How often the conclusion of a pipeline changes when its rows are drawn again, and how often two fresh
samples give different results under the same tape.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.audit._finding import (
    Finding,
    Running,
    claim_argument,
    confidence_argument,
    function_name,
    rate_finding,
    result_key,
    subject_of,
    takes_second,
)
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape
from holdfast.typing import ArrayLike, Frame
from holdfast.workers import Progress, Workers

Indices = npt.NDArray[np.int64]
_METHODS = ("bootstrap", "half")
_MOST_SHOWN = 8


@dataclass(frozen=True)
class _Rerun:
    """One trial: the conclusion on resampled rows, as a text."""

    pipeline: Callable[..., Any]
    data: Any
    units: tuple[Indices, ...] | int
    method: str
    with_coins: bool

    def __call__(self, number: int, rng: np.random.Generator) -> str:
        draw, coins = rng.spawn(2)
        count = self.units if isinstance(self.units, int) else len(self.units)
        if self.method == "bootstrap":
            chosen = draw.integers(0, count, count)
        else:
            chosen = np.sort(draw.permutation(count)[: count // 2])
        rows = (
            chosen if isinstance(self.units, int) else np.concatenate([self.units[unit] for unit in chosen])
        )
        return self.concluded(rows_of(self.data, rows), coins)

    def concluded(self, data: Any, coins: np.random.Generator) -> str:
        """What the pipeline concludes from these data, as a text."""
        return result_key(self.pipeline(data, coins) if self.with_coins else self.pipeline(data))


def rows_of(data: Any, rows: Indices) -> Any:
    """A copy of the rows with these numbers, in whatever the data are kept: a pipeline may write to it."""
    if hasattr(data, "iloc"):
        return data.iloc[rows].reset_index(drop=True)
    if isinstance(data, Mapping):
        return {name: rows_of(column, rows) for name, column in data.items()}
    if isinstance(data, tuple):
        return tuple(rows_of(part, rows) for part in data)
    if isinstance(data, np.ndarray) or hasattr(data, "__array__"):
        chosen = np.asarray(data)[rows]
        return copy.deepcopy(chosen) if chosen.dtype.hasobject else chosen
    return copy.deepcopy([data[row] for row in rows])


def row_count(data: Any) -> int:
    """How many rows there are."""
    if isinstance(data, Mapping):
        return row_count(next(iter(data.values()))) if data else 0
    if isinstance(data, tuple):
        return row_count(data[0]) if data else 0
    try:
        return len(data)
    except TypeError:
        raise InvalidArgument(
            "data",
            "a data frame, an array, a list, a tuple of these, or a dict of columns",
            data,
            of="stability",
        ) from None


def stability(
    pipeline: Callable[..., Any],
    data: Frame | ArrayLike | Mapping[str, Any] | tuple[Any, ...],
    trials: int,
    *,
    method: Literal["bootstrap", "half"] = "bootstrap",
    groups: Sequence[Any] | None = None,
    claim: float | None = None,
    confidence: float = 0.99,
    name: str | None = None,
    seed: int = 0,
    workers: Workers = 1,
    resume: str | Path | None = None,
    progress: Progress = False,
) -> Finding:
    """How often the conclusion of your own pipeline changes when its rows are drawn again.

    ``pipeline(data)`` or ``pipeline(data, rng)`` returns a conclusion, compared exactly with the one on all
    rows: return what you would write down ("significant", the chosen features, a rounded number), not every
    digit. ``data`` is a data frame, an array, a list, a tuple of these or a dict of columns.
    ``method="bootstrap"`` draws as many rows again with replacement; ``"half"`` takes a random half without.
    With ``groups``, one label a row, whole groups are drawn. ``claim`` is a share of changes that must not be
    exceeded.

    Guarantee: with probability ≥ ``confidence`` over the trials, the probability that a resample changes the
    conclusion *of these rows* lies in [low, high].
    Assumes: for a statement about fresh samples, that resamples resemble them: rows (or groups) are
    independent and many. That is the bootstrap's assumption, not a theorem.
    Reference: Clopper and Pearson 1934; Efron 1979 for the bootstrap.

    Args:
        trials: How many trials to run.
        name: What the finding calls the subject. None takes it from the functions.
        seed: The seed of the trials.
        workers: Who shares the trials (see :mod:`holdfast.workers`). The finding does not depend on it.
        resume: A JSON-lines file that keeps finished trials. They are not run again.
        progress: True for a bar, or a function of (done, total).

    >>> import numpy as np
    >>> heights = np.random.default_rng(0).normal(1.0, 5.0, 100)
    >>> stability(lambda rows: "positive" if rows.mean() > 0 else "not", heights, 200).details["conclusion"]
    "'positive'"
    """
    of = "stability"
    trials = checks.whole(trials, "trials", of=of)
    confidence = confidence_argument(confidence, of=of)
    seed = checks.whole(seed, "seed", at_least=0, of=of)
    limit = claim_argument(claim, "claim", "[0, 1]", of=of)
    checks.choice(method, "method", _METHODS, of=of)
    count = row_count(data)
    if count < 2:
        raise NotEnoughRows(2, count, what="Resampling")
    units = count if groups is None else _units(groups, count)
    rerun = _Rerun(pipeline, data, units, method, takes_second(pipeline, "rng"))
    original = rerun.concluded(copy.deepcopy(data), np.random.default_rng(seed))
    about = {"pipeline": function_name(pipeline), "rows": count, "method": method, "conclusion": original}
    running = Running(of, seed, workers, resume, progress)
    conclusions = Counter(running.run(rerun, trials, about))
    changed = trials - conclusions[original]
    disagreeing = 1.0 - sum(times * (times - 1) for times in conclusions.values()) / max(
        1, trials * (trials - 1)
    )
    return rate_finding(
        of,
        subject_of(name, pipeline),
        "changed conclusions",
        hits=changed,
        trials=trials,
        confidence=confidence,
        claim=limit,
        statement=f"{changed:,} of {trials:,} resamples led to another conclusion than all {count:,} rows "
        f"did; two resamples disagree with each other {disagreeing:.1%} of the time.",
        assumes=("Resampled rows stand for fresh ones: rows, or groups, are independent and many.",),
        seed=seed,
        details={
            "conclusion": original,
            "conclusions": dict(conclusions.most_common(_MOST_SHOWN)),
            "different conclusions": len(conclusions),
            "pairs that disagree": disagreeing,
            "method": method,
            "rows": count,
        },
    )


def _units(groups: Sequence[Any], count: int) -> tuple[Indices, ...]:
    labels = np.asarray(groups)
    if labels.shape != (count,):
        raise InvalidArgument("groups", f"one label for each of the {count} rows", groups, of="stability")
    _, places = np.unique(labels, return_inverse=True)
    order = np.argsort(places, kind="stable")
    parts = tuple(np.split(order, np.cumsum(np.bincount(places))[:-1]))
    if len(parts) < 2:
        raise NotEnoughRows(2, len(parts), what="Resampling groups")
    return parts


@dataclass(frozen=True)
class _Pair:
    """One trial: whether two samples gave different results."""

    algorithm: Callable[..., Any]
    sampler: Callable[[np.random.Generator], Any]
    tape: Any

    def __call__(self, number: int, rng: np.random.Generator) -> bool:
        first, second = (self.sampler(child) for child in rng.spawn(2))
        shared = () if self.tape is None else (self.tape.branch(f"trial {number}"),)
        return result_key(self.algorithm(first, *shared)) != result_key(self.algorithm(second, *shared))


def replicability(
    algorithm: Callable[..., Any],
    sampler: Callable[[np.random.Generator], Any],
    trials: int,
    *,
    rho: float | None = None,
    tape: Tape | str | int | bytes = "audit",
    confidence: float = 0.99,
    name: str | None = None,
    seed: int = 0,
    workers: Workers = 1,
    resume: str | Path | None = None,
    progress: Progress = False,
) -> Finding:
    """How often ``algorithm`` gives different results on two fresh samples, with exact binomial limits.

    ``sampler(rng)`` draws one sample; ``algorithm(sample, tape)`` is run on two of them with the same branch
    of ``tape``, another one in every trial, and the results are compared exactly. An algorithm that takes
    no second argument gets no tape. ``rho`` is what is claimed: the finding is refuted if more is certain.
    Trials run in ``workers`` processes (threads for what cannot be sent to one), with the same finding for
    any number; ``resume`` names a JSON-lines file where finished trials are kept and taken up again;
    ``progress`` is True for a bar or a function of (done, total).

    Guarantee: with probability ≥ ``confidence`` over the trials, the probability of different results, over
    two samples and a tape, lies in [low, high].
    Assumes: a sampler that draws independent samples of the population meant, and an algorithm whose only
    coins are the tape's (not checkable).
    Reference: Clopper and Pearson 1934; SIS Definition 2.1 for replicability.

    Args:
        trials: How many trials to run.
        name: What the finding calls the subject. None takes it from the functions.
        seed: The seed of the trials.

    >>> import numpy as np
    >>> from holdfast.replicable import mean
    >>> def rounded(rows, tape):
    ...     return mean(rows, accuracy=0.1, rho=0.2, beta=0.05, bounds=(0, 1), tape=tape)
    >>> found = replicability(rounded, lambda rng: rng.random(1000), 200, rho=0.2)
    >>> found.verdict
    'confirmed'
    >>> replicability(np.mean, lambda rng: rng.random(1000), 200, rho=0.2).verdict
    'refuted'
    """
    of = "replicability"
    trials = checks.whole(trials, "trials", of=of)
    confidence = confidence_argument(confidence, of=of)
    seed = checks.whole(seed, "seed", at_least=0, of=of)
    claim = claim_argument(rho, "rho", "[0, 1]", of=of)
    shared = _tape(tape, of) if takes_second(algorithm, "tape") else None
    about = {"algorithm": function_name(algorithm), "sampler": function_name(sampler), "tape": str(shared)}
    running = Running(of, seed, workers, resume, progress)
    different = sum(running.run(_Pair(algorithm, sampler, shared), trials, about))
    return rate_finding(
        of,
        subject_of(name, algorithm),
        "different results",
        hits=different,
        trials=trials,
        confidence=confidence,
        claim=claim,
        statement=f"{different:,} of {trials:,} pairs of fresh samples gave different results.",
        assumes=("The sampler draws independent samples of the population that is meant.",),
        seed=seed,
        details={"different": different, "tape": None if shared is None else str(shared)},
    )


def _tape(tape: Any, of: str) -> Any:
    """A tape, or the one with this seed."""
    if isinstance(tape, (str, int)):
        return Tape(tape)
    if not callable(getattr(tape, "branch", None)):
        raise InvalidArgument("tape", "a holdfast.replicable.Tape or its seed", tape, of=of)
    return tape
