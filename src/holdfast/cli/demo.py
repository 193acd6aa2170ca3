"""``holdfast demo``: a search for signal in noise, with and without a guard, in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli._output import print_data

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.demo import Stones, Story


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("holdfast-demo"),
    show_default=True,
    help="The folder to write.",
)
@click.option("--rows", type=int, default=8_000, show_default=True, help="Diamonds to draw.")
@click.option("--columns", type=int, default=250, show_default=True, help="Coin flips to search.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed is another day.")
@click.option("--json", "as_json", is_flag=True, help="Print data instead of the story.")
@click.option("--open/--no-open", "open_page", default=False, help="Show the page in a browser.")
def demo(out: Path, rows: int, columns: int, seed: int, as_json: bool, open_page: bool) -> None:
    """Look for signal in noise, on real diamonds: plain averages find some, Holdfast does not.

    Writes a picture, a page and the stones into a folder.
    """
    from rich.console import Console

    from holdfast.demo import Stones

    console = Console(highlight=False, quiet=as_json)
    stones = Stones.draw(rows, columns, seed)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"Cannot write to {out}: {error.strerror}.") from None
    story = _tell(stones, seed, console)
    page = _write(out, stones, story, console)
    if as_json:
        print_data({**story.to_dict(), "page": str(page)})
    else:
        from holdfast.cli._demo_words import show

        show(console, story, page)
    if open_page:
        click.launch(page.resolve().as_uri())


def _tell(stones: Stones, seed: int, console: Console) -> Story:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from holdfast.demo import tell

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("questions asked", total=None)
        return tell(
            stones, seed=seed, progress=lambda done, total: bars.update(task, completed=done, total=total)
        )


def _write(out: Path, stones: Stones, story: Story, console: Console) -> Path:
    """The page, the picture and the stones; without matplotlib the page goes without its picture."""
    from holdfast.cli._demo_page import page
    from holdfast.cli._demo_picture import Pictures
    from holdfast.errors import MissingExtra

    pictures: Pictures | None = None
    try:
        pictures = Pictures.of(story)
        (out / "demo.png").write_bytes(pictures.light)
    except MissingExtra as missing:
        console.print(str(missing), style="yellow", markup=False)
    stones.plain().to_csv(out / "stones.csv", index=False)
    target = out / "index.html"
    target.write_text(page(story, pictures), encoding="utf-8")
    return target
