"""``holdfast replicate``: a result that another laboratory gets again with the same tape and its own rows."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._output import print_data
from holdfast.errors import QueryRejected

if TYPE_CHECKING:
    from holdfast.engines import Rows
    from holdfast.replicable import Result, Tape

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*\Z", re.DOTALL)
_COUNTED = re.compile(r"(.*?)(?:,\s*([0-9.eE+-]+)\s*)?\Z", re.DOTALL)
_FORMS = (
    "mean(expression), share(condition), median(expression), quantile(expression, q), "
    "heavy_hitters(column, threshold) or mode(column, threshold)"
)


@dataclass(frozen=True)
class _Terms:
    """What was said on the command line; None where nothing was said."""

    tape: Tape
    rho: float
    beta: float
    accuracy: float | None
    bounds: tuple[float, float] | None
    resolution: float | None
    best_effort: bool

    def promise(self) -> dict[str, Any]:
        return {"rho": self.rho, "beta": self.beta, "tape": self.tape, "best_effort": self.best_effort}


@click.command()
@click.argument("data")
@click.argument("question")
@click.option(
    "--tape", "seed", required=True, help="The shared seed, such as study-7, or the text of a tape."
)
@click.option(
    "--rho", type=float, default=0.05, show_default=True, help="How often two laboratories may differ."
)
@click.option(
    "--accuracy",
    type=float,
    help="How far from the truth.  [default: 0.05 of the bounds, 0.05 in rank, half the threshold]",
)
@click.option("--beta", type=float, default=0.05, show_default=True, help="How often it may be farther.")
@click.option("--bounds", type=float, nargs=2, help="The least and the greatest possible value.")
@click.option("--resolution", type=float, help="Quantiles lie this far apart within the bounds.")
@click.option("--best-effort", is_flag=True, help="With too few rows, promise less instead of refusing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def replicate(data: str, question: str, seed: str, as_json: bool, **said: Any) -> None:
    """Compute a statistic of DATA, a CSV or Parquet file, that replicates exactly.

    \b
    mean(expression), share(condition), median(expression), quantile(expression, q),
    heavy_hitters(column, threshold), mode(column, threshold):
      holdfast replicate survey.csv "share(age > 40)" --tape study-7 --rho 0.05
      holdfast replicate survey.csv "mean(income)" --bounds 0 100000 --tape study-7

    Another laboratory that draws its own rows and gives the same tape and options prints the very same
    result, except with probability rho.
    """
    from holdfast.engines import open_rows
    from holdfast.replicable import Tape

    shared = Tape.parse(seed) if seed.startswith("tape:") else Tape(seed)
    terms = _Terms(tape=shared, **said)
    call = _CALL.match(question)
    name = call.group(1).lower() if call else ""
    if call is None or name not in _STATISTICS:
        raise QueryRejected(f"Cannot read the question {question!r}; write {_FORMS}.")
    result, asked, agreed = _STATISTICS[name](open_rows(data), name, call.group(2), terms)
    again = _again(data, asked, terms, agreed)
    if as_json:
        document = {"question": asked, **result.to_dict(), "agreed": agreed, "again": again}
        document["cite"] = _citation(result, asked, agreed)
        print_data(document)
    else:
        _show(result, asked, agreed, again)


_Computed = tuple["Result", str, dict[str, Any]]


def _numbers(rows: Rows, name: str, inside: str, terms: _Terms) -> _Computed:
    """Means, shares and quantiles: whatever the question reader understands."""
    from holdfast import queries, replicable
    from holdfast.cli._values import values_of

    if name == "median":
        query = queries.read(f"quantile({inside}, q = 0.5)")
    elif name == "mean" and terms.bounds is not None:
        query = queries.read(f"mean({inside}, bounds = [{terms.bounds[0]!r}, {terms.bounds[1]!r}])")
    else:
        query = queries.read(f"{name}({inside})")
    values = values_of(rows, query)
    if query.kind == "quantile":
        agreed: dict[str, Any] = {"accuracy": 0.05 if terms.accuracy is None else terms.accuracy}
        if terms.bounds is not None or terms.resolution is not None:
            agreed |= {"bounds": terms.bounds, "resolution": terms.resolution}
        result = replicable.quantile(values, query.q, **agreed, **terms.promise())
    else:
        low, high = query.bounds or (0.0, 1.0)
        agreed = {"accuracy": 0.05 * (high - low) if terms.accuracy is None else terms.accuracy}
        result = replicable.mean(values, bounds=(low, high), **agreed, **terms.promise())
    return result, _canonical(query, name), agreed


def _canonical(query: Any, name: str) -> str:
    """The question as it was read, so that two spellings of it are cited alike."""
    text = str(query)
    if name == "median":
        return re.sub(r"^quantile\((.*?), 0\.5", r"median(\1", text)
    return text


def _counted(rows: Rows, name: str, inside: str, terms: _Terms) -> _Computed:
    """Heavy hitters, and the mode as the item that lists of one have in common."""
    from holdfast import replicable
    from holdfast.cli._values import items_of

    parts = _COUNTED.match(inside)
    if parts is None or parts.group(2) is None:
        raise QueryRejected(f"How common must an item be? Write {name}({inside.strip()}, 0.2), or so.")
    items = items_of(rows, parts.group(1))
    threshold = float(parts.group(2))
    asked = f"{name}({parts.group(1).strip()}, {threshold:g})"
    if name == "mode":
        lists = [(item,) for item in items]
        result = replicable.list_heavy_hitter(lists, eta=threshold, list_size=1, **terms.promise())
        return result, asked, {}
    accuracy = threshold / 2.0 if terms.accuracy is None else terms.accuracy
    agreed = {"accuracy": accuracy}
    return replicable.heavy_hitters(items, threshold=threshold, **agreed, **terms.promise()), asked, agreed


_STATISTICS = {
    "mean": _numbers,
    "share": _numbers,
    "median": _numbers,
    "quantile": _numbers,
    "heavy_hitters": _counted,
    "mode": _counted,
}


def _again(data: str, asked: str, terms: _Terms, agreed: dict[str, Any]) -> str:
    """The command with which another laboratory repeats this, every agreed number spelled out."""
    seed = terms.tape.seed if not terms.tape.path else str(terms.tape)
    words = ["holdfast", "replicate", data, asked, "--tape", seed, "--rho", f"{terms.rho!r}"]
    words += ["--beta", f"{terms.beta!r}"]
    for name, value in agreed.items():
        if value is not None:
            words += [f"--{name}", *(f"{v!r}" for v in (value if isinstance(value, tuple) else (value,)))]
    return shlex.join([*words, "--best-effort"] if terms.best_effort else words)


def _citation(result: Result, asked: str, agreed: dict[str, Any]) -> str:
    import holdfast

    numbers = [f"rho = {result.guarantee.rho:.4g}", f"beta = {result.beta:.4g}"]
    numbers += [f"{name} = {_words(value)}" for name, value in agreed.items() if value is not None]
    return (
        f"{asked} = {_words(result.value)} ({', '.join(numbers)}; {result.rows:,} rows; "
        f"{result.tape}; Holdfast {holdfast.__version__})"
    )


def _words(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_words, value)) + "]"
    return repr(value) if isinstance(value, float) else str(value)


def _show(result: Result, asked: str, agreed: dict[str, Any], again: str) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    rho, beta = result.guarantee.rho, result.beta or 0.0
    console.print(Text(asked), style="bold")
    console.print(Text.assemble("  ", (_words(result.value), "bold green")))
    console.print(
        f"  another sample and this tape give exactly this with probability {1.0 - rho:.4g} or more"
    )
    console.print(f"  {_truth(asked, result)} with probability {1.0 - beta:.4g} or more")
    needed = result.details["needed"]
    told = (
        "enough" if result.rows >= needed else f"fewer than the {needed:,} that the promise asked for needs"
    )
    console.print(f"  {result.rows:,} rows, {told}", style="dim" if result.rows >= needed else "yellow")
    for label, text in (
        ("tape", result.tape),
        ("cite", _citation(result, asked, agreed)),
        ("again", again),
    ):
        console.print(Text.assemble((f"  {label:<6}", "cyan"), text))


def _truth(asked: str, result: Result) -> str:
    name, accuracy = asked.partition("(")[0], result.accuracy
    if name in ("quantile", "median"):
        return f"its rank is within {accuracy:.4g} of what was asked"
    if name == "heavy_hitters":
        cut, slack = result.details["threshold"], accuracy or 0.0
        return f"it has every item of share {cut + slack:.4g} and none below {cut - slack:.4g}"
    if name == "mode":
        return f"its share is at least {accuracy:.4g}, if some item has twice that,"
    return f"it is within {accuracy:.4g} of the truth"
