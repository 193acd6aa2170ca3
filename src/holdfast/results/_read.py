"""Finding out what a file or a folder is, and giving it to the reader for that format."""

from __future__ import annotations

import os
import re
from pathlib import Path

from holdfast import checks
from holdfast.errors import InvalidArgument, ResultsRejected
from holdfast.results._inspect import read_inspect
from holdfast.results._lm_eval import read_lm_eval
from holdfast.results._record import Results, as_written_by, names, parse_json
from holdfast.results._tables import Columns, read_csv, read_json_lines, read_junit

__all__ = ["FORMATS", "read_results"]

FORMATS = ("inspect", "lm-evaluation-harness", "junit", "csv", "json-lines")
_SUFFIXES = {".eval", ".json", ".jsonl", ".xml", ".csv"}
_INSPECT_LOG = re.compile(rb'\s*\{\s*"version"\s*:\s*[^,{}\[\]]{1,40},\s*"status"')
_SUMMARY = re.compile(rb'\s*\{\s*"results"\s*:')
_HEAD = 2**16
_LONGEST_LINE = 2**26
_TABLES = ("csv", "json-lines")


def read_results(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    metric: str | None = None,
    task: str = "task",
    score: str = "score",
    cluster: str | None = None,
    output: str | None = None,
    filter: str | None = None,
) -> Results:
    """Read the result files of one run of an evaluation tool: one score from 0 to 1 for each task.

    Guarantee: every task of the run has a score in the result. A file with tasks that have no score is
    refused, and so is one of another version. No error shows a score, or names a task because of its score.

    - ``inspect``: logs of Inspect, ``.eval`` and ``.json``, of log version 2. The id is the sample's id.
      Epochs are averaged. C, P, I and N count 1, 0.5, 0 and 0.
    - ``lm-evaluation-harness``: ``samples_<task>_<time>.jsonl``, or ``results_<time>.json`` for all sample
      files of a run, of version 0.4. The id is ``task/doc_id``.
    - ``junit``: XML of pytest and others. The id is ``classname::name``. A test that passes counts 1, one
      with a failure or an error 0. Several attempts in one file are averaged.
    - ``csv`` and ``json-lines``: one row for each task. Rows with the same task are repeats and are averaged.

    A folder must hold the files of one run. If it holds several runs, the error says how to choose one.

    Args:
        path: The file, or the folder.
        format: One of :data:`FORMATS`. Recognised from the content unless given.
        metric: Which score counts, where there are several: a scorer of Inspect (``"scorer/key"`` if the
            scorer gives several values) or a metric of the LM Evaluation Harness. Higher must be better.
        task: CSV and JSON Lines: the column with the task's id.
        score: CSV and JSON Lines: the column with the score: a number from 0 to 1, or true or false.
        cluster: CSV and JSON Lines: the column with the task's cluster.
        output: CSV and JSON Lines: the column with what the candidate answered.
        filter: LM Evaluation Harness: which filter's answers count, where there are several.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "scores.csv"
    ...     _ = file.write_text("task,score\\nsum,1\\nsum,0\\nproduct,1\\n")
    ...     results = read_results(file)
    >>> results
    Results(tasks=2, outputs=False, clusters=None, format='csv', version='', name=None)
    >>> results.scores
    {'sum': 0.5, 'product': 1.0}
    """
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise InvalidArgument("path", "the path of a file or a folder", path, of="read_results")
    if format is not None:
        checks.choice(format, "format", FORMATS, of="read_results")
    place = Path(path)
    if not place.exists():
        raise InvalidArgument("path", "a file or a folder that exists", str(path), of="read_results")
    if not (place.is_dir() or place.is_file()):
        raise InvalidArgument("path", "a file or a folder", str(path), of="read_results")
    kind: str | None
    if place.is_dir():
        paths, kind = _files_of_run(place, format)
    else:
        paths, kind = [place], format or _recognised(place)
    if kind is None:
        raise ResultsRejected(
            f"The format of {place.name} is not known. Say it: format=…, one of {names(FORMATS)}."
        )
    columns = Columns(task, score, cluster, output)
    _check_arguments(kind, metric, filter, columns)
    if kind == "inspect":
        return as_written_by("Inspect", lambda: read_inspect(paths, metric))
    if kind == "lm-evaluation-harness":
        return as_written_by("lm_eval", lambda: read_lm_eval(paths, metric, filter))
    if kind == "junit":
        return read_junit(paths)
    return read_csv(paths[0], columns) if kind == "csv" else read_json_lines(paths[0], columns)


def _check_arguments(kind: str, metric: str | None, filter: str | None, columns: Columns) -> None:
    """Refuse an argument that the format does not use: it was meant to choose something, and would not."""
    if metric is not None and kind not in ("inspect", "lm-evaluation-harness"):
        raise InvalidArgument("metric", f"left out for the format {kind!r}", metric, of="read_results")
    if filter is not None and kind != "lm-evaluation-harness":
        raise InvalidArgument("filter", f"left out for the format {kind!r}", filter, of="read_results")
    default = Columns()
    for name in ("task", "score", "cluster", "output"):
        value = getattr(columns, name)
        if kind not in _TABLES and value != getattr(default, name):
            raise InvalidArgument(name, f"left out for the format {kind!r}", value, of="read_results")


def _files_of_run(folder: Path, format: str | None, *, deeper: bool = True) -> tuple[list[Path], str]:
    kinds: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in _SUFFIXES and (kind := _recognised(path)) is not None:
            kinds.setdefault(kind, []).append(path)
    if format is not None:
        kinds = {format: kinds[format]} if format in kinds else {}
    if not kinds:
        folders = [
            path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")
        ]
        # lm_eval makes a folder for each model in the folder that it is given.
        if deeper and len(folders) == 1:
            return _files_of_run(folders[0], format, deeper=False)
        raise ResultsRejected(f"There is no result file in the folder {folder.name}. Give the file.")
    if len(kinds) > 1:
        raise ResultsRejected(
            f"The folder {folder.name} has files of several formats: {names(kinds)}. Give the file, or "
            "format=…."
        )
    ((kind, paths),) = kinds.items()
    if kind in _TABLES and len(paths) > 1:
        raise ResultsRejected(
            f"The folder {folder.name} has {len(paths)} files that may be results: "
            f"{names(path.name for path in paths)}. Give the one to read."
        )
    return paths, kind


def _recognised(path: Path) -> str | None:
    """The format of a file by its content, None where that is not clear."""
    with path.open("rb") as file:
        head = file.read(_HEAD).removeprefix(b"\xef\xbb\xbf")
        file.seek(0)
        line = file.readline(_LONGEST_LINE)
    if path.suffix == ".eval" or head.startswith(b"PK\x03\x04") or _INSPECT_LOG.match(head):
        return "inspect"
    if _SUMMARY.match(head):
        return "lm-evaluation-harness"
    if path.suffix == ".xml" or head.lstrip().startswith(b"<"):
        return "junit"
    if path.suffix in (".jsonl", ".ndjson") or (path.suffix != ".csv" and head.lstrip().startswith(b"{")):
        return _kind_of_lines(line)
    return "csv" if path.suffix == ".csv" else None


def _kind_of_lines(line: bytes) -> str | None:
    try:
        first_line = parse_json(line.removeprefix(b"\xef\xbb\xbf"), "The first line")
    except ResultsRejected:
        return "json-lines" if line.rstrip().endswith(b"}") else None
    if isinstance(first_line, dict) and {"doc_id", "filtered_resps"} <= first_line.keys():
        return "lm-evaluation-harness"
    return "json-lines" if isinstance(first_line, dict) else None
