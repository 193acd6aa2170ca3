"""``holdfast audit``: the result of an audit, as text, as JSON, or as a page for a reviewer."""

from __future__ import annotations

import html
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._output import filled, json_option, print_data
from holdfast.records import show

if TYPE_CHECKING:
    from holdfast.audit import Finding, Report


# What each audit asks.
_ASKED = {
    "coverage": "How often does at least one interval miss its truth, with this analyst?",
    "indistinguishability": "How well can the outputs on two inputs be told apart, by the best event found?",
    "prior": "Do the prices of all outputs together stand for more than probability 1?",
    "replicability": "How often do two fresh samples, with the same shared coins, give different results?",
    "stability": "How often does the conclusion change when the rows are drawn again?",
}

# What each verdict lets a reader conclude.
_MEANING = {
    "refuted": "The lower limit is above the claim: the claim is false, unless the stated confidence failed.",
    "confirmed": "The upper limit is not above the claim: the claim survived these trials.",
    "not refuted": "The trials do not contradict the claim. They do not prove it either.",
    "measured": "Nothing was claimed; this is a measurement.",
}


def limits_words(finding: Finding) -> str:
    """The limits in words; one that has no upper end is a lower bound."""
    if math.isinf(finding.high):
        return f"≥ {finding.low:.4g}"
    return f"in [{finding.low:.4g}, {finding.high:.4g}]"


def report_words(report: Report) -> str:
    """The verdict on the whole report in a sentence."""
    claims = [finding for finding in report.findings if finding.claim is not None]
    refuted = sum(finding.refuted for finding in claims)
    sure = f"All limits hold together with confidence {report.confidence:.4g}."
    if not claims:
        return f"No claims were made. {sure}"
    if refuted:
        return f"{refuted} of {len(claims)} claims refuted. {sure}"
    return f"None of {len(claims)} claims refuted. {sure}"


def page(report: Report) -> str:
    """The report as a page."""
    return filled(
        "audit_page.html",
        title=html.escape(report.title),
        verdict=html.escape(report_words(report)),
        state="holds" if report.passed else "misses",
        refuted=_refuted(report),
        rows="\n".join(_row(finding, place) for place, finding in enumerate(report.findings, start=1)),
        sections="\n".join(
            _section(finding, place) for place, finding in enumerate(report.findings, start=1)
        ),
        version=html.escape(report.version),
    )


def _refuted(report: Report) -> str:
    """Links to the refuted claims."""
    links = [
        f'<a href="#finding-{place}">{html.escape(finding.subject)}</a>'
        for place, finding in enumerate(report.findings, start=1)
        if finding.refuted
    ]
    return f"<p>Refuted: {'; '.join(links)}.</p>\n" if links else ""


def _row(finding: Finding, place: int) -> str:
    claim = "–" if finding.claim is None else f"≤ {finding.claim:.4g}"
    return (
        f'<tr class="{_state(finding)}"><th scope="row">'
        f'<a href="#finding-{place}">{html.escape(finding.subject)}</a>'
        f"<small>{html.escape(finding.kind)}: {html.escape(finding.quantity)}, "
        f"{finding.trials:,} {'outputs' if finding.kind == 'prior' else 'trials'}</small></th>"
        f'<td data-label="found">{limits_words(finding)}{_bar(finding)}</td>'
        f'<td data-label="claimed">{claim}</td>'
        f'<td data-label="verdict"><b>{finding.verdict}</b></td></tr>'
    )


def _section(finding: Finding, place: int) -> str:
    assumed = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in finding.assumes)
    numbers = {
        "trials": f"{finding.trials:,}",
        "estimate": show(finding.estimate),
        "lower limit": show(finding.low),
        "upper limit": "none" if math.isinf(finding.high) else show(finding.high),
        "confidence": show(finding.confidence),
        "seed": str(finding.seed),
        **{name: _detail(value) for name, value in finding.details.items()},
    }
    listed = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in numbers.items()
    )
    return (
        f'<section id="finding-{place}" class="{_state(finding)}">'
        f"<h2>{place}. {html.escape(finding.subject)} <b>{finding.verdict}</b></h2>"
        f"<p>{_ASKED.get(finding.kind, '')} {html.escape(finding.statement)}</p>"
        f"<p>{_meaning(finding)}</p>"
        + (f"<p>Assumed, and not checkable by trials:</p><ul>{assumed}</ul>" if assumed else "")
        + f"<details><summary>Numbers</summary><dl>{listed}</dl></details></section>"
    )


