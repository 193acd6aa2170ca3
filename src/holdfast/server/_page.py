"""The page: six files that need no build step, sent with headers that allow nothing but themselves."""

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


@router.get("/")
def index() -> Response:
    """The page itself."""
    return _file("index.html", "text/html; charset=utf-8")


@router.get("/page.css")
def style() -> Response:
    """How it looks."""
    return _file("page.css", "text/css; charset=utf-8")


@router.get("/boards.js")
def boards() -> Response:
    """What it does for boards."""
    return _file("boards.js", "text/javascript; charset=utf-8")


@router.get("/gates.js")
def gates() -> Response:
    """What it does for gates."""
    return _file("gates.js", "text/javascript; charset=utf-8")


@router.get("/results.js")
def results() -> Response:
    """What it does for answers with many numbers: curves, histograms and tables."""
    return _file("results.js", "text/javascript; charset=utf-8")


@router.get("/page.js")
def script() -> Response:
    """What it does."""
    return _file("page.js", "text/javascript; charset=utf-8")
