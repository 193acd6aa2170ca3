"""The examples in the docstrings run, and the picture is drawn."""

from __future__ import annotations

import pytest

from holdfast.dependence import MDependent
from holdfast.planning import plan, plot_plan


@pytest.mark.parametrize(
    "given",
    [{"rows": 20_000}, {"error": 0.1}, {"rows": 20_000, "error": 0.1}, {"dependence": MDependent(900, 2)}],
)
def test_the_picture_has_a_line_for_every_method(given):
    found = plan(queries=30, confidence=0.95, surprises=1, **given)
    figure = plot_plan(found)
    axes = figure.axes[0]
    names = {text.get_text() for text in axes.texts}
    drawn = {entry.name for entry in found.table if entry.rows is not None}
    assert drawn <= names
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert axes.get_ylabel() == ("rows needed" if found.rows is None else "error")
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert len(dashed) == sum(not entry.recommendable for entry in found.table if entry.name in names)
