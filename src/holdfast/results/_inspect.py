"""Logs of Inspect (``inspect_ai``): ``.eval``, which is a zip file of JSON files, and ``.json``."""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.errors import InvalidArgument, ResultsRejected
from holdfast.results._record import (
    MOST_BYTES,
    Results,
    Tally,
    as_number,
    as_written_by,
    missing_tasks,
    names,
    parse_json,
    read_json,
    shown_id,
    too_large,
)

__all__ = ["inspect_results", "read_inspect"]

_VERSION = 2
# As `value_to_float` of Inspect maps them. It maps a text that it does not know to 0; here that is an error.
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_WORDS = {"yes": 1.0, "no": 0.0}
_ZSTANDARD = 93  # Inspect compresses with it; zipfile reads it since Python 3.14.
_ATTACHMENT = "attachment://"
# A sample is one file, or a folder in which sample.json has all but messages and events. An id may have "/".
_SAMPLE_FILE = re.compile(r"samples/.+_epoch_\d+(\.json|/sample\.json)", re.DOTALL)
_MOST_EPOCHS = 10_000


@dataclass(frozen=True)
class _Sample:
    """What is needed of one sample in one epoch."""

    task: str
    epoch: int
    values: dict[str, Any]
    answer: str | None
    content: str


def read_inspect(paths: list[Path], metric: str | None = None) -> Results:
    """Read the log of one evaluation, or the logs of one run with several Inspect tasks.

    With several logs, a task id is ``task/sample id``. They must be of one run and of one model, and no two
    of one Inspect task.
    """
    logs = [(path, *_open(path)) for path in paths]
    if len(logs) == 1:
        path, header, samples = logs[0]
        return _results([(header, samples, "")], metric, path.name)
    specs = [_evaluation(header, path.name) for path, header, _ in logs]
    runs = {spec.get("eval_set_id") or spec.get("run_id") for spec in specs}
    tasks = [str(spec.get("task")) for spec in specs]
    models = {str(spec.get("model")) for spec in specs}
    if len(runs) > 1 or len(set(tasks)) < len(tasks) or len(models) > 1:
        raise ResultsRejected(
            f"The folder has {len(logs)} Inspect logs: of {len(runs)} runs, {len(set(tasks))} tasks and "
            f"{len(models)} models. Give the one log to read, for example {shown_id(paths[-1].name)}."
        )
    logs_of_run = [
        (header, samples, f"{task}/") for (_, header, samples), task in zip(logs, tasks, strict=True)
    ]
    return _results(logs_of_run, metric, f"the {len(logs)} logs")


def inspect_results(log: Mapping[str, Any], *, metric: str | None = None) -> Results:
    """The results in an Inspect log that is in memory, as a dictionary such as ``EvalLog.model_dump()``
    makes.

    Guarantee: as for :func:`read_results`, for ``format="inspect"``.

    Args:
        log: The log: ``version``, ``status``, ``eval`` and ``samples``.
        metric: The scorer to take, or ``"scorer/key"`` where a scorer gives several values.

    >>> sample = {"id": "a", "epoch": 1, "scores": {"match": {"value": "C"}}}
    >>> inspect_results({"version": 2, "status": "success", "eval": {"model": "m"}, "samples": [sample]})
    Results(tasks=1, outputs=False, clusters=None, format='inspect', version='2', name='m')
    """
    samples = log.get("samples")
    if not isinstance(samples, (list, tuple)):
        samples = []
    parts = [(log, (_sample(sample, "the log") for sample in samples), "")]
    return as_written_by("Inspect", lambda: _results(parts, metric, "the log"))


def _results(
    parts: Sequence[tuple[Mapping[str, Any], Iterable[_Sample], str]], metric: str | None, where: str
) -> Results:
    version = ""
    name = None
    samples: dict[tuple[str, int], _Sample] = {}
    expected: dict[tuple[str, int], None] = {}
    for header, log_samples, prefix in parts:
        version, name = _check(header, where)
        for sample in log_samples:
            key = (prefix + sample.task, sample.epoch)
            if key in samples:
                raise ResultsRejected(
                    f"The sample {shown_id(key[0])} is in {where} twice for epoch {sample.epoch}. Give every "
                    "sample an id of its own."
                )
            samples[key] = sample
        expected |= dict.fromkeys((prefix + task, epoch) for task, epoch in _expected(header))
    if not samples:
        raise ResultsRejected(
            f"There are no samples in {where}. Run Inspect without --no-log-samples, and not with shards."
        )
    expected |= dict.fromkeys(samples)
    values = _chosen(samples, metric, where)
    missing = list(dict.fromkeys(task for task, epoch in expected if values.get((task, epoch)) is None))
    if missing:
        raise missing_tasks(
            missing,
            len({task for task, _ in expected}),
            hint="Run the evaluation again (inspect eval-retry), or have Inspect score samples that fail "
            "(--score-on-error).",
        )
    tally = Tally()
    for task, epoch in sorted(expected, key=lambda key: key[1]):
        sample = samples[task, epoch]
        tally.add(task, _score(values[task, epoch]), answer=sample.answer, content=sample.content)
    return tally.results("inspect", version, name)


