"""The whole comparison in one run: numbers, a page of tables, pictures. `holdfast bench` calls it.

python benchmarks/report.py     # the page and the pictures again, from the numbers in docs/benchmarks
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
from attacked import attacked
from attacked_picture import draw as draw_attacked
from attacked_tables import table as _table
from attacked_tables import tables as attack_tables
from certified import FLIP, NOTHING, PROMISES, QUERIES, ROWS, TARGET, certified
from certified_picture import draw
from peers import PEERS

Progress = Callable[[str, int, int], None]


def run(output: Path, work: float, workers: int, progress: Progress) -> dict[str, Any]:
    """Compute everything, write it to ``output`` and return what a terminal shows.

    Attacks that finished before an interruption are kept in ``output`` and not run again.
    """
    grid = _kept(output, "certified", certified(lambda *done: progress("certified errors", *done)))
    files, real = ["certified.json", *draw(grid, output)], None
    if work:
        resume = output / "attacked.partial.jsonl"
        results = attacked(work, lambda *done: progress("attacks", *done), workers=workers, resume=resume)
        real = _kept(output, "attacked", results)
        resume.unlink(missing_ok=True)
        files += ["attacked.json", *draw_attacked(real, output)]
    (output / "README.md").write_text(page(grid, real), encoding="utf-8")
    return {"summary": summary(grid), "findings": findings(grid, real), "files": [*files, "README.md"]}


def remake(folder: Path) -> None:
    """Page and pictures from the numbers that are kept in a folder."""
    grid, real = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("certified", "attacked")
    )
    draw(grid, folder)
    draw_attacked(real, folder)
    (folder / "README.md").write_text(page(grid, real), encoding="utf-8")


def _kept(output: Path, name: str, result: dict[str, Any]) -> dict[str, Any]:
    """Write a result and return what was written, so that page and pictures can be made of the file alone."""
    short = _short({"machine": machine.describe(), **result})
    text = json.dumps(short, indent=1, ensure_ascii=False, allow_nan=False)
    (output / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return short


def _short(value: Any) -> Any:
    """Numbers to eight figures: enough to compare, few enough to read."""
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def summary(grid: dict[str, Any]) -> dict[str, dict[int, dict[int, str]]]:
    """For each promise a table of rows against questions: ours, the best peer's, their ratio."""
    tables: dict[str, dict[int, dict[int, str]]] = {promise: {n: {} for n in ROWS} for promise in PROMISES}
    for point in grid["points"]:
        tables[point["promise"]][point["rows"]][point["queries"]] = _cell(point)
    return tables


def _cell(point: dict[str, Any]) -> str:
    if min(point["error"], point["peer error"]) >= NOTHING:
        return "–"
    mark = "" if point["at most the peer"] else " !"
    return f"{_number(point['error'])} / {_number(point['peer error'])} ({point['ratio']:.2f}){mark}"


def _number(error: float) -> str:
    return "½" if error >= NOTHING else f"{error:.4f}".lstrip("0")


def findings(grid: dict[str, Any], real: dict[str, Any] | None) -> list[str]:
    """What the numbers say, in sentences; what is against us too."""
    points, behind = grid["points"], grid["behind a peer"]
    sentences = [
        f"At {len(points) - len(behind)} of {len(points)} places our best error is at most the best peer's."
    ]
    if behind:
        rivals = sorted({place["best peer"] for place in behind})
        sentences.append(f"At {len(behind)} a peer is ahead (marked !): {', '.join(rivals)}.")
    if real is None:
        return [*sentences, "Attacks were left out."]
    totals = real["summary"]
    exceeded = sorted({line["method"] for line in real["valid methods beyond their certificate"]})
    who = ", ".join(exceeded) or "no valid method"
    sentences.append(
        f"{len(real['attacks'])} attacks, {totals['runs']:,} runs: {who} was seen beyond its certificate in "
        "more than 5 % of runs anywhere (the lower 95 % limit of the probability is above 5 %)."
    )
    sentences.append(
        f"In {totals['of these shown to hold']:,} of {totals['cases of valid methods']:,} cases of a valid "
        "method the runs put an upper 95 % limit of 5 % or less on it; the others have too few runs for that."
    )
    worst = totals["worst of naive reuse"]
    sentences.append(
        f"Naive reuse fails in {totals['of these broken']} of {totals['cases of naive reuse']} cases."
    )
    if worst is not None:
        sentences.append(
            f"With {worst['rows']:,} rows and {worst['queries']:,} questions it is off by "
            f"{worst['mean real error']:.2f} where {worst['certified']:.3f} was claimed ({worst['attack']})."
        )
    return sentences


