"""What the prompt of ``holdfast ask`` understands, and how it completes a word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from holdfast import queries

_ABOUT = {
    "share": "share(condition)                 the share of rows for which it is true",
    "mean": "mean(expression, lo, hi)         the mean, values outside [lo, hi] clipped",
    "quantile": "quantile(expression, q)          the value below which a share q lies",
    "median": "median(expression)               the value below which half lies",
    "ratio": "ratio(u, v, lo, hi, lo, hi)      the mean of u by the mean of v",
    "difference": "difference(x, a, b, lo, hi)      the mean where a holds less that where b does",
    "lift": "lift(x, a, b, lo, hi)            the same, relative to where b holds",
    "variance": "variance(x, lo, hi)              how far values spread, squared",
    "std": "std(x, lo, hi)                   how far values spread",
    "covariance": "covariance(x, y, lo, hi, lo, hi) how two values go together",
    "correlation": "correlation(x, y, lo, hi, lo, hi) the same, from -1 to 1",
    "slope": "slope(y, x, lo, hi, lo, hi)      how much y grows with one unit of x",
    "cdf": "cdf(x)                           the whole distribution",
    "histogram": "histogram(x, 10)                 the share in each bin; or edges, as in 0, 10, 20",
}
FORMS = {f"{name}(": _ABOUT[name] for name in queries.FORMS}
OPTIONS = {
    "where = ": "where = condition                only the rows for which it is true",
    "nulls = ": "nulls = skip, true, false, 0 …   what a missing value counts as",
    "by = ": "by = column                      one answer for each of its values",
    "bounds = ": "bounds = train                   bounds from the training part",
    "weights = ": "weights = expression             of a mean",
    "guess = ": "guess = number                   your own guess instead of the training part's",
}
COMMANDS = {
    "help": "this list",
    "columns": "the columns, with what the training part shows of them",
    "left": "what was spent and what is left",
    "history": "every answer of the account",
    "certificate": "what the answers rest on",
    "preview": "preview QUESTION: what it would cost, without asking",
    "train": "the first rows of the training part",
    "plot": "plot FILE.png: a picture of the account",
    "quit": "leave; the account is kept (Ctrl-D does the same)",
}
_WITHIN = (
    *("and", "or", "not", "between", "in (", "is null", "is not null", "like '", "case when"),
    *("abs(", "coalesce(", "exp(", "floor(", "greatest(", "least(", "length(", "ln(", "lower("),
    *("power(", "round(", "sqrt(", "upper(", "year(", "month(", "day(", "hour(", "isodow("),
)
_WORD = re.compile(r'"[^"]*\Z|\w*\Z')


class Suggestions(Completer):
    """Commands and kinds of question at the start of a line; columns, options and functions within one."""

    def __init__(self, columns: Iterable[str]) -> None:
        written = ('"' + name.replace('"', '""') + '"' for name in columns)
        self._columns = tuple(queries.Expression.read(name).text for name in written)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Everything that continues the word before the cursor."""
        line = document.text_before_cursor
        found = _WORD.search(line)
        word = found.group() if found else ""
        for text in self._offered(line[: len(line) - len(word)].strip()):
            if text.lower().lstrip('"').startswith(word.lower().lstrip('"')):
                yield Completion(text, start_position=-len(word))

    def _offered(self, before: str) -> tuple[str, ...]:
        if not before:
            return (*FORMS, *COMMANDS)
        if before.lower() == "preview":
            return tuple(FORMS)
        if "(" not in before:
            return ()
        return (*self._columns, *(OPTIONS if before.endswith(",") else ()), *_WITHIN)
