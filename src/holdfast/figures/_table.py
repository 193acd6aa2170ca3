"""The numbers beside a picture."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.records import Record

Progress = Callable[[int, int], None]


@dataclass(frozen=True, repr=False)
class FigureTable(Record):
    """What a figure shows, in numbers: ``columns``, ``rows`` of values, and ``notes`` on how to read them.

    The first ``groups`` columns say what a row belongs to; ``files`` are the names of what was written.
    """

    name: str
    title: str
    runs: int
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    groups: int = 0
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"FigureTable({self.name!r}, {len(self.rows)} rows, {self.runs} runs)"

    def write(self, folder: Path) -> None:
        """Write ``name.csv`` and ``name.json``."""
        with (folder / f"{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(self.columns)
            lines.writerows(self.rows)
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=1)
        (folder / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")
