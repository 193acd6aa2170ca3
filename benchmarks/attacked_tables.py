"""Tables of the attacks: which method withstood which attack, and real beside certified errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

Line = dict[str, Any]


def table(head: list[str], lines: Iterable[list[str]]) -> list[str]:
    """A table as a page has it."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines)]


def tables(real: dict[str, Any]) -> list[str]:
    """The part of the page about attacks."""
    parts = ["## Under attack", "", _ABOUT, ""]
    parts += [f"- *{attack['name']}*: {attack['about']}" for attack in real["attacks"]]
    parts += ["", *_against(real), "", *_reasons(real), ""]
    independent = [line for line in real["points"] if line["attack"] != "chain"]
    for rows in sorted({line["rows"] for line in independent}):
        parts += [f"### {rows:,} rows", "", *_real(real, [p for p in independent if p["rows"] == rows]), ""]
    parts += ["### A chain", "", _CHAIN, "", *_chains(real), ""]
    parts += ["### What was revealed", "", _TOLD, "", *_told(real), ""]
    parts += ["### Left out", "", *_left_out(real), ""]
    return parts


def worst(lines: Iterable[Line]) -> Line | None:
    """The line with the largest mean real error; None if nothing was run."""
    run = [line for line in lines if line["runs"]]
    return max(run, key=lambda line: line["mean real error"]) if run else None


def _against(real: dict[str, Any]) -> list[str]:
    """Methods against attacks: in how many of all runs a certificate was exceeded."""
    reasons = _numbered(real)
    lines_by_method: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in real["points"]:
        lines_by_method[line["method"], line["attack"]].append(line)
    lines = []
    for method in real["methods"]:
        cells = [_named(method)]
        for attack in real["attacks"]:
            if method["name"] in attack["not against"]:
                cells.append(f"({reasons[attack['not against'][method['name']]]})")
            else:
                cells.append(_total(lines_by_method[method["name"], attack["name"]]))
        lines.append(cells)
    return table(["beyond its certificate, runs", *(attack["name"] for attack in real["attacks"])], lines)


def _named(method: dict[str, Any]) -> str:
    name = f"**{method['name']}**" if method["ours"] else method["name"]
    return f"{name} (not valid: {method['invalid']})" if method["invalid"] else name


def _total(lines: list[Line]) -> str:
    runs = sum(line["runs"] for line in lines)
    if not runs:
        return "certifies nothing"
    if not any("beyond" in line for line in lines):
        return f"{runs:,} runs, no certificate"
    total = f"{sum(line.get('beyond', 0) for line in lines):,} of {runs:,}"
    return total if all(line["valid"] for line in lines) else f"*{total}*"


def _numbered(real: dict[str, Any]) -> dict[str, int]:
    reasons = [reason for attack in real["attacks"] for reason in attack["not against"].values()]
    return {reason: number for number, reason in enumerate(dict.fromkeys(reasons), start=1)}


def _reasons(real: dict[str, Any]) -> list[str]:
    numbered = "; ".join(f"({number}) {reason}" for reason, number in _numbered(real).items())
    return [f"Not tried: {numbered}. In *italics*: no promise holds there."]


def _real(real: dict[str, Any], lines: list[Line]) -> list[str]:
    """Methods against numbers of questions: certified / real under the worst attack."""
    asked = sorted({line["queries"] for line in lines})
    body = []
    for method in real["methods"]:
        mine = [line for line in lines if line["method"] == method["name"]]
        cells = [_cell([line for line in mine if line["queries"] == queries]) for queries in asked]
        if any(cell != "–" for cell in cells):
            body.append([f"**{method['name']}**" if method["ours"] else method["name"], *cells])
    return table(["certified / real", *(f"k = {queries:,}" for queries in asked)], body)


