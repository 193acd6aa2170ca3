"""Answers of a guard in MLflow: each new one becomes metrics of a run, with both ends of its interval."""

from __future__ import annotations

import hashlib
import math
import re
import time
from dataclasses import replace
from itertools import count
from typing import Any

from holdfast.errors import MissingExtra
from holdfast.guard import Answer, Guard
from holdfast.queries import Query

__all__ = ["AnswerLog", "log_answers", "metric_name"]

_STATEMENT = "holdfast.statement"
# MLflow takes names of 250 characters; the digest and the ending need some of them.
_LONGEST = 200
_OPERATORS = {
    "<=": "at most",
    ">=": "at least",
    "<>": "is not",
    "!=": "is not",
    "<": "below",
    ">": "above",
    "=": "is",
    "+": "plus",
    "*": "times",
    "/": "over",
}
_OPERATOR = re.compile("|".join(map(re.escape, _OPERATORS)))
_SCORE = re.compile(r"score\((.+?), target = (.+?), metric = (\w+)(.*?)\)(?= - score\(|$)")


class AnswerLog:
    """Logs answers to an MLflow run; :func:`log_answers` makes it. Call it with an answer to log that one by
    hand, for example those of ``guard.history``.

    Args:
        run_id: The id of an MLflow run. None: the active run.
    """

    def __init__(self, guard: Guard, run_id: str | None = None) -> None:
        try:
            import mlflow
        except ImportError:
            raise MissingExtra("mlflow", what="holdfast.mlflow") from None
        self._mlflow: Any = mlflow
        self._run_id = run_id
        self._steps = count()
        self._stop = guard.on_answer(self)

    def __call__(self, answer: Answer) -> None:
        """Log one answer, in one request."""
        from mlflow.entities import Metric, RunTag

        name, step, now = metric_name(answer.query), next(self._steps), int(time.time() * 1000)
        values = {
            name: answer.value,
            f"{name}.low": answer.low,
            f"{name}.high": answer.high,
            f"{name}.cost": answer.cost,
        }
        self._mlflow.MlflowClient().log_batch(
            self._run_id or self._active_run_id(),
            # A database would store an infinite end as some large number.
            metrics=[Metric(key, value, now, step) for key, value in values.items() if math.isfinite(value)],
            tags=[RunTag(_STATEMENT, answer.certificate.statement)],
        )

    def stop(self) -> None:
        """Log no further answers."""
        self._stop()

    def _active_run_id(self) -> str:
        run = self._mlflow.active_run() or self._mlflow.start_run()
        return str(run.info.run_id)


def log_answers(guard: Guard, run_id: str | None = None) -> AnswerLog:
    """Log every new answer of a guard to the MLflow run with this id; without one, to the run that is active
    when the answer comes. Where none is active, one is started, as ``mlflow.log_metric`` does.

    An answer's value is logged under :func:`metric_name`. The same name with ``.low``, ``.high`` and
    ``.cost`` has the ends of the interval and what the answer cost. The step counts the answers. The tag
    ``holdfast.statement`` says what is guaranteed.

    If MLflow fails, its error is raised after the answer is in the account book. Ask again to get the answer
    for free, and call the returned log with it to log it.

    Args:
        guard: The guard whose answers are logged.
        run_id: The id of an MLflow run. None: the active run.
    """
    return AnswerLog(guard, run_id)


def metric_name(query: Query | str) -> str:
    """The MLflow name of a question (``answer.query``): its text in words and signs that MLflow allows. Where
    that leaves something out, six digits of a digest tell the question from similar ones.

    Args:
        query: The question, as a text.

    >>> metric_name("share(age > 40)")
    'share age above 40'
    >>> metric_name("score(logit, target = y, metric = accuracy)")
    'accuracy of logit for y'
    """
    text = str(replace(query, guess=None) if isinstance(query, Query) else query)
    words = _SCORE.sub(r"\3 of \1 for \2\4", text)
    words = re.sub(r"^(\w+)\(([^()]*)\)$", r"\1 \2", words).replace(", ", " ")
    words = _OPERATOR.sub(lambda sign: f" {_OPERATORS[sign[0]]} ", words)
    allowed = re.sub(r"[^\w. -]", " ", words).strip(" .")
    name = " ".join(allowed[:_LONGEST].split())
    if name and allowed == words.strip() and len(allowed) <= _LONGEST:
        return name
    return f"{name} {hashlib.sha256(text.encode()).hexdigest()[:6]}".strip()