def _meaning(finding: Finding) -> str:
    meaning = _MEANING[finding.verdict]
    # A sum is computed, not sampled: there is nothing that could have failed.
    return (
        meaning.replace(", unless the stated confidence failed", "") if finding.confidence == 1 else meaning
    )


def _state(finding: Finding) -> str:
    """The style of a verdict; an open one is neither good nor bad."""
    return {"refuted": "misses", "confirmed": "holds"}.get(finding.verdict, "open")


def _detail(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_detail(inside)}" for name, inside in value.items())
    return value if isinstance(value, str) else show(value)


def _bar(finding: Finding) -> str:
    """The limits as a small drawing; the tick is the claim."""
    ends = [finding.low, finding.high if math.isfinite(finding.high) else finding.low]
    span = 1.15 * max([*ends, finding.claim or 0.0, 1e-12])
    start, end = (200 * place / span for place in ends)
    to = 200.0 if math.isinf(finding.high) else end
    tick = "" if finding.claim is None else _tick(200 * finding.claim / span)
    kind = ' class="endless"' if math.isinf(finding.high) else ""
    return (
        '<svg class="bar" viewBox="0 0 200 14" preserveAspectRatio="xMinYMid" aria-hidden="true">'
        '<line class="axis" x1="0" x2="200" y1="7" y2="7"/>'
        f'<rect{kind} x="{start:.1f}" y="4.5" width="{max(1.5, to - start):.1f}" height="5" rx="2.5"/>'
        f"{tick}</svg>"
    )


def _tick(place: float) -> str:
    return f'<line class="truth" x1="{place:.1f}" x2="{place:.1f}" y1="0" y2="14"/>'


_STYLES = {"refuted": "red", "confirmed": "green", "not refuted": "green", "measured": ""}


@click.command()
@click.argument("report", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--html", "as_page", is_flag=True, help="Also write a page for a reviewer, beside the report.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the page, with --html."
)
@json_option
def audit(report: Path, as_page: bool, out: Path | None, as_json: bool) -> None:
    """Show the report of an audit.

    REPORT is a file that holdfast.audit.Report(...).save("report.json") wrote. Exit status 1 if a claim is
    refuted.
    """
    from holdfast.audit import Report

    if out is not None and not as_page:
        raise click.UsageError("--out is the file of the page: give --html too.")
    loaded = Report.load(report)
    page_file = _write_page(loaded, out or report.with_suffix(".html")) if as_page else None
    if as_json:
        about_page = {} if page_file is None else {"page": str(page_file)}
        print_data({**loaded.to_dict(), **about_page})
    else:
        _show(loaded, page_file)
    if not loaded.passed:
        sys.exit(1)


def _write_page(result: Report, target: Path) -> Path:
    try:
        target.write_text(page(result), encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"Cannot write {target}: {error.strerror}.") from None
    return target


def _show(result: Report, page_file: Path | None) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    console.print(result.title, style="bold", markup=False)
    table = Table("audit", "of", "found", "claimed", "verdict", box=None, pad_edge=False)
    for finding in result.findings:
        table.add_row(
            finding.kind,
            escape(finding.subject),
            escape(f"{finding.quantity} {limits_words(finding)}"),
            "" if finding.claim is None else f"≤ {finding.claim:.4g}",
            finding.verdict,
            style=_STYLES[finding.verdict],
        )
    console.print(table)
    console.print(report_words(result), style="bold", markup=False)
    if page_file is not None:
        console.print(f"The page is {page_file}.", markup=False, soft_wrap=True)
