"""``holdfast replicate``: a result that another laboratory gets again, from the same tape and other rows."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._output import json_option, print_data
from holdfast.errors import NotEnoughRows, QueryRejected

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from holdfast.engines import Rows
    from holdfast.queries import Query
    from holdfast.replicable import Result, Tape


_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*\Z", re.DOTALL)
_LAST_NUMBER = re.compile(r"(.*?)(?:,\s*([0-9.eE+-]+)\s*)?\Z", re.DOTALL)
_FORMS = (
    "mean(expression), share(condition), difference(expression, condition, condition), slope(y, x), "
    "median(expression), quantile(expression, q), histogram(column, category, category, …), "
    "heavy_hitters(column, threshold) or mode(column, threshold)"
)
# Values of rho for the table of what the given rows can promise.
_RHOS = (0.2, 0.1, 0.05, 0.01)


@dataclass(frozen=True)
class _Terms:
    """The options of the command; None for those that were left out."""

    tape: Tape
    rho: float
    beta: float
    accuracy: float | None
    bounds: tuple[float, float] | None
    resolution: float | None
    x_bounds: tuple[float, float] | None
    least_variance: float | None
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
    "--rho", type=float, default=0.05, show_default=True, help="The probability that two laboratories differ."
)
@click.option(
    "--accuracy",
    type=float,
    help="The largest error.  [default: 0.05 of the bounds, 0.05 in rank, half the threshold]",
)
@click.option(
    "--beta", type=float, default=0.05, show_default=True, help="The probability of a larger error."
)
@click.option("--bounds", type=float, nargs=2, help="The least and the greatest possible value.")
@click.option(
    "--resolution",
    type=float,
    help="The distance between the values that a quantile can have, within the bounds.",
)
@click.option("--x-bounds", type=float, nargs=2, help="The bounds of x, for a slope.")
@click.option("--least-variance", type=float, help="The least variance that x can have, for a slope.")
@click.option("--best-effort", is_flag=True, help="With too few rows, promise less instead of refusing.")
@json_option
def replicate(data: str, question: str, seed: str, as_json: bool, **options: Any) -> None:
    """Compute a statistic that replicates exactly.

    DATA is a CSV or Parquet file. QUESTION is one of

    \b
    mean(expression), share(condition), median(expression), quantile(expression, q),
    difference(expression, condition, condition), slope(y, x),
    histogram(column, category, category, ...),
    heavy_hitters(column, threshold), mode(column, threshold):
      holdfast replicate survey.csv "share(age > 40)" --tape study-7 --rho 0.05
      holdfast replicate survey.csv "mean(income)" --bounds 0 100000 --tape study-7
      holdfast replicate trial.csv "difference(score, arm = 'b', arm = 'a')" --bounds 0 10 --tape t1

    Another laboratory with rows of its own, the same tape and the same options gets exactly the same result,
    except with probability rho. With too few rows nothing is computed. The message then says what these rows
    can promise.
    """
    from holdfast.engines import open_rows
    from holdfast.replicable import Tape

    shared = Tape.parse(seed) if seed.startswith("tape:") else Tape(seed)
    terms = _Terms(tape=shared, **options)
    call = _CALL.match(question)
    name = call.group(1).lower() if call else ""
    if call is None or name not in _STATISTICS:
        raise QueryRejected(f"Cannot read the question {question!r}; write {_FORMS}.")
    rows = open_rows(data)
    try:
        result, question_text, agreed = _STATISTICS[name](rows, name, call.group(2), terms)
    except NotEnoughRows as refusal:
        advice = _advice(rows, name, call.group(2), terms)
        if not advice:
            raise
        raise NotEnoughRows(refusal.needed, refusal.got, what=refusal.what, advice=advice) from None
    command = _repeat_command(data, question_text, terms, agreed)
    powers = _powers(name, result, agreed, terms)
    warning = _warning(result, terms, powers)
    if as_json:
        document = {"question": question_text, **result.to_dict(), "agreed": agreed, "again": command}
        document |= {"cite": _citation(result, question_text, agreed), "powers": powers, "warning": warning}
        print_data(document)
    else:
        _show(result, question_text, agreed, command, powers, warning)


_Computed = tuple["Result", str, dict[str, Any]]


def _mean_or_quantile(rows: Rows, name: str, arguments: str, terms: _Terms) -> _Computed:
    """Means, shares and quantiles: whatever the question reader understands."""
    from holdfast import queries, replicable

    if name == "median":
        query = queries.read(f"quantile({arguments}, q = 0.5)")
    elif name == "mean" and terms.bounds is not None:
        query = queries.read(f"mean({arguments}, bounds = [{terms.bounds[0]!r}, {terms.bounds[1]!r}])")
    else:
        query = queries.read(f"{name}({arguments})")
    values = _values_of(rows, query)
    if query.kind == "quantile":
        agreed: dict[str, Any] = {"accuracy": 0.05 if terms.accuracy is None else terms.accuracy}
        if terms.bounds is not None or terms.resolution is not None:
            agreed |= {"bounds": terms.bounds, "resolution": terms.resolution}
        assert query.q is not None  # as for every quantile
        result = replicable.quantile(values, query.q, **agreed, **terms.promise())
    else:
        low, high = query.bounds or (0.0, 1.0)
        agreed = {"accuracy": 0.05 * (high - low) if terms.accuracy is None else terms.accuracy}
        result = replicable.mean(values, bounds=(low, high), **agreed, **terms.promise())
        result.details["bounds"] = (low, high)
    return result, _canonical(query, name), agreed


def _canonical(query: Any, name: str) -> str:
    """The question in one spelling, so that everybody cites it alike."""
    text = str(query)
    if name == "median":
        return re.sub(r"^quantile\((.*?), 0\.5", r"median(\1", text)
    return text


def _heavy_hitters(rows: Rows, name: str, arguments: str, terms: _Terms) -> _Computed:
    """Heavy hitters, and the mode. The mode is the heavy hitter of lists with one item each."""
    from holdfast import replicable

    parts = _LAST_NUMBER.match(arguments)
    if parts is None or parts.group(2) is None:
        raise QueryRejected(
            f"Give the least share that an item must have, for example {name}({arguments.strip()}, 0.2)."
        )
    items = _items_of(rows, parts.group(1))
    threshold = float(parts.group(2))
    question = f"{name}({parts.group(1).strip()}, {threshold:g})"
    if name == "mode":
        lists = [(item,) for item in items]
        result = replicable.list_heavy_hitter(lists, eta=threshold, list_size=1, **terms.promise())
        return result, question, {}
    accuracy = threshold / 2.0 if terms.accuracy is None else terms.accuracy
    hitters = replicable.heavy_hitters(items, threshold=threshold, accuracy=accuracy, **terms.promise())
    return hitters, question, {"accuracy": accuracy}


def _difference(rows: Rows, name: str, arguments: str, terms: _Terms) -> _Computed:
    """A difference of two groups: the mean of an expression where one condition holds, minus where the other
    does."""
    from holdfast import queries, replicable

    parts = _arguments(arguments)
    if len(parts) not in (3, 5):
        raise QueryRejected("Write difference(expression, condition, condition), and give --bounds LOW HIGH.")
    if len(parts) == 5:
        try:
            bounds = (float(parts[3]), float(parts[4]))
        except ValueError:
            raise QueryRejected(f"The bounds {parts[3]}, {parts[4]} are not numbers.") from None
    elif terms.bounds is not None:
        bounds = terms.bounds
    else:
        raise QueryRejected("A difference needs bounds: give --bounds LOW HIGH.")
    low, high = bounds
    groups = [
        _values_of(rows, queries.read(f"mean({parts[0]}, {low!r}, {high!r}, where = {condition})"))
        for condition in parts[1:3]
    ]
    accuracy = 0.1 * (high - low) if terms.accuracy is None else terms.accuracy
    result = replicable.difference(*groups, bounds=bounds, accuracy=accuracy, **terms.promise())
    return result, f"difference({', '.join(parts[:3])})", {"accuracy": accuracy, "bounds": bounds}


def _slope(rows: Rows, name: str, arguments: str, terms: _Terms) -> _Computed:
    """A regression slope of one column by another."""
    from holdfast import replicable

    names = _arguments(arguments)
    if len(names) != 2:
        raise QueryRejected("Write slope(y, x) with the names of two columns.")
    if terms.bounds is None or terms.x_bounds is None or terms.least_variance is None:
        raise QueryRejected(
            "A slope needs --bounds LOW HIGH for y, --x-bounds LOW HIGH for x, and --least-variance, the "
            "least variance that x can have."
        )
    y, x = _columns_of(rows, names)
    (y_low, y_high), (x_low, x_high) = bounds = (terms.bounds, terms.x_bounds)
    steepest = (y_high - y_low) / (x_high - x_low) if x_low < x_high else 1.0
    agreed: dict[str, Any] = {"accuracy": 0.5 * steepest if terms.accuracy is None else terms.accuracy}
    result = replicable.slope(
        y.clip(y_low, y_high),
        x.clip(x_low, x_high),
        bounds=bounds,
        least_variance=terms.least_variance,
        **agreed,
        **terms.promise(),
    )
    agreed |= {"bounds": terms.bounds, "x-bounds": terms.x_bounds, "least-variance": terms.least_variance}
    return result, f"slope({names[0]}, {names[1]})", agreed


def _shares(rows: Rows, name: str, arguments: str, terms: _Terms) -> _Computed:
    """The share of each category that the question lists. Both laboratories agree on the list."""
    from holdfast import replicable

    column, *listed = _arguments(arguments)
    if len(listed) < 2:
        raise QueryRejected(
            f"List the categories of {column or 'a column'}, as in {name}({column or 'arm'}, 'a', 'b')."
        )
    categories = [_category(text) for text in listed]
    agreed = {"accuracy": 0.1 if terms.accuracy is None else terms.accuracy}
    items, accuracy = _items_of(rows, column), agreed["accuracy"]
    result = replicable.histogram(items, categories, accuracy=accuracy, **terms.promise())
    return result, f"{name}({', '.join([column, *listed])})", agreed


def _category(written: str) -> Any:
    """A category as the question writes it: a text in quotes, or a number."""
    if written[:1] in ("'", '"') and written[-1:] == written[:1] and len(written) >= 2:
        return written[1:-1]
    try:
        return int(written)
    except ValueError:
        pass
    try:
        return float(written)
    except ValueError:
        raise QueryRejected(f"Write the category {written} in quotes, or as a number.") from None


def _advice(rows: Rows, name: str, arguments: str, terms: _Terms) -> str:
    """What the given rows can promise; empty for statistics without a planned size."""
    try:
        result, _, agreed = _STATISTICS[name](rows, name, arguments, replace(terms, best_effort=True))
    except NotEnoughRows:
        return ""
    powers = _powers(name, result, agreed, terms)
    possible = [f"±{value:.3g} with rho = {rho}" for rho, value in powers.items() if value is not None]
    if not possible:
        return ""
    return (
        f"Your {result.rows:,} rows can promise {', or '.join(possible)}. Ask for one of these, or add "
        "--best-effort."
    )


def _arguments(text: str) -> list[str]:
    """The arguments of a call, cut at commas outside of quotes and brackets."""
    parts, start, depth, quote = [], 0, 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()]


def _powers(name: str, result: Result, agreed: dict[str, Any], terms: _Terms) -> dict[str, float | None]:
    """The best accuracy that the given rows can promise, for several rho; empty if none is planned."""
    from holdfast.replicable import power

    if name in ("mean", "share"):
        low, high = agreed.get("bounds") or result.details.get("bounds") or (0.0, 1.0)
        planned: dict[str, Any] = {"name": "mean", "bounds": (low, high), "most": 0.49 * (high - low)}
    elif name == "difference":
        low, high = agreed["bounds"]
        planned = {"name": "difference", "bounds": (low, high), "most": 0.99 * (high - low)}
    elif name == "slope":
        bounds = (agreed["bounds"], agreed["x-bounds"])
        unit = (bounds[0][1] - bounds[0][0]) / (bounds[1][1] - bounds[1][0])
        planned = {"name": "slope", "bounds": bounds, "most": 10.0 * unit}
        planned["least_variance"] = agreed["least-variance"]
    else:
        return {}
    rhos = sorted({*_RHOS, terms.rho}, reverse=True)
    return {f"{rho:g}": power(rows=result.rows, rho=rho, beta=terms.beta, **planned) for rho in rhos}


def _warning(result: Result, terms: _Terms, powers: dict[str, float | None]) -> str | None:
    """A warning to print before the result, if a best effort promises less than was asked for."""
    rho, beta = result.guarantee.rho, result.beta or 0.0
    if rho <= terms.rho and beta <= terms.beta:
        return None
    needed = f"{result.rows:,} rows are fewer than the {result.details['needed']:,} that the promise needs."
    possible = [f"±{value:.3g} with rho = {name}" for name, value in powers.items() if value is not None]
    advice = f" These rows can promise {', or '.join(possible)}." if possible else ""
    if rho >= 1.0 or beta >= 1.0:
        lost = "whether another sample gives the same result" if rho >= 1.0 else "how far the truth is"
        return f"NO PROMISE: {needed} Nothing is known about {lost}.{advice}"
    return f"WEAK PROMISE: {needed} Two samples may differ with probability {rho:.3g}.{advice}"


_STATISTICS = {
    "mean": _mean_or_quantile,
    "share": _mean_or_quantile,
    "difference": _difference,
    "slope": _slope,
    "histogram": _shares,
    "median": _mean_or_quantile,
    "quantile": _mean_or_quantile,
    "heavy_hitters": _heavy_hitters,
    "mode": _heavy_hitters,
}


def _repeat_command(data: str, question: str, terms: _Terms, agreed: dict[str, Any]) -> str:
    """The command with which another laboratory repeats this, with every agreed number."""
    seed = terms.tape.seed if not terms.tape.path else str(terms.tape)
    command = ["holdfast", "replicate", data, question, "--tape", seed, "--rho", f"{terms.rho!r}"]
    command += ["--beta", f"{terms.beta!r}"]
    for name, value in agreed.items():
        if value is not None:
            command += [
                f"--{name}",
                *(f"{number!r}" for number in (value if isinstance(value, tuple) else (value,))),
            ]
    return shlex.join([*command, "--best-effort"] if terms.best_effort else command)


def _citation(result: Result, question: str, agreed: dict[str, Any]) -> str:
    import holdfast

    numbers = [f"rho = {result.guarantee.rho:.4g}", f"beta = {result.beta:.4g}"]
    numbers += [f"{name} = {_value_words(value)}" for name, value in agreed.items() if value is not None]
    return (
        f"{question} = {_value_words(result.value)} ({', '.join(numbers)}; {result.rows:,} rows; "
        f"{result.tape}; Holdfast {holdfast.__version__})"
    )


def _value_words(value: Any) -> str:
    if hasattr(value, "tolist"):
        value = tuple(value.tolist())
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_value_words, value)) + "]"
    return repr(value) if isinstance(value, float) else str(value)


def _show(
    result: Result,
    question: str,
    agreed: dict[str, Any],
    command: str,
    powers: dict[str, float | None],
    warning: str | None,
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    if warning is not None:
        console.print(Text(warning), style="bold yellow")
    rho, beta = result.guarantee.rho, result.beta or 0.0
    console.print(Text(question), style="bold")
    if "categories" in result.details:
        shares = Table(box=None, pad_edge=False)
        shares.add_column("  category", justify="right")
        shares.add_column("share", justify="right", style="bold green")
        for category, share in zip(result.details["categories"], result.value.tolist(), strict=True):
            shares.add_row(str(category), repr(share))
        console.print(shares)
    else:
        console.print(Text.assemble("  ", (_value_words(result.value), "bold green")))
    console.print(
        f"  another sample and this tape give exactly this with probability {1.0 - rho:.4g} or more"
    )
    console.print(f"  {_accuracy_words(question, result)} with probability {1.0 - beta:.4g} or more")
    needed = result.details["needed"]
    verdict = "enough" if result.rows >= needed else f"fewer than the {needed:,} that the full promise needs"
    console.print(f"  {result.rows:,} rows, {verdict}", style="dim" if result.rows >= needed else "yellow")
    for label, line in (
        ("tape", result.tape),
        ("cite", _citation(result, question, agreed)),
        ("again", command),
    ):
        console.print(Text.assemble((f"  {label:<6}", "cyan"), line))
    if powers:
        table = Table(box=None, pad_edge=False, title=f"With your {result.rows:,} rows", title_justify="left")
        table.add_column("  rho", justify="right")
        table.add_column("within", justify="right")
        for name, value in powers.items():
            table.add_row(name, "no accuracy" if value is None else f"±{value:.3g}")
        console.print(table)


def _accuracy_words(question: str, result: Result) -> str:
    name, accuracy = question.partition("(")[0], result.accuracy
    if name in ("quantile", "median"):
        return f"its rank is within {accuracy:.4g} of what was asked"
    if name == "heavy_hitters":
        cut, slack = result.details["threshold"], accuracy or 0.0
        return f"it has every item of share {cut + slack:.4g} and none below {cut - slack:.4g}"
    if name == "histogram":
        return f"all shares together are within {accuracy:.4g} of the truth in total variation"
    if name == "mode":
        return f"its share is at least {accuracy:.4g}, if some item has twice that,"
    return f"it is within {accuracy:.4g} of the truth"


def _values_of(rows: Rows, query: Query) -> npt.NDArray[np.float64]:
    """The values of the rows that enter the answer: clipped to the bounds for a mean, 0 or 1 for a share."""
    import ibis
    import numpy as np

    from holdfast.engines import Schema

    checked = query.check(Schema(rows.schema), rows.nullable_columns())
    names = sorted(checked.reads) or list(rows.columns[:1])
    table = ibis.memtable(rows.frame(names), schema=rows.schema.to_ibis(names))
    columns = ibis.duckdb.connect().to_pyarrow(checked.values(table))
    values: npt.NDArray[np.float64] = columns["value"].cast("float64").to_numpy()
    if checked.filters:
        values = values[columns["passes"].fill_null(False).to_numpy()]
    missing = np.isnan(values)
    values = values[~missing] if checked.skips else np.where(missing, checked.missing, values)
    return np.clip(values, *checked.bounds) if checked.kind == "mean" else values


def _columns_of(rows: Rows, names: list[str]) -> list[npt.NDArray[np.float64]]:
    """Number columns by name, over the rows that have a value in each of them."""
    for name in names:
        if name not in rows.schema or rows.schema[name].kind not in ("number", "boolean"):
            columns = ", ".join(rows.columns[:12])
            raise QueryRejected(f"There is no column of numbers named {name!r}. The columns are {columns}.")
    frame = rows.frame(sorted(set(names)))[names].dropna()
    return [frame[name].to_numpy(dtype="float64") for name in names]


def _items_of(rows: Rows, column: str) -> list[Any]:
    """The items of one column, by its name; rows without a value are left out."""
    name = column.strip()
    if name not in rows.schema and len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1]
    if name not in rows.schema:
        columns = ", ".join(rows.columns[:12])
        raise QueryRejected(f"There is no column {name!r}. The columns are {columns}.")
    kind = rows.schema[name].kind
    if kind not in ("number", "boolean", "text"):
        raise QueryRejected(
            f"The column {name!r} is of kind {kind}. Only texts, numbers and booleans can be counted."
        )
    items: list[Any] = rows.frame([name])[name].dropna().tolist()
    return items