def page(grid: dict[str, Any], real: dict[str, Any] | None) -> str:
    """The page of tables."""
    parts = [_HEAD, *(f"- {line}" for line in findings(grid, real)), ""]
    for promise in PROMISES:
        parts += [f"## Certified error: {promise}", "", *_grid_table(grid, promise), ""]
    parts += [f"## Rows needed for an error of {TARGET:g}", "", *_rows_table(grid), ""]
    parts += [f"## A chain that flips with probability {FLIP:g}", "", _CHAINS, "", *_chain_table(grid), ""]
    parts += ["## Honest sessions", "", _HONEST, "", *_honest_table(grid), ""]
    parts += ["## Every method", "", *_methods(grid, real), ""]
    if real is not None:
        parts += attack_tables(real)
    parts += ["## Peers", "", *_peers(), ""]
    return "\n".join(parts).rstrip() + "\n"


def _grid_table(grid: dict[str, Any], promise: str) -> list[str]:
    lines = []
    for rows in ROWS:
        cells = []
        for point in grid["points"]:
            if (point["promise"], point["rows"]) == (promise, rows):
                cells.append(_cell(point).replace(" !", " **!**") + _who(point))
        lines.append([f"{rows:,}", *cells])
    return _table(["rows", *(f"k = {queries:,}" for queries in QUERIES)], lines)


def _who(point: dict[str, Any]) -> str:
    if min(point["error"], point["peer error"]) >= NOTHING:
        return ""
    return f"<br>{point['best']} / {point['best peer']}<br>limit {_number(point['limit'])}"


def _rows_table(grid: dict[str, Any]) -> list[str]:
    lines = []
    for line in grid["rows needed"]:
        ours, theirs = line["ours"][line["best"]], line["peers"][line["best peer"]]
        ratio = "–" if line["ratio"] is None else f"{line['ratio']:.2f}"
        lines.append(
            [
                line["promise"],
                f"{line['queries']:,}",
                f"{ours:,} ({line['best']})",
                "–" if theirs is None else f"{theirs:,} ({line['best peer']})",
                ratio,
            ]
        )
    return _table(["promise", "questions", "ours", "best peer", "ratio"], lines)


def _chain_table(grid: dict[str, Any]) -> list[str]:
    lines = [
        [
            f"{line['rows']:,}",
            f"{line['queries']:,}",
            f"{_number(line['error'])} ({line['best']})",
            _number(line["Kontorovich et al."]),
            f"{line['ratio']:.2f}",
            "not valid",
        ]
        for line in grid["chains"]
    ]
    head = ["rows", "questions", "ours", "Kontorovich et al., best skip", "ratio", "every other peer"]
    return _table(head, lines)


def _honest_table(grid: dict[str, Any]) -> list[str]:
    names = ("code", "code, expect=k", "a fixed list on half", "split")
    lines = [
        [f"{line['rows']:,}", f"{line['queries']:,}", *(_number(line[name]) for name in names)]
        for line in grid["honest sessions"]
    ]
    return _table(["rows", "questions", *names], lines)


