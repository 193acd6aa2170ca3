"""What an answer rests on: the theorem, its numbers, and every assumption in words."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

from holdfast.records import Record, framed_html, show


@dataclass(frozen=True, repr=False)
class Certificate(Record):
    """The statement that is certified and what it rests on.

    ``statement`` is the promise in words, ``theorem`` what proves it, ``numbers`` the numbers that enter it,
    and ``interval`` how the interval was read.
    ``checked`` are conditions the software enforces; ``assumed`` are those no software can check from the
    data.
    """

    statement: str
    theorem: str
    numbers: dict[str, Any] = field(hash=False)
    checked: tuple[str, ...]
    assumed: tuple[str, ...]
    interval: str = field(default="")

    def __str__(self) -> str:
        lines = [self.statement, f"Theorem: {self.theorem}."]
        if self.interval:
            lines.append(f"Interval for a query fixed in advance: {self.interval}.")
        lines += [f"  {name}: {show(value)}" for name, value in self.numbers.items()]
        lines += ["Checked by the software:", *(f"  - {sentence}" for sentence in self.checked)]
        lines += [
            "Assumed, and not checkable from the data:",
            *(f"  - {sentence}" for sentence in self.assumed),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return framed_html(f"<pre>{html.escape(str(self))}</pre>")
