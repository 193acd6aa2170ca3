"""Addresses of data: which are databases, and how one is shown without what must not be."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["is_database", "shown", "without_secrets"]

# Schemes of files, which DuckDB reads itself.
_FILES = ("file", "http", "https", "s3", "s3a", "s3n", "gs", "gcs", "r2", "hf", "az", "azure", "abfss")


def is_database(text: str) -> bool:
    """Whether a text is the address of a database rather than of a file."""
    scheme, found, _ = text.partition("://")
    return bool(found) and scheme.isalnum() and scheme.lower() not in _FILES


def shown(path: str) -> str:
    """An address without the name and the password of who goes there, and without options; of a path on this
    machine its last part, because what is shown may be read elsewhere."""
    if "://" not in path:
        return Path(path).name
    parts = urlsplit(path)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}" + (f"#{parts.fragment}" if parts.fragment else "")


def without_secrets(error: Exception, url: str) -> str:
    """The first line of what went wrong, with nothing of the address that is not shown."""
    text = str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
    if "://" not in url:
        return text
    parts = urlsplit(url)
    for secret in (url, parts.netloc.rpartition("@")[0], parts.query, parts.password):
        for written in {secret or "", unquote(secret or "")} - {""}:
            text = text.replace(written, "…")
    return text
