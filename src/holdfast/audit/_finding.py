"""What an audit found, in one shape for every audit; the report that collects findings; and the trials behind
them.

Trials are independent. Their results are the same for any number of workers, and no finished trial is run
twice. Two results are equal if the texts that record everything about them are equal.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import pickle
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields, is_dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

import holdfast
from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.intervals import clopper_pearson
from holdfast.records import Record, show
from holdfast.workers import Progress, Workers, as_finished, checked, progress_meter

_FORMAT = "holdfast audit report 1"
_LONGEST = 200

# One trial: its number and its own generator, to a value that JSON can write without loss.
Trial = Callable[[int, np.random.Generator], Any]


@dataclass(frozen=True, repr=False)
class Finding(Record):
    """One audited quantity with its limits, beside what was claimed about it.

    ``low`` and ``high`` are the limits at ``confidence`` (``high`` is infinite where an audit can only bound
    from below), ``claim`` is the number that must not be exceeded, None where nothing was claimed.
    ``float(finding)`` is ``low``: what the trials prove.

    Args:
        kind: Which audit this is, such as "coverage".
        subject: What was audited.
        quantity: The audited quantity in words.
        trials: How many trials were run.
        estimate: The best single number for the quantity.
        statement: What the trials prove, in a sentence.
        assumes: What was assumed, in sentences.
        seed: The seed of the trials.
        details: Further numbers of this audit by name.

    >>> Finding("coverage", "my guard", "miss rate", 1000, 0.09, 0.07, 0.12, 0.99, claim=0.05).verdict
    'refuted'
    """

    kind: str
    subject: str
    quantity: str
    trials: int
    estimate: float
    low: float
    high: float
    confidence: float
    claim: float | None = None
    statement: str = ""
    assumes: tuple[str, ...] = ()
    seed: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """ "refuted": the lower limit is above the claim. "confirmed": the upper limit is not. "not refuted":
        the trials leave both open. "measured": nothing was claimed."""
        if self.claim is None:
            return "measured"
        if self.low > self.claim:
            return "refuted"
        return "confirmed" if self.high <= self.claim else "not refuted"

    @property
    def refuted(self) -> bool:
        """Whether the trials contradict the claim, at the stated confidence."""
        return self.verdict == "refuted"

    def __float__(self) -> float:
        return self.low

    def __repr__(self) -> str:
        claimed = "" if self.claim is None else f", claimed {show(self.claim)}"
        return (
            f"{self.kind} of {self.subject}: {self.quantity} {show(self.estimate)} in [{show(self.low)}, "
            f"{show(self.high)}]{claimed}: {self.verdict} ({self.trials:,} trials, confidence "
            f"{show(self.confidence)})"
        )

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain values, with its verdict; an infinite limit becomes None."""
        return {**super().to_dict(), "verdict": self.verdict}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """The finding that :meth:`to_dict` wrote.

        Args:
            values: What :meth:`to_dict` returned.
        """
        try:
            own_values = {
                record_field.name: values[record_field.name]
                for record_field in fields(cls)
                if record_field.name in values
            }
            own_values["high"] = math.inf if own_values["high"] is None else own_values["high"]
            own_values["estimate"] = math.nan if own_values["estimate"] is None else own_values["estimate"]
            for name in ("low", "high", "estimate", "confidence", "claim"):
                if not (name == "claim" and own_values.get(name) is None):
                    own_values[name] = float(own_values[name])
            own_values["assumes"] = tuple(map(str, own_values.get("assumes", ())))
            return cls(**own_values)
        except (KeyError, TypeError, ValueError):
            raise InvalidArgument("finding", "what Finding.to_dict wrote", values, of="Report") from None


