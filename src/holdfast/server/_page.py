"""The page: some files that need no build step, sent with headers that allow nothing but themselves."""

from __future__ import annotations

from importlib import resources

from fastapi import APIRouter, Response

router = APIRouter(include_in_schema=False)

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def _file(name: str, kind: str) -> Response:
    content = resources.files("holdfast.server").joinpath("page", name).read_bytes()
    return Response(content, media_type=kind, headers=_HEADERS)


_SCRIPT = "text/javascript; charset=utf-8"


@router.get("/")
def index() -> Response:
    """The page itself."""
    return _file("index.html", "text/html; charset=utf-8")


@router.get("/page.css")
def style() -> Response:
    """How it looks."""
    return _file("page.css", "text/css; charset=utf-8")


@router.get("/page.js")
def script() -> Response:
    """Signing in, and the way from one dataset, board or gate to another."""
    return _file("page.js", _SCRIPT)


@router.get("/tools.js")
def tools() -> Response:
    """What all parts use: elements, numbers, tables and pictures."""
    return _file("tools.js", _SCRIPT)


@router.get("/dataset.js")
def dataset() -> Response:
    """One dataset: its account, its epochs, previews and questions."""
    return _file("dataset.js", _SCRIPT)


@router.get("/columns.js")
def columns() -> Response:
    """The table of columns, which can be searched."""
    return _file("columns.js", _SCRIPT)


@router.get("/answers.js")
def answers() -> Response:
    """The answers of an account, as a picture and a table."""
    return _file("answers.js", _SCRIPT)


@router.get("/results.js")
def results() -> Response:
    """Answers with many numbers: curves, histograms and tables."""
    return _file("results.js", _SCRIPT)


@router.get("/report.js")
def report() -> Response:
    """The report that ends an account."""
    return _file("report.js", _SCRIPT)


@router.get("/owner.js")
def owner() -> Response:
    """What an owner does with one dataset."""
    return _file("owner.js", _SCRIPT)


@router.get("/administration.js")
def administration() -> Response:
    """The administration of the service, for owners."""
    return _file("administration.js", _SCRIPT)


@router.get("/boards.js")
def boards() -> Response:
    """One board."""
    return _file("boards.js", _SCRIPT)


@router.get("/gates.js")
def gates() -> Response:
    """One gate."""
    return _file("gates.js", _SCRIPT)
