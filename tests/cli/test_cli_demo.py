"""``holdfast demo``: the story is true, the same for the same seed, and its page needs nothing else."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from holdfast.audit.attacks import sign_attack
from holdfast.guard import Guard
from holdfast.lab import TRUTH, Stones, tell

NAMESPACE = "http://www.w3.org/2000/svg"
SMALL = ["--rows", "1200", "--columns", "40"]
TINY = ["--rows", "300", "--columns", "8"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.mark.parametrize("day", [0, *(pytest.param(day, marks=pytest.mark.slow) for day in (1, 2))])
def test_averages_miss_and_the_guard_holds(seed, day):
    story = tell(Stones.draw(4_000, 101, 100 * day + seed), seed=seed)
    assert not story.naive.holds
    assert story.naive.low > TRUTH
    assert story.held
    assert all(answer.low <= TRUTH <= answer.high for answer in story.guarded_shares)


@pytest.mark.slow
@pytest.mark.parametrize("day", range(10))
def test_averages_miss_and_the_guard_holds_as_shipped(seed, day):
    story = tell(Stones.draw(8_000, 250, 100 * day + seed), seed=seed)
    # The excess is 0.32 √(250/8000) = 0.057 on average, ten standard deviations of the share.
    assert story.naive.low > TRUTH + 0.02
    assert story.naive.value - TRUTH > 6 * 0.5 / np.sqrt(8_000)
    assert story.held
    assert all(answer.low <= TRUTH <= answer.high for answer in story.guarded_shares)


def test_the_naive_analyst_asks_what_the_attack_asks(seed):
    stones = Stones.draw(600, 20, seed)
    story = tell(stones, seed=seed)
    shares, final = story.plain_shares, story.naive
    attack = sign_attack(Guard(stones.table, training_share=0), columns=stones.coins, target="expensive")
    table = stones.table
    assert [share.value for share in shares] == [
        (table[name] == table["expensive"]).mean() for name in stones.coins
    ]
    # The signs of the attack are the naive ones (its guesses lie on the edge), so the final rule is the same.
    signs = [1 if share.value >= 0.5 else -1 for share in shares]
    if list(attack.signs) == signs:
        assert attack.final.low <= final.value <= attack.final.high
    votes = sum(
        (2 * table[name].astype(int) - 1) * sign for name, sign in zip(stones.coins, signs, strict=True)
    )
    votes += (2 * table[stones.coins[0]].astype(int) - 1) * signs[0]
    assert final.value == ((votes > 0) == (table["expensive"] == 1)).mean()
    assert final.low < final.value < final.high


def test_one_holdout_turns_the_coins_on_other_rows_than_it_judges_them_on(seed):
    stones = Stones.draw(900, 21, seed)
    # The rows that a guard sets aside for training.
    explored = [int(place) for place in Guard({"place": range(900)}, split_seed=seed).train["place"]]
    assert len(explored) == 300
    rest = stones.table.drop(index=explored)
    turned = [
        stones.table.loc[explored, name].eq(stones.table.loc[explored, "expensive"]).mean() >= 0.5
        for name in stones.coins
    ]
    votes = sum((rest[name] == 1) == turn for name, turn in zip(stones.coins, turned, strict=True))
    story = tell(stones, seed=seed)
    assert story.holdout.value == ((votes > 10) == (rest["expensive"] == 1)).mean()
    assert story.holdout.low < story.holdout.value < story.holdout.high
    assert story.holdout.high - story.holdout.low < story.guard.high - story.guard.low
    assert story.claims[1] == story.holdout


def test_the_coins_are_fair_and_the_stones_are_drawn_from_the_population(seed):
    stones = Stones.draw(5_000, 30, seed)
    flips = stones.table[list(stones.coins)].to_numpy()
    assert set(np.unique(flips)) == {0, 1}
    assert abs(flips.mean() - 0.5) < 5 * 0.5 / np.sqrt(flips.size)
    assert list(stones.plain().columns) == list(stones.population.columns)
    assert stones.plain().merge(stones.population.drop_duplicates()).shape == stones.plain().shape
    again = Stones.draw(5_000, 30, seed)
    assert again.table.equals(stones.table)
    assert not Stones.draw(5_000, 30, seed + 1).table.equals(stones.table)


def test_progress_is_real_and_reaches_its_end(seed):
    seen = []
    story = tell(
        Stones.draw(600, 15, seed), seed=seed, progress=lambda done, total: seen.append((done, total))
    )
    total = len(story.told) + 2 * 16
    assert seen == [(i, total) for i in range(1, total + 1)]


class Reader(HTMLParser):
    """Collects what a page refers to, and checks that tags are closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.sources, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "srcset", "href")]
        if tag not in ("meta", "img", "source", "line", "rect", "circle", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_data(self, data):
        self.text.append(data)


def read(written):
    reader = Reader()
    reader.feed(written)
    assert reader.open == []
    return reader, " ".join(" ".join(reader.text).split())


def test_the_demo_writes_a_page_that_needs_nothing_else(holdfast, elsewhere):
    status, out, _ = holdfast("demo", *SMALL)
    assert status == 0
    folder = elsewhere / "holdfast-demo"
    assert sorted(path.name for path in folder.iterdir()) == ["demo.svg", "index.html", "stones.csv"]
    written = (folder / "index.html").read_text(encoding="utf-8")
    reader, text = read(written)
    assert reader.sources == []
    assert written.count("<svg") == written.count('<svg class="bar"') + 2  # a wide and a narrow picture
    for needed in ("prefers-color-scheme: dark", "width=device-width", "<style>"):
        assert needed in written
    for outside in ("http://", "https://", "@import", "<script", "url("):
        assert outside not in written.replace(NAMESPACE, "")
    assert "$" not in text.replace("$10,000", "")
    for said in (
        "With probability 0.95 every interval",
        "Assumed, and not checkable",
        "holdfast ask stones.csv",
        "nats",
    ):
        assert said in text
    assert "One holdout, used once" in out
    assert "says nothing about single coins" in text
    assert "MISSES" in out
    assert out.count("holds") >= 2
    assert "holdfast-demo/index.html" in out
    status, out, _ = holdfast("ask", "holdfast-demo/stones.csv", "-q", "share(cut = 'Ideal')")
    assert status == 0


def test_the_story_fits_every_terminal(holdfast, monkeypatch):
    for width in (100, 80, 60, 40):
        monkeypatch.setenv("COLUMNS", str(width))
        status, out, _ = holdfast("demo", *TINY)
        assert status == 0
        assert max(map(len, out.splitlines())) <= width
        assert "…" not in out
        assert ("●" in out) == (width >= 70)  # drawn only where there is room for it
        assert out.count("holds") >= 2


def test_json_is_one_document_and_the_same_for_the_same_seed(holdfast, elsewhere):
    status, first, _ = holdfast("demo", "--json", "--seed", "3", "--out", "a", *TINY)
    second = holdfast("demo", "--json", "--seed", "3", "--out", "b", *TINY)[1]
    other = holdfast("demo", "--json", "--seed", "4", "--out", "c", *TINY)[1]
    story = json.loads(first)
    assert status == 0
    assert story["page"] == "a/index.html"
    assert story["naive"]["holds"] == (story["naive"]["low"] <= 0.5 <= story["naive"]["high"])
    assert story["guard"]["holds"]
    assert story["attacked"]["holds"]
    assert [told["holds"] for told in story["told"]] == [True] * len(story["told"])
    assert story["certificate"]["numbers"]["questions"] == len(story["told"]) + 9
    assert {**json.loads(second), "page": ""} == {**story, "page": ""}
    assert json.loads(other)["naive"] != story["naive"]
    for name in ("index.html", "demo.svg", "stones.csv"):
        assert (elsewhere / "a" / name).read_bytes() == (elsewhere / "b" / name).read_bytes()


def test_the_picture_needs_no_other_package_and_shows_what_was_measured(holdfast, elsewhere, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, _ = holdfast("demo", "--json", *SMALL)
    assert status == 0
    story = json.loads(out)
    svg = ElementTree.parse(elsewhere / "holdfast-demo" / "demo.svg").getroot()
    assert svg.tag == f"{{{NAMESPACE}}}svg"
    words = [text.text for text in svg.iter(f"{{{NAMESPACE}}}text")]
    for who in ("naive", "holdout", "guard", "attacked"):
        verdict = "holds" if story[who]["holds"] else "misses"
        assert f"{story[who]['value']:.1%}, {verdict}" in words
        assert f"{story[who]['low']:.1%} to {story[who]['high']:.1%}, {verdict}" in svg.get("aria-label")
    drawn = {kind: svg.findall(f".//{{{NAMESPACE}}}g/*[@class='{kind}']") for kind in ("plain", "misses")}
    assert len(drawn["plain"]) + len(drawn["misses"]) == 40
    assert f"plain, misses the truth ({len(drawn['misses'])} “discoveries”)" in words


@pytest.fixture
def page_of(holdfast, elsewhere, monkeypatch):
    """The page that the demo writes when this is the story."""

    def page_of(story):
        with monkeypatch.context() as today:
            today.setattr("holdfast.lab.tell", lambda *arguments, **options: story)
            assert holdfast("demo", "--json", *TINY)[0] == 0
        return (elsewhere / "holdfast-demo" / "index.html").read_text(encoding="utf-8")

    return page_of


@pytest.mark.parametrize(
    ("low", "high", "wide", "narrow"),
    [
        (0.37, 0.78, [40, 45, 50, 55, 60, 65, 70, 75], [40, 50, 60, 70]),
        (0.395, 0.605, [40, 45, 50, 55, 60], [40, 45, 50, 55, 60]),
        (0.0, 1.0, [0, 20, 40, 60, 80, 100], [0, 50, 100]),
    ],
)
def test_a_scale_has_round_ticks_and_puts_shares_in_their_place(page_of, low, high, wide, narrow):
    # Beside the intervals there is room at both ends, 4 % of their length.
    length = (high - low) / 1.08
    ends = {"low": low + 0.04 * length, "high": low + 1.04 * length}
    story = tell(Stones.draw(300, 8, 0))
    claims = {name: getattr(story, name) for name in ("naive", "holdout", "guard", "attacked")}
    written = page_of(replace(story, **{name: replace(claim, **ends) for name, claim in claims.items()}))
    for kind, ticks in (("wide", wide), ("narrow", narrow)):
        drawn = re.search(rf'<svg [^>]*class="picture {kind}".*?</svg>', written, flags=re.S)[0]
        svg = ElementTree.fromstring(drawn)
        rule = svg.find(f"./{{{NAMESPACE}}}line[@class='rule']")
        left, right = float(rule.get("x1")), float(rule.get("x2"))

        def place(share, left=left, right=right):
            return pytest.approx(left + (right - left) * (share - low) / (high - low), abs=0.06)

        shares = [
            (int(text.text[:-1]), float(text.get("x")))
            for text in svg.iter(f"{{{NAMESPACE}}}text")
            if re.fullmatch(r"\d+%", text.text) and text.get("text-anchor") == "middle"
        ]
        assert [share for share, _ in shares] == ticks
        assert [x for _, x in shares] == [place(share / 100) for share in ticks]
        reports = [line for line in svg.iter(f"{{{NAMESPACE}}}line") if "report" in line.get("class")]
        assert len(reports) == 4
        for report in reports:
            assert float(report.get("x1")) == place(ends["low"])
            assert float(report.get("x2")) == place(ends["high"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rows", "10"], "rows"),
        (["--columns", "0"], "columns"),
        (["--columns", "5000"], "columns"),
        (["--seed", "-1"], "seed"),
        (["--out", "taken/inside"], "Cannot write to taken/inside"),
    ],
)
def test_bad_input_leaves_with_status_two(holdfast, elsewhere, arguments, says):
    (elsewhere / "taken").write_text("a file")
    status, _, err = holdfast("demo", *arguments)
    assert status == 2
    assert says in " ".join(err.split())


def test_the_page_can_be_opened(holdfast, elsewhere, monkeypatch):
    opened = []
    monkeypatch.setattr("click.launch", lambda address: opened.append(address))
    assert holdfast("demo", "--json", *TINY)[0] == 0
    assert opened == []
    assert holdfast("demo", "--open", "--json", *TINY)[0] == 0
    assert opened == [(elsewhere / "holdfast-demo" / "index.html").as_uri()]


def test_the_moral_is_what_happened(page_of, seed):
    story = tell(Stones.draw(2_000, 101, seed), seed=seed)
    assert re.fullmatch(r"1 in (10\^\d+|[\d,]+)", story.luck)
    assert story.luck in story.moral[0]
    assert story.moral[1].endswith("its intervals held.")
    lucky = replace(story, naive=replace(story.naive, low=0.4))
    unlucky = replace(story, guard=replace(story.guard, low=0.51), holdout=replace(story.holdout, low=0.51))
    assert "missed this time" in unlucky.moral[2]
    assert ("missed this time" in story.moral[2]) == (not story.holdout.holds)
    assert "right this time" in lucky.moral[0]
    assert "missed" in unlucky.moral[1]
    assert "their interval contains the truth" in page_of(lucky)
    assert "contain the truth" in page_of(story)
    assert "one interval missed" in page_of(unlucky)