@dataclass(frozen=True, repr=False)
class Report(Record):
    """Findings for a reviewer: what was claimed, what was found, and how sure all of it is together.

    Args:
        findings: The findings, in order.
        title: The heading of the report.
        version: The version of Holdfast that made it.

    >>> fine = Finding("coverage", "my guard", "miss rate", 1000, 0.02, 0.01, 0.04, 0.99, claim=0.05)
    >>> report = Report((fine,), title="My guard")
    >>> report.passed, report.confidence
    (True, 0.99)
    """

    findings: tuple[Finding, ...]
    title: str = "Audit"
    version: str = holdfast.__version__

    def __post_init__(self) -> None:
        findings = self.findings
        if not isinstance(findings, (tuple, list)) or not all(
            isinstance(finding, Finding) for finding in findings
        ):
            raise InvalidArgument(
                "findings", "a tuple of findings, as audits return them", findings, of="Report"
            )
        object.__setattr__(self, "findings", tuple(findings))

    @property
    def passed(self) -> bool:
        """Whether no claim was refuted."""
        return not any(finding.refuted for finding in self.findings)

    @property
    def confidence(self) -> float:
        """All limits hold together with at least this confidence (a union bound)."""
        return max(0.0, 1.0 - math.fsum(1.0 - finding.confidence for finding in self.findings))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "format": _FORMAT,
            **super().to_dict(),
            "passed": self.passed,
            "confidence": self.confidence,
        }

    def save(self, path: str | Path) -> Path:
        """Write the report as JSON; ``holdfast audit`` reads it.

        Args:
            path: The file to write.
        """
        target = Path(path)
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=1, allow_nan=False)
        target.write_text(text + "\n", encoding="utf-8")
        return target

    @classmethod
    def load(cls, path: str | Path) -> Report:
        """The report in a file that :meth:`save` wrote.

        Args:
            path: The file that :meth:`save` wrote.
        """
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise InvalidArgument(
                "path", f"a report that can be read ({error})", str(path), of="Report"
            ) from None
        if not isinstance(values, dict) or values.get("format") != _FORMAT:
            raise InvalidArgument("path", f"a file of format {_FORMAT!r}", str(path), of="Report")
        findings = values.get("findings")
        if not isinstance(findings, list):
            raise InvalidArgument("findings", "a list of findings", findings, of="Report")
        return cls(
            tuple(map(Finding.from_dict, findings)),
            str(values.get("title", "")),
            str(values.get("version", "")),
        )


def rate_finding(
    kind: str,
    subject: str,
    quantity: str,
    *,
    hits: int,
    trials: int,
    confidence: float,
    claim: float | None,
    **more: Any,
) -> Finding:
    """A finding about a probability, from counts, with exact binomial limits."""
    limits = clopper_pearson(hits, trials, -math.log1p(-confidence))
    return Finding(
        kind, subject, quantity, trials, hits / trials, limits.low, limits.high, confidence, claim, **more
    )


def confidence_argument(value: Any, *, of: str) -> float:
    """A confidence in (0, 1)."""
    return checks.real(value, "confidence", "(0, 1)", of=of)


def claim_argument(value: Any, name: str, domain: str, *, of: str) -> float | None:
    """A claimed number, or None."""
    return None if value is None else checks.real(value, name, domain, of=of)


def subject_of(name: str | None, *functions: Any) -> str:
    """What is audited, in words: the given name, or the names of the functions."""
    return name or " and ".join(function_name(function) for function in functions)


def function_name(function: Any) -> str:
    """A function's own name, without addresses, which differ from run to run."""
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__qualname__", type(inner).__qualname__))


def result_key(value: Any) -> str:
    """A text that is the same for two results exactly when they are the same.

    Numbers count by their value (1 is 1.0, NaN is NaN), arrays by kind, shape and every bit, sets without
    order. A result that carries a guarantee stands for its value. Long texts are shortened to a digest.
    """
    text = _text_of(value)
    return text if len(text) <= _LONGEST else hashlib.sha256(text.encode()).hexdigest()


def _text_of(value: Any) -> str:
    if value is None or isinstance(value, (bool, np.bool_, str, bytes)):
        return repr(bool(value) if isinstance(value, np.bool_) else value)
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    if hasattr(value, "guarantee") and hasattr(value, "value"):
        return _text_of(value.value)
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, Mapping):
        entries = sorted(f"{_text_of(name)}: {_text_of(entry)}" for name, entry in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(_text_of, value))) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text_of, value)) + "]"
    if is_dataclass(value) and not isinstance(value, type):
        inside = ", ".join(
            f"{record_field.name}={_text_of(getattr(value, record_field.name))}"
            for record_field in fields(value)
            if record_field.compare
        )
        return f"{type(value).__qualname__}({inside})"
    if hasattr(value, "to_numpy"):  # a data frame or a series
        names = list(getattr(value, "columns", [getattr(value, "name", None)]))
        return f"frame({_text_of(names)}, {_text_of(value.to_numpy().tolist())})"
    return _pickled(value)


