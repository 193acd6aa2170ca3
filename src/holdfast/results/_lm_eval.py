"""Sample files of the LM Evaluation Harness (``lm_eval --log_samples``): one for each of its tasks."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidArgument, ResultsRejected
from holdfast.results._record import (
    Results,
    Tally,
    as_number,
    missing_tasks,
    names,
    parse_json,
    read_json,
    shown_id,
    text_lines,
)

__all__ = ["read_lm_eval"]

_KNOWN = "0.4"
_TIME = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
_SAMPLES = re.compile(rf"samples_(?P<task>.+)_(?P<time>{_TIME})\.jsonl")
_SUMMARY = re.compile(rf"results_(?P<time>{_TIME})\.json")
# Every key of a line that is not a metric; versions before 0.4.4 do not list the metrics.
_NOT_METRICS = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash",
    "prompt_hash", "target_hash",
}  # fmt: skip
_NOT_READ = {"arguments", "resps", "target"}  # Long texts, which need not be kept in memory.


@dataclass(frozen=True)
class _Task:
    """One sample file: the lines of one task of the harness."""

    name: str
    path: Path
    lines: list[dict[str, Any]]

    def filters(self) -> list[str]:
        """The names of the filters, in the order of the file."""
        return list(dict.fromkeys(_filter(line) for line in self.lines))


def read_lm_eval(paths: list[Path], metric: str | None = None, filter: str | None = None) -> Results:
    """Read sample files of one run. A summary (``results_….json``) stands for all sample files of its run.

    The id of a task is the harness's name of the task, and the number of the document: ``name/doc_id``. The
    harness scores a document once for each filter, even where it asks the model several times (``repeats``).
    In a run with several tasks, a task that has only one metric or filter is read with that one.
    """
    sample_files, time = _one_run(paths)
    summary_path = sample_files[0].with_name(f"results_{time}.json")
    summary = _summary(summary_path) if summary_path.exists() else {}
    tasks = [_task(path) for path in sample_files]
    if any(_SUMMARY.fullmatch(path.name) for path in paths):
        _check_all_there(summary, {task.name for task in tasks})
    _check_named("filter", filter, [name for task in tasks for name in task.filters()])
    _check_named("metric", metric, [name for task in tasks for line in task.lines for name in _metrics(line)])
    tally = Tally()
    for task in tasks:
        _add(tally, task, summary, metric, filter)
    model = summary.get("model_name")
    return tally.results(
        "lm-evaluation-harness",
        str(summary.get("lm_eval_version", "")),
        model if isinstance(model, str) and model else None,
    )


def _one_run(paths: list[Path]) -> tuple[list[Path], str]:
    """The sample files that are meant, and the time that all of their names have."""
    files: dict[str, list[Path]] = {}
    for path in paths:
        if match := _SAMPLES.fullmatch(path.name):
            files.setdefault(match["time"], []).append(path)
        elif match := _SUMMARY.fullmatch(path.name):
            sample_files_of_run = [
                neighbour
                for neighbour in sorted(path.parent.iterdir())
                if (samples := _SAMPLES.fullmatch(neighbour.name)) and samples["time"] == match["time"]
            ]
            files.setdefault(match["time"], []).extend(sample_files_of_run)
        else:
            raise ResultsRejected(
                f"The name of {path.name} does not say which task it is of. Keep the names that lm_eval "
                "gives: samples_<task>_<time>.jsonl."
            )
    if len(files) > 1:
        raise ResultsRejected(
            f"There are files of {len(files)} runs: {names(sorted(files))}. Give the summary of the run to "
            f"read, for example results_{max(files)}.json."
        )
    ((time, sample_files),) = files.items()
    if not sample_files:
        raise ResultsRejected(
            f"There is no sample file beside {paths[0].name}. Run lm_eval with --log_samples."
        )
    return sorted(set(sample_files)), time


def _summary(path: Path) -> dict[str, Any]:
    summary = read_json(path)
    if not isinstance(summary, dict):
        raise ResultsRejected(f"{path.name} is not a summary of lm_eval: it is not a JSON object.")
    version = summary.get("lm_eval_version")
    if version is not None and not re.fullmatch(rf"{re.escape(_KNOWN)}(\.\w+)*", str(version)):
        raise ResultsRejected(
            f"{path.name} was written by lm_eval {shown_id(str(version))}. Known versions: {_KNOWN}.x. "
            "Update Holdfast."
        )
    return summary


def _check_all_there(summary: dict[str, Any], tasks: set[str]) -> None:
    missing = [name for name in summary.get("n-samples") or {} if name not in tasks]
    if missing:
        raise ResultsRejected(
            f"The run has {len(missing)} more tasks without a sample file: {names(missing)}. Copy all files "
            "of the run."
        )


def _task(path: Path) -> _Task:
    match = _SAMPLES.fullmatch(path.name)
    lines = []
    for number, text in text_lines(path):
        if not text.strip():
            continue
        where = f"Line {number:,} of {path.name}"
        line = parse_json(text, f"At least one line of {path.name}")
        if not isinstance(line, dict) or "doc_id" not in line or "filtered_resps" not in line:
            raise ResultsRejected(
                f"{where} is not a sample as lm_eval {_KNOWN} writes it: it has no doc_id or no "
                "filtered_resps."
            )
        lines.append({key: value for key, value in line.items() if key not in _NOT_READ})
    if not lines:
        raise ResultsRejected(f"{path.name} is empty. Run lm_eval again.")
    return _Task(match["task"] if match else path.stem, path, lines)


def _add(tally: Tally, task: _Task, summary: dict[str, Any], metric: str | None, filter: str | None) -> None:
    chosen_filter = _choose("filter", filter, task.filters(), task)
    lines = [line for line in task.lines if _filter(line) == chosen_filter]
    metrics = list(dict.fromkeys(name for line in lines for name in _metrics(line)))
    chosen_metric = _choose("metric", metric, metrics, task)
    if ((summary.get("higher_is_better") or {}).get(task.name) or {}).get(chosen_metric) is False:
        raise InvalidArgument(
            "metric", "a metric for which higher is better", chosen_metric, of="read_results"
        )
    documents: set[str] = set()
    missing = []
    for line in lines:
        document = f"{task.name}/{line['doc_id']}"
        if document in documents:
            raise ResultsRejected(
                f"The document {shown_id(document)} is in {task.path.name} twice for the filter "
                f"{chosen_filter!r}. Run lm_eval again."
            )
        documents.add(document)
        score = line.get(chosen_metric)
        if score is None:
            missing.append(document)
            continue
        if as_number(score) is None and not isinstance(score, (int, float)):
            raise ResultsRejected(
                f"The metric {chosen_metric!r} of {task.name} is not one number for each document. Take "
                f"another one: {names(name for name in metrics if name != chosen_metric)}."
            )
        content = line.get("doc_hash")
        tally.add(
            document,
            score,
            answer=json.dumps(line["filtered_resps"], sort_keys=True),
            content=content if isinstance(content, str) else json.dumps(line.get("doc"), sort_keys=True),
        )
    planned = ((summary.get("n-samples") or {}).get(task.name) or {}).get("effective")
    if isinstance(planned, int) and planned > len(documents):
        raise ResultsRejected(
            f"{task.path.name} has {len(documents):,} documents, and the run had {planned:,}. Was the file "
            "cut off?"
        )
    if missing:
        raise missing_tasks(
            missing, len(documents), hint=f"They have no value of the metric {chosen_metric!r}."
        )


def _metrics(line: dict[str, Any]) -> list[str]:
    listed = line.get("metrics")
    return [str(name) for name in listed] if isinstance(listed, list) else sorted(line.keys() - _NOT_METRICS)


def _filter(line: dict[str, Any]) -> str:
    return str(line.get("filter", "none"))


def _check_named(argument: str, value: str | None, options: list[str]) -> None:
    if value is not None and value not in options:
        listed = names(dict.fromkeys(options))
        raise InvalidArgument(argument, f"a {argument} that the file has: {listed}", value, of="read_results")


def _choose(argument: str, value: str | None, options: list[str], task: _Task) -> str:
    """The value of the argument if the task has it, or else the only one that the task has."""
    if value in options:
        return str(value)
    if len(options) != 1:
        have = f"several: {names(sorted(options))}" if options else "none"
        raise ResultsRejected(f"Say which {argument} counts: {argument}=…. {task.path.name} has {have}.")
    return options[0]
