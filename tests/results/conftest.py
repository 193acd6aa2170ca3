"""Files that the real tools wrote, copies of them with something changed, and a check that no score leaks."""

from __future__ import annotations

import json
import struct
import traceback
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import HoldfastError
from holdfast.results import read_results

FILES = Path(__file__).with_name("files")


@pytest.fixture
def files() -> Path:
    """The folder with the files of the real tools."""
    return FILES


@pytest.fixture
def refused():
    """Read a file that must be refused, and return the message. Nothing secret may be in the error or in an
    error that it came from."""

    def read(path, *secrets: str, **options) -> str:
        with pytest.raises(HoldfastError) as caught:
            read_results(path, **options)
        error: BaseException | None = caught.value
        message = str(error)
        while error is not None:
            texts = [str(error), repr(error.args), repr(vars(error))]
            texts += traceback.format_exception_only(error)
            for secret in secrets:
                assert not any(secret in text for text in texts), f"the error shows {secret}"
            error = error.__cause__ or error.__context__
        return message

    return read


@pytest.fixture
def repacked(tmp_path):
    """A copy of an Inspect log, with ``edit(name, content)`` for each of its files; None leaves a file out.

    The copy is compressed in the old way (deflate), as logs of older versions of Inspect are.
    """

    def repack(source: Path, edit, name: str = "copy.eval") -> Path:
        target = tmp_path / name
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
            for member in old.infolist():
                content = edit(member.filename, json.loads(_content(source, member)))
                if content is not None:
                    new.writestr(member.filename, json.dumps(content))
        return target

    return repack


def _content(path: Path, member: zipfile.ZipInfo) -> bytes:
    with path.open("rb") as file:
        file.seek(member.header_offset)
        name_length, extra_length = struct.unpack("<26xHH", file.read(30))
        file.seek(name_length + extra_length, 1)
        return pa.CompressedInputStream(pa.BufferReader(file.read(member.compress_size)), "zstd").read()