def _methods(grid: dict[str, Any], real: dict[str, Any] | None) -> list[str]:
    """Errors at ten surprises for a thousand questions, method by method, and the limits."""
    points = [p for p in grid["points"] if (p["promise"], p["queries"]) == ("ten surprises", 1000)]
    names = [("ours", name) for name in points[0]["ours"]] + [("peers", name) for name in points[0]["peers"]]
    lines = [
        [name if side == "peers" else f"**{name}**", *(_number(p[side][name]) for p in points)]
        for side, name in sorted(
            names, key=lambda side_and_name: points[-1][side_and_name[0]][side_and_name[1]]
        )
    ]
    lines.append(["*limit: questions fixed in advance*", *(_number(p["limit"]) for p in points)])
    if real is not None:
        floor = [_floor(real, p["rows"], p["queries"]) for p in points]
        lines.append(["*what the sign attack gains from exact answers*", *floor])
    return _table(["k = 1,000, ten surprises", *(f"{p['rows']:,} rows" for p in points)], lines)


def _floor(real: dict[str, Any], rows: int, queries: int) -> str:
    """No guard without noise that resolves as finely as the rows do can be nearer to the truth."""
    for line in real["points"]:
        if (line["attack"], line["method"], line["rows"], line["queries"]) == (
            "sign",
            "naive reuse",
            rows,
            queries,
        ):
            return _number(line["mean gain"])
    return "–"


def _peers() -> list[str]:
    lines = []
    for peer in PEERS:
        why = peer.invalid or peer.about or ("guesses from half of the rows" if peer.guesses else "")
        lines.append([peer.name, peer.source, "yes" if peer.comparable else "no", why])
    return _table(["peer", "source", "in the grid", "remark"], lines)


_HEAD = """# Benchmarks: certified and real error, beside every peer

Made by `holdfast bench --output docs/benchmarks`; the numbers are in [certified.json](certified.json) and
[attacked.json](attacked.json).
k adaptive questions, each the mean of values in [0, 1] over n independent rows; all k answers within the
error with probability .95. Each cell: ours / best valid peer (ratio), whose they are, and the bound
√(ln(2k/β)/2n) for questions fixed in advance. A promise names how many answers may differ from what the
training part suggests; methods that need guesses take them from half of the rows, ours and theirs alike. An
error of ½ promises nothing, as whoever always answers ½ keeps it: such cells show –.

<picture>
<source media="(prefers-color-scheme: dark)" srcset="certified-dark.png">
<img alt="Certified error against the number of questions" src="certified-light.png">
</picture>

Each method under attack, by itself. Blue is what it certifies. Orange is how far its worst answer really is
from the truth, under the attack that does the most harm. The dashed line is the bound for questions fixed in
advance, and the dotted line what the sign attack gains from exact answers. The first picture is over the
number of questions with 10,000 rows, the second over the number of rows with 100 questions.

<picture>
<source media="(prefers-color-scheme: dark)" srcset="attacked-dark.png">
<img alt="Certified and real error against the number of questions" src="attacked-light.png">
</picture>
<picture>
<source media="(prefers-color-scheme: dark)" srcset="attacked-rows-dark.png">
<img alt="Certified and real error against the number of rows" src="attacked-rows-light.png">
</picture>
"""

_HONEST = """The expected mean half-width of k means of values in [0, 1], by Hoeffding's radius. Guesses are
as good as those from a fresh sample. The code guard is shown without and with a hint of the number of
questions. Beside it are splitting, and a person who explores one half of the rows and asks the other half a
list that was fixed in advance. The list answers no question that an answer suggested."""
_CHAINS = """Ten surprises. The theorems of all peers in the grid are for independent rows and promise nothing
here. One published theorem speaks of chains (Kontorovich, Sadigurschi and Stemmer 2022); it is used on every
t-th row, with the best t and the exact dependence ψ that is left."""


if __name__ == "__main__":
    remake(Path(__file__).resolve().parents[1] / "docs" / "benchmarks")