def _check(header: Mapping[str, Any], where: str) -> tuple[str, str | None]:
    """Refuse a log that is not finished or not known; return its version and the name of the model."""
    version = header.get("version")
    if type(version) is not int or version != _VERSION:
        raise ResultsRejected(
            f"{where} is an Inspect log of version {_public(version)}. Known versions: {_VERSION}. Convert "
            "the log with `inspect log convert`, or update Holdfast."
        )
    status = header.get("status")
    if status != "success":
        raise ResultsRejected(
            f"The evaluation in {where} has the status {_public(status)}, and not 'success'. Run it to its "
            "end (inspect eval-retry)."
        )
    if header.get("invalidated"):
        raise ResultsRejected(f"The evaluation in {where} was declared invalid. Run it again.")
    spec = _evaluation(header, where)
    tool = (spec.get("packages") or {}).get("inspect_ai")
    model = spec.get("model")
    name = model if isinstance(model, str) else None
    return (f"{version}, inspect_ai {tool}" if tool else str(version)), name


def _expected(header: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The samples and epochs that the evaluation was planned with."""
    spec = header["eval"]
    epochs = (spec.get("config") or {}).get("epochs") or 1
    if type(epochs) is not int or not 1 <= epochs <= _MOST_EPOCHS:
        raise ResultsRejected(f"A log must have 1 to {_MOST_EPOCHS:,} epochs; this one does not.")
    for task in (spec.get("dataset") or {}).get("sample_ids") or ():
        for epoch in range(1, epochs + 1):
            yield str(task), epoch


def _chosen(
    samples: dict[tuple[str, int], _Sample], metric: str | None, where: str
) -> dict[tuple[str, int], Any]:
    """The value of the chosen scorer for each sample and epoch; None where it has none."""
    scorers = list(dict.fromkeys(scorer for sample in samples.values() for scorer in sample.values))
    scorer, key = metric, None
    if metric is None:
        if len(scorers) > 1:
            raise ResultsRejected(
                f"{where} has the scores of several scorers: {names(scorers)}. Say which one counts: "
                "metric=…."
            )
        scorer = scorers[0] if scorers else None
    elif metric not in scorers and "/" in metric:
        scorer, key = metric.rsplit("/", 1)
    if scorer is not None and scorer not in scorers:
        raise InvalidArgument("metric", f"one of the scorers {names(scorers)}", metric, of="read_results")
    values = {place: sample.values.get(scorer or "") for place, sample in samples.items()}
    keys = list(dict.fromkeys(name for value in values.values() if isinstance(value, dict) for name in value))
    if keys and key is None:
        raise ResultsRejected(
            f"The scorer {scorer!r} gives several values: {names(keys)}. Say which one counts: "
            f"metric={f'{scorer}/{keys[0]}'!r}."
        )
    if key is not None and key not in keys:
        raise InvalidArgument("metric", f"{scorer!r}/ and one of {names(keys)}", metric, of="read_results")
    if key is not None:
        values = {
            place: value.get(key) if isinstance(value, dict) else value for place, value in values.items()
        }
    # Inspect writes NaN for a sample that its scorer could not score.
    return {
        place: None if isinstance(value, float) and value != value else value
        for place, value in values.items()
    }


def _score(value: object) -> float | None:
    if isinstance(value, str):
        return _LETTERS.get(value, _WORDS.get(value.lower(), as_number(value)))
    return as_number(value)


def _sample(record: Any, where: str) -> _Sample:
    if not isinstance(record, Mapping) or "id" not in record or not isinstance(record.get("epoch"), int):
        raise ResultsRejected(f"A sample in {where} has no id or no epoch. Is the file a log of Inspect?")
    task = str(record["id"])
    if record.get("invalidation"):
        raise ResultsRejected(f"The sample {shown_id(task)} in {where} was declared invalid. Run it again.")
    scores = record.get("scores") or {}
    values = {
        str(scorer): score.get("value") if isinstance(score, Mapping) else None
        for scorer, score in scores.items()
    }
    content = [record.get(name) for name in ("input", "choices", "target")]
    return _Sample(task, record["epoch"], values, _answer(record), _json_text(_without_ids(content)))


def _answer(record: Mapping[str, Any]) -> str | None:
    """All that the model wrote, and the tools that it called; None where the log has no message of the model.

    The last output is not enough: what an agent did before it decides the score as well.
    """
    if "messages" not in record:
        return None  # Inspect keeps the messages of large samples in files of their own.
    output = record.get("output") or {}
    messages = [message for message in record["messages"] or () if message.get("role") == "assistant"]
    messages += [choice.get("message") or {} for choice in output.get("choices") or ()]
    if not messages:
        return None
    attachments = record.get("attachments") or {}
    actions = []
    for message in messages:
        calls = [[call.get("function"), call.get("arguments")] for call in message.get("tool_calls") or ()]
        actions.append([_texts(message.get("content"), attachments), calls])
    return _json_text(actions)


def _texts(content: Any, attachments: Mapping[str, str]) -> list[str]:
    pieces = [content] if isinstance(content, str) else [piece.get("text") for piece in content or ()]
    texts = [piece for piece in pieces if isinstance(piece, str)]
    return [
        attachments.get(text.removeprefix(_ATTACHMENT), text) if text.startswith(_ATTACHMENT) else text
        for text in texts
    ]


def _without_ids(content: Any) -> Any:
    """The messages of an input get new ids in each run."""
    if isinstance(content, Mapping):
        return {
            name: _without_ids(value) for name, value in content.items() if name != "id" and value is not None
        }
    return [_without_ids(element) for element in content] if isinstance(content, (list, tuple)) else content


def _json_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def _public(value: object) -> str:
    """A version or a status of the file, for a message; anything but a short text or a number is left out."""
    return repr(value) if isinstance(value, (str, int)) and len(str(value)) <= 40 else "that is not stated"


def _evaluation(header: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    value = header.get("eval")
    if not isinstance(value, Mapping):
        raise ResultsRejected(f"{where} has no 'eval'. Is the file a log of Inspect?")
    return value


def _open(path: Path) -> tuple[Mapping[str, Any], Iterator[_Sample]]:
    """The header of a log, and its samples, which are read when they are asked for."""
    with path.open("rb") as file:
        zipped = path.suffix == ".eval" or file.read(2) == b"PK"
    if not zipped:
        log = read_json(path)
        if not isinstance(log, dict):
            raise ResultsRejected(f"{path.name} is not a log of Inspect: it is not a JSON object.")
        return log, (_sample(sample, path.name) for sample in log.get("samples") or ())
    with path.open("rb") as file:
        members = _members(file, path)
        if "header.json" not in members:
            if "_journal/start.json" in members:
                raise ResultsRejected(
                    f"The evaluation in {path.name} has not ended: there is no header.json in the log. Wait "
                    "for it, or run inspect eval-retry."
                )
            raise ResultsRejected(f"{path.name} is a zip file, but no log of Inspect: it has no header.json.")
        header = parse_json(_member(file, members["header.json"], path), f"header.json in {path.name}")
    if not isinstance(header, dict):
        raise ResultsRejected(f"{path.name} is not a log of Inspect: its header is not a JSON object.")
    return header, _zipped_samples(path)


def _zipped_samples(path: Path) -> Iterator[_Sample]:
    with path.open("rb") as file:
        for name, member in _members(file, path).items():
            if _SAMPLE_FILE.fullmatch(name):
                description = f"A sample in {path.name}"
                yield _sample(parse_json(_member(file, member, path), description), path.name)


def _members(file: BinaryIO, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The files in a zip file by name. Where Inspect wrote one twice, the last counts."""
    try:
        with zipfile.ZipFile(file) as archive:
            return {member.filename: member for member in archive.infolist()}
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error):
        pass
    raise ResultsRejected(f"{path.name} is not a whole zip file. Was it cut off?")


def _member(file: BinaryIO, member: zipfile.ZipInfo, path: Path) -> bytes:
    """One file of a zip file, never more than the size that the zip file declares for it."""
    if member.file_size > MOST_BYTES:
        raise too_large(f"A part of {path.name}", member.file_size)
    content: bytes | None = None
    try:
        if member.compress_type == _ZSTANDARD:
            content = _decompressed(file, member)
        else:
            with zipfile.ZipFile(file) as archive, archive.open(member) as member_file:
                content = member_file.read(member.file_size + 1)
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        OSError,
        EOFError,
        struct.error,
        zlib.error,
    ):
        content = None
    if content is None or len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise ResultsRejected(f"A part of {path.name} cannot be read: the file is damaged. Copy it again.")
    return content


def _decompressed(file: BinaryIO, member: zipfile.ZipInfo) -> bytes:
    import pyarrow as pa

    file.seek(member.header_offset)
    name_length, extra_length = struct.unpack("<26xHH", file.read(30))
    file.seek(name_length + extra_length, 1)
    compressed = pa.BufferReader(file.read(member.compress_size))
    content: bytes = pa.CompressedInputStream(compressed, "zstd").read(member.file_size + 1)
    return content
