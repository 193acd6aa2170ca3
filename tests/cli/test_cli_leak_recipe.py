"""``holdfast leak --recipe``: what the score of a short recipe is worth on a test set that was used up."""

from __future__ import annotations

import json

import pytest

from holdfast.cli import cli
from holdfast.planning import COMPRESSORS, recipe


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "winner.txt"
    path.write_text("C = 0.1; degree = 2; seed = 7\n", encoding="utf-8")
    return path


def words(text):
    return " ".join(text.split())


def test_a_short_recipe(holdfast, file):
    status, out, err = holdfast("leak", "--recipe", str(file), "--rows", "10000", "--score", "0.95")
    assert (status, err) == (0, "")
    leak = recipe(file, rows=10_000, score=0.95)
    text = words(out)
    assert f"{leak.file_bytes} bytes" in text
    assert f"a recipe of {leak.nats:,.1f} nats" in text
    assert "How short a recipe must be" in text
    for limit in leak.limits:
        assert f"±{limit.half_width:g} at most {limit.length} bytes after compression" in text
    assert f"above 0.5 at most {leak.nothing.length} bytes" in text
    assert "This says nothing" not in text
    for sentence in leak.assumptions:
        assert sentence in text


def test_a_long_recipe_proves_nothing(holdfast, tmp_path, rng):
    path = tmp_path / "weights.bin"
    path.write_bytes(rng.bytes(5000))
    status, out, _ = holdfast("leak", "--recipe", str(path), "--rows", "10000", "--score", "0.95")
    assert status == 0
    assert "This says nothing: the interval contains 0.5" in words(out)


def test_a_choice_among_configurations(holdfast):
    status, out, _ = holdfast("leak", "--choices", "300", "--rows", "10000", "--score", "0.95")
    assert status == 0
    assert "A choice among 300 configurations is a recipe of 5.7 nats." in words(out)
    assert "shorten the file" not in out


def test_json_is_the_record(holdfast, file):
    given = ("--rows", "1234", "--score", "0.9498", "--digits", "4", "--confidence", "0.9")
    more = ("--baseline", "0.8", "--compressor", "deflate", "--json")
    status, out, _ = holdfast("leak", "--recipe", str(file), *given, *more)
    assert status == 0
    leak = recipe(file, rows=1234, score=0.9498, digits=4, confidence=0.9, baseline=0.8, compressor="deflate")
    expected = {**leak.to_dict(), "half_width": leak.half_width, "vacuous": leak.vacuous}
    assert json.loads(out) == json.loads(json.dumps(expected))


def test_fractions(holdfast, file):
    arguments = (
        "leak",
        "--recipe",
        str(file),
        "--rows",
        "1000",
        "--score",
        "0.70004",
        "--fractions",
        "--json",
    )
    status, out, _ = holdfast(*arguments)
    assert status == 0
    assert json.loads(out)["low"] == recipe(file, rows=1000, score=0.70004, binary=False).low


def test_the_compressors_are_those_of_the_library():
    (option,) = (option for option in cli.commands["leak"].params if option.name == "compressor")
    assert tuple(option.type.choices) == COMPRESSORS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--score", "0.9"], "--score needs --recipe"),
        (["--fractions"], "--fractions needs --recipe"),
        ([], "Missing option '--queries'"),
        (["--queries", "3"], "Missing option '--digits'"),
        (["--recipe", "FILE"], "Missing option '--score'"),
        (["--recipe", "FILE", "--queries", "3", "--score", "1"], "Leave it out"),
        (["--recipe", "FILE", "--choices", "3", "--score", "1"], "contradict"),
        (["--choices", "3", "--compressor", "lzma", "--score", "1"], "--compressor needs --recipe"),
        (["--choices", "0", "--score", "1"], "The --choices option must be"),
        (["--recipe", "FILE", "--score", "0.955"], "95/100"),
        (["--recipe", "FILE", "--score", "2"], "The --score option must be"),
        (["--recipe", "nowhere.txt", "--score", "1"], "Cannot use nowhere.txt"),
    ],
)
def test_bad_input_leaves_with_status_two(holdfast, file, arguments, message):
    given = [str(file) if argument == "FILE" else argument for argument in arguments]
    status, out, err = holdfast("leak", "--rows", "100", *given)
    assert (status, out) == (2, "")
    assert message in words(err)