def _array(values: np.ndarray[Any, Any]) -> str:
    if values.ndim == 0:
        return _text_of(values.item())
    if values.dtype.kind not in "fiub" or values.size <= 8:
        return f"array{values.shape}{_text_of(values.ravel().tolist())}"
    wide = values.astype(np.float64) + 0.0 if values.dtype.kind == "f" else values.astype(np.int64)
    digest = hashlib.sha256(np.ascontiguousarray(wide).tobytes()).hexdigest()
    return f"array{values.shape}{values.dtype.kind in 'f'}{digest}"


def _pickled(value: Any) -> str:
    try:
        return f"{type(value).__qualname__}:{hashlib.sha256(pickle.dumps(value)).hexdigest()}"
    except (pickle.PicklingError, AttributeError, TypeError):
        raise InvalidArgument(
            "result", "numbers, texts, arrays or records, or what pickle can write", value, of="audit"
        ) from None


@dataclass(frozen=True)
class Running:
    """How trials are run. Only ``seed`` changes their results."""

    of: str
    seed: int = 0
    workers: Workers = 1
    resume: str | Path | None = None
    progress: Progress = False

    def run(self, trial: Trial, trials: int, about: dict[str, Any]) -> list[Any]:
        """The results of trials 0, 1, …, each with its own child of the seed sequence.

        ``about`` says what is audited; a file of finished trials is taken up only by the same audit.
        """
        workers = checked(self.workers, of=self.of)
        journal = (
            None
            if self.resume is None
            else Journal(Path(self.resume), {"audit": self.of, "seed": self.seed, **about})
        )
        results_by_trial = {} if journal is None else journal.finished
        pending = [number for number in range(trials) if number not in results_by_trial]
        work = as_finished(_Seeded(trial, self.seed), [(number,) for number in pending], workers=workers)
        with (
            progress_meter(self.progress, trials, self.of, done=trials - len(pending)) as report,
            closing(work) as finished,
        ):
            for bundle in finished:
                new_results = {pending[place]: result for place, result in bundle.items()}
                results_by_trial.update(new_results)
                if journal is not None:
                    journal.add(new_results)
                report(len(new_results))
        return [results_by_trial[number] for number in range(trials)]


class Journal:
    """A JSON-lines file of finished trials: a line about the audit, then one for each trial."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self._path = path
        self.finished: dict[int, Any] = {}
        about = json.loads(json.dumps(about))
        if path.exists() and path.stat().st_size:
            self._take_up(about)
        else:
            path.write_text(json.dumps(about) + "\n", encoding="utf-8")

    def _take_up(self, about: dict[str, Any]) -> None:
        content = self._path.read_bytes()
        # The trial of a line that was cut off while it was written is run again.
        complete_lines = content[: content.rfind(b"\n") + 1]
        try:
            header, *lines = [json.loads(line) for line in complete_lines.splitlines()] or [None]
            self.finished = {int(line["trial"]): line["result"] for line in lines}
        except (ValueError, KeyError, TypeError):
            header = None
        if header != about:
            raise InvalidArgument(
                "resume", f"a file of finished trials of this audit, {about}", str(self._path)
            )
        if len(complete_lines) < len(content):
            os.truncate(self._path, len(complete_lines))

    def add(self, results: dict[int, Any]) -> None:
        """Keep finished trials."""
        lines = [json.dumps({"trial": number, "result": result}) + "\n" for number, result in results.items()]
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(lines)


class _Seeded:
    """A trial by its number: a generator of its own, whoever runs it and whatever ran before."""

    def __init__(self, trial: Trial, seed: int) -> None:
        self._trial, self._seed = trial, seed

    def __call__(self, number: int) -> Any:
        child = np.random.SeedSequence(self._seed, spawn_key=(number,))
        return self._trial(number, np.random.default_rng(child))


def takes_second(function: Callable[..., Any], name: str) -> bool:
    """Whether a function wants a second argument: it requires one, or calls it ``name``."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(positional) < 2:
        return False
    return positional[1].default is inspect.Parameter.empty or positional[1].name == name
