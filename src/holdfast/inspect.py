"""Inspect evaluations that send their scores straight to a gate, and show the verdict only."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from holdfast.errors import HoldfastError, InvalidArgument, MissingExtra
from holdfast.guard import Gate
from holdfast.results import inspect_results

__all__ = ["ScoreGate", "Submission", "submit_to"]

_logger = logging.getLogger(__name__)
_HEADER = {"model", "packages", "dataset", "config"}
_SAMPLE = {
    "id", "epoch", "input", "choices", "target", "messages", "output", "scores", "invalidation",
    "attachments",
}  # fmt: skip


@runtime_checkable
class ScoreGate(Protocol):
    """What :func:`submit_to` needs of a gate: the method ``submit``."""

    def submit(
        self,
        scores: Mapping[str, float],
        name: str | None = None,
        *,
        outputs: Mapping[str, str] | None = None,
        sealed: bool = False,
    ) -> Any:
        """Compare a candidate's scores with the incumbent's and return the verdict.

        Args:
            scores: The candidate's score on each task.
            name: The candidate's name.
            outputs: The candidate's output on each task.
            sealed: Whether the scores came here without anyone seeing them.
        """
        ...


class Submission:
    """Sends the scores of each Inspect evaluation that ends to a gate; :func:`submit_to` makes it.

    ``verdicts`` has the verdicts in order. ``refusals`` has a sentence for each evaluation that was not
    submitted, or that the gate did not take.

    Args:
        gate: The gate that candidates are submitted to.
        name: The candidate's name.
        metric: The score to take from an evaluation. None where there is one.
    """

    def __init__(self, gate: ScoreGate, name: str, metric: str | None) -> None:
        self.verdicts: list[Any] = []
        self.refusals: list[str] = []
        self._gate = gate
        self._name = name
        self._metric = metric
        self._lines: list[str] = []

    def stop(self) -> None:
        """Submit no further evaluations."""
        if self in _active:
            _active.remove(self)

    def _submit(self, log: Mapping[str, Any]) -> None:
        """Submit one log. An error here would be shown by Inspect, so only its sentence is kept."""
        try:
            results = inspect_results(log, metric=self._metric)
            verdict = self._gate.submit(results.scores, self._name, outputs=results.outputs, sealed=True)
        except HoldfastError as error:
            self._refuse(str(error))
        except Exception as error:
            # The text of a foreign error can hold scores; its type cannot.
            self._refuse(f"The gate failed with {type(error).__name__}.")
        else:
            self.verdicts.append(verdict)
            self._report(f"holdfast: {self._name}: {verdict}")

    def _refuse(self, sentence: str) -> None:
        self.refusals.append(sentence)
        self._report(f"holdfast: {self._name} was not judged. {sentence}")

    def _report(self, line: str) -> None:
        _logger.info("%s", line)
        self._lines.append(line)

    def _show(self) -> None:
        """Print the messages about this run, after what Inspect has printed."""
        lines, self._lines = self._lines, []
        for line in lines:
            print(line, file=sys.stderr)


_active: list[Submission] = []
_hook: list[type] = []  # Inspect keeps a hook for as long as the process runs, so there is one for all gates.


def submit_to(gate: ScoreGate | str | Path, *, name: str, metric: str | None = None) -> Submission:
    """From now on, send the scores of every Inspect evaluation of this process to a gate when it ends.

    Call it before ``inspect_ai.eval``, or in the file with the task for ``inspect eval``. Each evaluation (an
    Inspect task with a model) is one candidate, so let a process run one. The verdict is written to standard
    error after the run, and to the logger ``holdfast.inspect``. An evaluation that did not succeed, or that
    has samples without a score, is not submitted; ``refusals`` says why.

    Guarantee: this hook shows no score, and neither do its errors.
    Assumes: nobody who makes candidates looks at what Inspect itself shows and writes. Run it with
    ``--display none`` and ``--no-score-display``, and with a ``--log-dir`` that only the gate's owner can
    read.

    Args:
        gate: The gate: a :class:`holdfast.Gate`, or where its account is kept.
        name: The name of the candidate, such as a commit. The same name again has its first verdict.
        metric: The scorer that counts, where a task has several; ``"scorer/key"`` where it gives several
            values.

    >>> submission = submit_to("agent.gate", name="v2")  # doctest: +SKIP
    >>> logs = inspect_ai.eval(task, model="openai/gpt-5")  # doctest: +SKIP
    holdfast: v2: Promoted: 'v2' is better than 'v1' by more than 0.02. …
    """
    if isinstance(gate, (str, Path)):
        gate = Gate.at(gate)
    if not isinstance(gate, ScoreGate):
        kind = type(gate).__name__  # And not the object: it may be a mapping of scores.
        raise InvalidArgument("gate", "a Gate, or where its account is kept", kind, of="submit_to")
    if not isinstance(name, str):
        raise InvalidArgument("name", "a text", name, of="submit_to")
    if metric is not None and not isinstance(metric, str):
        raise InvalidArgument("metric", "a text", metric, of="submit_to")
    _register()
    submission = Submission(gate, name, metric)
    _active.append(submission)
    return submission


def _register() -> None:
    if _hook:
        return
    try:
        from inspect_ai.hooks import Hooks, RunEnd, TaskEnd, hooks
    except ImportError:
        raise MissingExtra("inspect", what="holdfast.inspect") from None

    class GateHook(Hooks):  # type: ignore[misc]
        def enabled(self) -> bool:
            return bool(_active)

        async def on_task_end(self, data: TaskEnd) -> None:
            if data.log.status != "success":
                return
            try:
                log = await _plain(data.log)
            except Exception as error:
                for submission in list(_active):
                    submission._refuse(f"The log could not be read: {type(error).__name__}.")
                return
            for submission in list(_active):
                submission._submit(log)

        async def on_run_end(self, data: RunEnd) -> None:
            # A task that fails does not "end" for Inspect; only the run reports it.
            failed = [log for log in data.logs if log.status != "success"]
            for submission in list(_active):
                for log in failed:
                    submission._refuse(
                        f"The evaluation {log.eval.task!r} ended with the status {log.status!r}."
                    )
                submission._show()

    _hook.append(hooks(name="holdfast_gate", description="Sends scores to a Holdfast gate.")(GateHook))


async def _plain(log: Any) -> dict[str, Any]:
    """The parts of a log that count, as a dictionary."""
    if log.samples is None and log.location:
        from inspect_ai.log import read_eval_log_async

        log = await read_eval_log_async(log.location)  # An eval set keeps no samples in memory.
    return {
        "version": log.version,
        "status": log.status,
        "invalidated": log.invalidated,
        "eval": log.eval.model_dump(include=_HEADER),
        "samples": [sample.model_dump(include=_SAMPLE) for sample in log.samples or ()],
    }
