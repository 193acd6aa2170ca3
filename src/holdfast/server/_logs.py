"""Logs: one line an event, as JSON or as text, without anything that a question or an answer says.

A line has a time in whole seconds: a finer one would tell how long each request took. What other libraries
say is reduced to who says it, because their words may quote a value. Tracebacks are left out for the same
reason: they may show protected rows.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from holdfast.errors import DependenceWarning

REQUESTS = "holdfast.requests"
"""The logger of finished requests."""

_OURS = ("holdfast",)
_TEMPLATES = ("uvicorn",)  # Their templates are safe to show; what is put into them is not.
_FIELDS = ("request_id", "method", "route", "status", "duration")
_WARNING = re.compile(r"(\w*Warning): (.*)")
_TOKEN = re.compile(r"hf_[A-Za-z0-9_-]{8,}")
_PASSWORD = re.compile(r"(://[^/\s:@]*):[^/\s@]*@")


@contextmanager
def logging_to(level: str = "warning", form: str = "text", stream: TextIO | None = None) -> Iterator[None]:
    """Send everything this process logs to one place in one form, for a while.

    Args:
        level: "debug", "info", "warning" or "error"; finished requests are logged at "info".
        form: "json" or "text".
        stream: where to (default: stderr).
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    loggers = [logging.getLogger(name) for name in (*_OURS, *_TEMPLATES)]
    before = [(logger, logger.level) for logger in (root, *loggers)]
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for logger in loggers:
        logger.setLevel(level.upper())
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)
        for logger, previous in before:
            logger.setLevel(previous)


def safe_record(record: logging.LogRecord) -> dict[str, Any]:
    """What may be written of a record: its time, level, source, words that are safe, and the fields of a
    request."""
    said: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": _words(record),
    }
    if record.exc_info and record.exc_info[0] is not None:
        said["error"] = record.exc_info[0].__name__
    if record.name == REQUESTS:
        said |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
    return said


def _words(record: logging.LogRecord) -> str:
    source = record.name.split(".")[0]
    if source in _OURS:
        text = record.getMessage()
    elif record.name == "py.warnings":
        text = _warning_words(record.getMessage())
    elif source in _TEMPLATES and isinstance(record.msg, str) and "\n" not in record.msg:
        text = record.msg
    else:
        text = "message of another library"
    return without_secrets(text.replace("\r", " ").replace("\n", " "))


def _warning_words(text: str) -> str:
    """The words of our own warning, which speaks of training rows; of any other its kind alone."""
    kind = _WARNING.search(text)
    if kind is None:
        return "a warning"
    return f"{kind[1]}: {kind[2]}" if kind[1] == DependenceWarning.__name__ else f"a {kind[1]}"


def without_secrets(text: str) -> str:
    """The text without tokens, and without passwords in addresses.

    >>> without_secrets("postgresql://me:secret@db/x")
    'postgresql://me:…@db/x'
    """
    return _PASSWORD.sub(r"\1:…@", _TOKEN.sub("hf_…", text))


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        return json.dumps(safe_record(record))


class TextLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        said = safe_record(record)
        fields = " ".join(f"{name}={said[name]}" for name in ("error", *_FIELDS) if name in said)
        return " ".join(part for part in (said["time"], said["level"].upper(), said["event"], fields) if part)
