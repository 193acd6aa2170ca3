"""``holdfast admin`` against a service in a process of its own."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from server_process import serving

from holdfast.admin import Admin
from holdfast.cli import main
from holdfast.errors import ServiceRefused


@pytest.fixture(scope="module")
def said(set_up, tmp_path_factory):
    home = tmp_path_factory.mktemp("administered") / "home"
    shutil.copytree(set_up, home)
    with serving(home) as said:
        yield {**said, "home": home, "token": said["tokens"]["owner"]}


@pytest.fixture
def admin(said, capsys, monkeypatch):
    """Run `holdfast admin` as the owner: exit status, stdout, stderr."""
    monkeypatch.setenv("HOLDFAST_SERVICE", said["url"])
    monkeypatch.setenv("HOLDFAST_TOKEN", said["token"])
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments, typed=None):
        if typed is not None:
            monkeypatch.setattr("click.prompt", lambda *_, **__: typed)
            monkeypatch.setattr("click.confirm", lambda *_, **__: typed == "y")
        monkeypatch.setattr(sys.stdin, "isatty", lambda: typed is not None, raising=False)
        with pytest.raises(SystemExit) as left:
            main(["admin", *arguments])
        shown = capsys.readouterr()
        return left.value.code, shown.out, shown.err

    return run


def test_terms(admin):
    status, out, _ = admin("terms", "people", "--share", "red/bob=5", "--share", "blue=20", "--rate", "60")
    assert status == 0
    assert "60 new questions a minute" in out
    assert "red/bob: 5" in out
    status, out, _ = admin("terms", "people", "--no-share", "blue", "--json")
    assert (status, json.loads(out)["shares"]) == (0, {"red/bob": 5.0})
    assert json.loads(admin("terms", "people", "--json")[1])["rate"] == 60
    for wrong in (["--share", "blue"], ["--share", "=5"], ["--share", "blue=much"], ["--rate", "0"]):
        assert admin("terms", "people", *wrong)[0] == 2, wrong
    for share in ("nan", "inf"):
        status, _, err = admin("terms", "people", "--share", f"blue={share}")
        assert (status, err.startswith("holdfast: ")) == (2, True), share
        assert "not finite" in err


def test_people(admin, said):
    status, out, _ = admin(
        "add", "eve", "--role", "analyst", "--team", "red", "--dataset", "people", "--json"
    )
    eve = json.loads(out)
    assert (status, eve["dataset"]) == (0, "dataset:people")
    assert eve["identity"] in admin("people")[1]
    status, out, _ = admin("change", eve["identity"], "--role", "auditor", "--days", "3")
    assert status == 0
    assert "auditor of dataset:people" in out
    assert admin("change", eve["identity"])[0] == 2
    with Admin(said["url"], eve["token"]) as auditor:
        assert auditor.terms("people")["report"] == "owner"
        with pytest.raises(ServiceRefused, match="for owner tokens") as refused:
            auditor.change_terms("people", rate=1)
    assert refused.value.status == 403
    assert admin("revoke", eve["identity"], "--json")[0] == 0
    assert "revoked" in admin("people")[1]
    assert admin("revoke", "0" * 16)[0] == 2
    assert admin("terms", "people", "--token", eve["token"])[0] == 2


def test_datasets_are_closed_archived_and_deleted(admin, tmp_path):
    assert "served" in admin("datasets")[1]
    assert admin("archive", "other")[0] == 0
    assert [one["state"] for one in json.loads(admin("datasets", "--json")[1]) if one["name"] == "other"] == [
        "archived"
    ]
    status, _, err = admin("close", "other", "--yes")
    assert status == 1  # As things stand the service refuses.
    assert "unarchive other" in " ".join(err.split())
    assert admin("unarchive", "other")[0] == 0
    status, out, _ = admin("unarchive", "other", "--json")
    assert (status, json.loads(out)["status"]) == (1, 409)
    status, _, err = admin("close", "other")
    assert status == 2  # Nobody is there to ask.
    assert "--yes" in err
    status, _, err = admin("close", "other", typed="n")
    assert status == 1
    assert "Nothing was changed" in err
    assert admin("close", "other", typed="y")[0] == 0
    assert admin("export", "other", str(tmp_path / "copy.tar"))[0] == 0
    assert (tmp_path / "copy.tar").stat().st_mode & 0o777 == 0o600
    assert admin("export", "other", str(tmp_path / "copy.tar"))[0] == 2
    assert admin("delete", "other")[0] == 2
    assert admin("delete", "other", typed="people")[0] == 1
    assert admin("delete", "other", "--confirm", "other")[0] == 0
    assert admin("terms", "other")[0] == 1
    acts = json.loads(admin("log", "--json")[1])
    about_other = [act["act"] for act in acts if act.get("dataset") == "other"]
    assert about_other == ["archive", "unarchive", "close", "export", "delete"]
    assert admin("log", "--export", str(tmp_path / "acts.jsonl"))[0] == 0
    with pytest.raises(SystemExit) as left:
        main(["verify", str(tmp_path / "acts.jsonl")])
    assert left.value.code == 0


def test_a_dataset_moves_by_two_commands(admin, set_up, tmp_path):
    home = tmp_path / "there"
    shutil.copytree(set_up / "data", home / "data")
    with serving(home) as there:
        file = str(tmp_path / "people.tar")
        assert admin("export", "people", file, "--to", there["key"], typed="n")[0] == 1
        assert admin("export", "people", file, "--to", there["key"], "--yes")[0] == 0
        assert "archived" in admin("datasets")[1]
        key = json.loads(admin("export", "people", f"{file}.2", "--json")[1])["key"]
        elsewhere = ["--service", there["url"], "--token", there["tokens"]["owner"]]
        status, out, _ = admin("import", file, "--key", key, *elsewhere)
        assert (status, "continues here" in out) == (0, True)
        assert admin("import", file, "--key", key, *elsewhere)[0] == 2
        assert admin("import", file, "--key", there["key"], *elsewhere)[0] == 2


def test_what_is_missing_is_said(admin, monkeypatch):
    monkeypatch.delenv("HOLDFAST_TOKEN")
    status, _, err = admin("people")
    assert status == 2
    assert "HOLDFAST_TOKEN" in err
    assert admin("people", "--token", "hf_wrong")[0] == 2
    assert admin("people", "--token", "hf_wrong", "--service", "ftp://x")[0] == 2
