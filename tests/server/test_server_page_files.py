"""The page's files hold together, without a browser: what the script looks for and calls is there, and
nothing comes from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib import resources

import pytest
from starlette.testclient import TestClient

from holdfast.server import create_app

PAGE = resources.files("holdfast.server").joinpath("page")
SCRIPTS = sorted(file.name for file in PAGE.iterdir() if file.name.endswith(".js"))
STYLE, INDEX = (PAGE.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "index.html"))
SCRIPT = "".join(PAGE.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)


class Elements(HTMLParser):
    """Every element of a page, as its name and attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


ELEMENTS = Elements(INDEX).found
IDS = [attributes["id"] for _, attributes in ELEMENTS if "id" in attributes]


def looked_for(script):
    lists = re.findall(r"for \(const id of \[([^\]]+)\]\) \$\(id\)", script)
    return set(re.findall(r'(?:\$|getElementById)\("([\w-]+)"\)', script)) | set(
        re.findall(r'"([\w-]+)"', " ".join(lists))
    )


def called(script):
    """Every method and path that a script calls, with {} where something is filled in."""
    calls = re.findall(r'call\("(\w+)", ["`]([^"`]+)["`]', script)
    return {(method, re.sub(r"\$\{[^}]+\}", "{}", path).partition("?")[0]) for method, path in calls}


def routes(client):
    paths = client.get("/openapi.json").json()["paths"]
    return {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path).removeprefix("/v1"))
        for path, methods in paths.items()
        for method in methods
    }


def test_the_script_looks_for_elements_that_are_there_once():
    assert len(looked_for(SCRIPT)) > 20
    assert looked_for(SCRIPT) <= set(IDS)
    assert len(IDS) == len(set(IDS))


def test_the_script_calls_routes_that_exist(client):
    assert len(called(SCRIPT)) > 8
    assert called(SCRIPT) <= routes(client)


def test_a_script_that_looks_for_or_calls_something_else_is_noticed(client):
    twin = SCRIPT.replace('$("verified")', '$("checked")').replace("/certificate`", "/certificates`")
    assert not looked_for(twin) <= set(IDS)
    assert not called(twin) <= routes(client)


def test_nothing_comes_from_elsewhere_and_nothing_is_inline():
    for text in (SCRIPT, STYLE, INDEX):
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", SCRIPT)
    for tag, attributes in ELEMENTS:
        assert tag != "style"
        assert tag != "script" or attributes["src"] == "/page.js"
        assert not any(name.startswith("on") or name == "style" for name in attributes)


def test_every_control_says_what_it_is_for():
    labelled = {attributes.get("for") for tag, attributes in ELEMENTS if tag == "label"}
    controls = [attributes for tag, attributes in ELEMENTS if tag in ("input", "textarea", "select")]
    assert controls
    assert all(control.get("id") in labelled or control.get("aria-label") for control in controls)
    assert next(attributes for tag, attributes in ELEMENTS if tag == "html")["lang"] == "en"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "text/html"), ("/page.css", "text/css"), *((f"/{name}", "text/javascript") for name in SCRIPTS)],
)
def test_the_files_are_served_to_anyone_under_a_policy_that_allows_only_themselves(client, path, kind):
    response = client.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith(kind)
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"


def test_the_description_is_written_once_however_often_strangers_ask(service, monkeypatch):
    app = create_app(service)
    made, calls = app.openapi, []
    monkeypatch.setattr(app, "openapi", lambda: calls.append(1) or made())
    with TestClient(app) as stranger:
        replies = [stranger.get("/openapi.json") for _ in range(5)]
    assert len(calls) == 1
    assert len({reply.content for reply in replies}) == 1
    assert replies[0].headers["x-content-type-options"] == "nosniff"
    assert replies[0].json() == made()
