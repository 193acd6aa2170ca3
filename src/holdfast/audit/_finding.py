"""What an audit found, in one shape for every audit, and the report that collects findings."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import holdfast
from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.intervals import clopper_pearson
from holdfast.records import Record, show

_FORMAT = "holdfast audit report 1"


@dataclass(frozen=True, repr=False)
class Finding(Record):
    """One audited quantity with its limits, beside what was claimed about it.

    ``low`` and ``high`` are the limits at ``confidence`` (``high`` is infinite where an audit can only bound
    from below), ``claim`` is the number that must not be exceeded, None where nothing was claimed.
    ``float(finding)`` is ``low``: what the trials prove.

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
    def from_dict(cls, said: Any) -> Finding:
        """The finding that :meth:`to_dict` wrote."""
        try:
            known = {f.name: said[f.name] for f in fields(cls) if f.name in said}
            known["high"] = math.inf if known["high"] is None else known["high"]
            known["estimate"] = math.nan if known["estimate"] is None else known["estimate"]
            for name in ("low", "high", "estimate", "confidence", "claim"):
                if not (name == "claim" and known.get(name) is None):
                    known[name] = float(known[name])
            known["assumes"] = tuple(map(str, known.get("assumes", ())))
            return cls(**known)
        except (KeyError, TypeError, ValueError):
            raise InvalidArgument("finding", "what Finding.to_dict wrote", said, of="Report") from None


@dataclass(frozen=True, repr=False)
class Report(Record):
    """Findings for a reviewer: what was claimed, what was found, and how sure all of it is together.

    >>> fine = Finding("coverage", "my guard", "miss rate", 1000, 0.02, 0.01, 0.04, 0.99, claim=0.05)
    >>> report = Report((fine,), title="My guard")
    >>> report.passed, report.confidence
    (True, 0.99)
    """

    findings: tuple[Finding, ...]
    title: str = "Audit"
    version: str = holdfast.__version__

    def __post_init__(self) -> None:
        listed = self.findings
        if not isinstance(listed, (tuple, list)) or not all(isinstance(one, Finding) for one in listed):
            raise InvalidArgument(
                "findings", "a tuple of findings, as audits return them", listed, of="Report"
            )
        object.__setattr__(self, "findings", tuple(listed))

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
        """Write the report as JSON; ``holdfast audit`` reads it."""
        target = Path(path)
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=1, allow_nan=False)
        target.write_text(text + "\n", encoding="utf-8")
        return target

    @classmethod
    def load(cls, path: str | Path) -> Report:
        """The report in a file that :meth:`save` wrote."""
        try:
            said = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise InvalidArgument(
                "path", f"a report that can be read ({error})", str(path), of="Report"
            ) from None
        if not isinstance(said, dict) or said.get("format") != _FORMAT:
            raise InvalidArgument("path", f"a file of format {_FORMAT!r}", str(path), of="Report")
        findings = said.get("findings")
        if not isinstance(findings, list):
            raise InvalidArgument("findings", "a list of findings", findings, of="Report")
        return cls(
            tuple(map(Finding.from_dict, findings)), str(said.get("title", "")), str(said.get("version", ""))
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


def subject_of(name: str | None, *things: Any) -> str:
    """What is audited, in words: the given name, or the names of the functions."""
    return name or " and ".join(name_of(thing) for thing in things)


def name_of(thing: Any) -> str:
    """A function's own name, without addresses, which differ from run to run."""
    inner = getattr(thing, "func", thing)
    return str(getattr(inner, "__qualname__", type(inner).__qualname__))
