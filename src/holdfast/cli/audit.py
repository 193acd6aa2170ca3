"""``holdfast audit``: what an audit found, for a terminal, a machine or a reviewer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli._output import print_data

if TYPE_CHECKING:
    from holdfast.audit import Report

_STYLES = {"refuted": "red", "confirmed": "green", "not refuted": "green", "measured": ""}


@click.command()
@click.argument("report", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--html", "as_page", is_flag=True, help="Write one page for a reviewer, beside the report.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the page, with --html."
)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of a table.")
def audit(report: Path, as_page: bool, out: Path | None, as_json: bool) -> None:
    """Show a report that holdfast.audit.Report(...).save("report.json") wrote.

    Exit status 1 if a claim is refuted.
    """
    from holdfast.audit import Report

    if out is not None and not as_page:
        raise click.UsageError("--out says where the page goes: give --html too.")
    found = Report.load(report)
    page = _write(found, out or report.with_suffix(".html")) if as_page else None
    if as_json:
        written = {} if page is None else {"page": str(page)}
        print_data({**found.to_dict(), **written})
    else:
        _show(found, page)
    if not found.passed:
        sys.exit(1)


def _write(found: Report, target: Path) -> Path:
    from holdfast.cli._audit_page import page

    try:
        target.write_text(page(found), encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"Cannot write {target}: {error.strerror}.") from None
    return target


def _show(found: Report, page: Path | None) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from holdfast.cli._audit_page import limits_words, verdict_words

    console = Console(highlight=False)
    console.print(found.title, style="bold", markup=False)
    table = Table("audit", "of", "found", "claimed", "verdict", box=None, pad_edge=False)
    for finding in found.findings:
        table.add_row(
            finding.kind,
            escape(finding.subject),
            escape(f"{finding.quantity} {limits_words(finding)}"),
            "" if finding.claim is None else f"≤ {finding.claim:.4g}",
            finding.verdict,
            style=_STYLES[finding.verdict],
        )
    console.print(table)
    console.print(verdict_words(found), style="bold", markup=False)
    if page is not None:
        console.print(f"The page is {page}.", markup=False, soft_wrap=True)