def _cell(lines: list[Line]) -> str:
    hardest = worst(lines)
    if hardest is None:
        return "–"
    widest = [line["certified"] for line in lines if line["runs"] and line["certified"] is not None]
    certified = f"{max(widest):.4f}" if widest else "none"
    beyond = sum(line.get("beyond", 0) for line in lines)
    runs = sum(line["runs"] for line in lines if "beyond" in line)
    counted = f"<br>{beyond:,} of {runs:,} beyond" if runs else ""
    return f"{certified} / {hardest['mean real error']:.4f}<br>{hardest['attack']}{counted}"


def _chains(real: dict[str, Any]) -> list[str]:
    lines = [line for line in real["points"] if line["attack"] == "chain"]
    body = []
    for method in real["methods"]:
        mine = [line for line in lines if line["method"] == method["name"] and line["runs"]]
        if not mine:
            continue
        for line in mine[-1:]:
            name = f"**{method['name']}**" if method["ours"] else method["name"]
            broken = [beyond for beyond in mine if beyond.get("beyond, at least", 0.0) > real["beta"]]
            body.append(
                [
                    name,
                    "yes" if line["valid"] else "no",
                    f"{len(broken)} of {len(mine)}" if "beyond" in line else "no certificate",
                    f"n = {line['rows']:,}, k = {line['queries']:,}",
                    "none" if line["certified"] is None else f"{line['certified']:.4f}",
                    f"{line['mean real error']:.4f}",
                ]
            )
    return table(["method", "valid", "places seen beyond 5 %", "for example at", "certified", "real"], body)


def _told(real: dict[str, Any]) -> list[str]:
    """Differencing and fingerprints: what else than a wrong share came out."""
    places = {"differencing": (10**3, 10**2), "fingerprint": (10**3, 10**4)}
    revealed = {
        (line["attack"], line["method"]): line["told"]
        for line in real["points"]
        if line["runs"] and places.get(line["attack"]) == (line["rows"], line["queries"])
    }
    body = []
    for method in real["methods"]:
        shares = [revealed.get((attack, method["name"])) for attack in places]
        if any(share is not None for share in shares):
            name = f"**{method['name']}**" if method["ours"] else method["name"]
            body.append([name, *("–" if share is None else f"{abs(share):.2f}" for share in shares)])
    head = [f"{attack}, n = {n:,}, k = {k:,}" for attack, (n, k) in places.items()]
    return table(["method", *head], body)


def _left_out(real: dict[str, Any]) -> list[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for line in real["left out"]:
        places[line["attack"]].append(f"n = {line['rows']:,}, k = {line['queries']:,}")
    items = [f"- *{attack}*: {'; '.join(at)}" for attack, at in places.items()]
    return [_LEFT_OUT, "", *items] if items else ["Nothing."]


_ABOUT = """Every method that certifies something at a place meets every attack that can be asked of it, on
the same rows. `real` is the distance of a run's worst answer from the truth, in the mean over runs, under the
attack for which it is largest; `certified` is what was promised for all answers. The code guard (**code**)
and our **board** give every answer an interval of its own: they are beyond if one of them misses, and
`certified` is the widest. Guesses come from half of the rows unless the attacker brings them. At k = 1 there
is nothing to attack: one question cannot be chosen after another."""

_CHAIN = """All promises but those for dependent rows are void on a chain, and the attack shows it. A place
counts as seen beyond 5 % if the lower 95 % limit of the probability is above it."""

_TOLD = """Differencing: the share of secrets guessed right, where luck has half. Fingerprint: how much
likelier a row that was asked about is called a member than a fresh one, 0 for luck. Validity does not promise
secrecy; noise brings some."""

_LEFT_OUT = """Places at which a run takes more entries than the given work (10⁹ by default), and places that
an interrupted run did not reach. The code guard and the board answer one question at a time, with the
account of the product. They are asked 100,000 questions at a place (200,000 by the sign attack, 25,000 by
differencing and on a chain). A place is left out if that is fewer than twenty runs."""
