"""The lab: the story of ``holdfast demo``, the experiments of ``holdfast figures``, and ``holdfast bench``.

Pictures need the extra ``plots``. Names that are imported ``as`` themselves are for the command line and for
the benchmarks.
"""

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast.lab._figures import FIGURES, FigureTable, draw, run_benchmarks
    from holdfast.lab._figures import Palette as Palette
    from holdfast.lab._figures import blank as blank
    from holdfast.lab._figures import quiet as quiet
    from holdfast.lab._figures import save as save
    from holdfast.lab._story import TRUTH as TRUTH
    from holdfast.lab._story import AnsweredQuestion as AnsweredQuestion
    from holdfast.lab._story import Claim as Claim
    from holdfast.lab._story import Stones, Story, tell

__all__ = ["FIGURES", "FigureTable", "Stones", "Story", "draw", "run_benchmarks", "tell"]

_HOME = {
    "Claim": "_story",
    "FIGURES": "_figures",
    "FigureTable": "_figures",
    "Palette": "_figures",
    "Stones": "_story",
    "Story": "_story",
    "TRUTH": "_story",
    "AnsweredQuestion": "_story",
    "blank": "_figures",
    "draw": "_figures",
    "quiet": "_figures",
    "run_benchmarks": "_figures",
    "save": "_figures",
    "tell": "_story",
}

if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
