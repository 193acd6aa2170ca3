"""A real Chromium for tests of what people see: a visitor of the service's page, pictures, axe-core."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

PHONE = {"width": 390, "height": 740}
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def chromium() -> str:
    """Debian's Chromium, installed if it is missing and may be."""
    names = ("chromium", "chromium-browser", "google-chrome")
    if not any(map(shutil.which, names)) and shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=True, capture_output=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], check=True, capture_output=True)
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("there is no Chromium, and it cannot be installed without root")
    return program


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser for a while."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=_ARGUMENTS)
        yield browser
        browser.close()


class Visitor:
    """Opens the page of a service, each time as somebody with a fresh tab. What the page throws is kept."""

    def __init__(self, browser: Browser, url: str, tokens: dict[str, str]) -> None:
        self.browser, self.url, self.tokens = browser, url, tokens
        self.thrown: list[str] = []
        self._contexts: list[Any] = []

    def __call__(self, name: str | None = None, place: str = "", **options: Any) -> Page:
        """The page as ``name`` sees it, at a ``place`` such as "board/race"."""
        self._contexts.append(self.browser.new_context(**options))
        page: Page = self._contexts[-1].new_page()
        page.on("pageerror", lambda error: self.thrown.append(str(error)))
        page.goto(f"{self.url}/#{place}" if place else self.url)
        if name is not None:
            page.get_by_label("Your token").fill(self.tokens[name])
            page.keyboard.press("Enter")
            expect(page.locator("#person")).to_be_visible()
        return page

    def leave(self) -> None:
        """Close what was opened; fails if the page has thrown anything."""
        for context in self._contexts:
            context.close()
        self._contexts.clear()
        assert self.thrown == []


@contextmanager
def visiting(url: str, tokens: dict[str, str]) -> Iterator[Visitor]:
    """A visitor with a browser of their own."""
    with browsing() as browser:
        visitor = Visitor(browser, url, tokens)
        yield visitor
        visitor.leave()


def sticks_out(page: Page) -> int:
    """By how many pixels the page is wider than the screen."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def serious_faults(page: Page, only: str | None = None) -> list[tuple[str, list[Any]]]:
    """What axe-core calls serious or critical: the rule, and where it is broken. ``only`` names one rule."""
    options = {"resultTypes": ["violations"]}
    if only is not None:
        options["runOnly"] = [only]
    violations = Axe().run(page, options=options).response["violations"]
    return [
        (problem["id"], [node["target"] for node in problem["nodes"]])
        for problem in violations
        if problem["impact"] in ("serious", "critical")
    ]


def pictures_folder(otherwise: Path) -> Path:
    """Where pictures are kept for whoever wants to look at them: the folder that HOLDFAST_PICTURES names."""
    folder = Path(os.environ.get("HOLDFAST_PICTURES") or otherwise)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
