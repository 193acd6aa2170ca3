"""What people look at: the forest plot and the tables of a notebook, from one answer to two hundred."""

from __future__ import annotations

import html
import itertools
import re

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection

from holdfast import Guard
from holdfast.answers import plot_answers

ROWS = 3_000


@pytest.fixture(scope="module")
def guard() -> Guard:
    source = np.random.default_rng(3)
    table = {"age": source.integers(18, 90, ROWS), "income": source.normal(40_000, 9_000, ROWS)}
    guard = Guard(table, expect=200)
    guard.share("age > 40")
    guard.share("income > 50000", guess=0.9)
    guard.mean("income", bounds=(0, 100_000))
    guard.ask_all([f"share(age > {20 + place / 4} and income > 30000)" for place in range(197)])
    return guard


@pytest.mark.parametrize("count", [1, 2, 30, 200])
def test_every_answer_of_the_plot_has_a_label_that_can_be_read(guard, count):
    answers = guard.history[:count]
    figure = plot_answers(answers, str(guard.left))
    FigureCanvasAgg(figure).draw()
    labels = [label for axis in figure.axes[:-1] for label in axis.get_yticklabels()]
    assert len(labels) == count
    texts = " ".join(label.get_text() for label in labels)
    assert all(f"{number}  " in texts for number in range(1, count + 1))
    assert "share(age > 40)" in texts
    boxes = [label.get_window_extent() for label in labels]
    ordered = sorted(boxes, key=lambda box: -box.y0)
    assert all(above.y0 >= below.y1 - 2 for above, below in itertools.pairwise(ordered))
    assert all(box.x0 >= 0 for box in boxes)


def test_the_plot_draws_each_interval_where_it_is(guard):
    answers = guard.history[:2]
    figure = plot_answers(answers)
    bars = [part for part in figure.axes[0].collections if isinstance(part, LineCollection)]
    segments = [segment for bar in bars for segment in bar.get_segments()]
    drawn = {(round(left[0], 9), round(right[0], 9)) for left, right in segments}
    assert drawn == {(round(answer.low, 9), round(answer.high, 9)) for answer in answers}


def test_a_figure_shows_itself_in_a_notebook(guard):
    assert plot_answers(guard.history[:3])._repr_png_().startswith(b"\x89PNG")


def test_a_guard_shows_what_is_left_and_its_latest_answers(guard):
    shown = guard._repr_html_()
    assert f"{guard.rows:,} protected rows" in shown
    assert html.escape(str(guard.left)) in shown
    assert "180 earlier answers are in <code>guard.history</code>" in shown
    assert re.findall(r"<tr><td>(\d+)</td>", shown) == [str(number) for number in range(181, 201)]


def test_a_history_is_a_tuple_and_a_table(guard):
    history = guard.history
    assert isinstance(history, tuple)
    assert history[:2] == tuple(history)[:2]
    shown = history._repr_html_()
    assert shown.count("<tr>") == 201
    assert "share(income &gt; 50000)" in shown
    assert shown.count("a surprise</b>") == sum(not answer.confirmed for answer in history) >= 1


def test_texts_of_the_table_cannot_become_markup():
    guard = Guard({"<b>x": np.arange(400) % 2 == 0})
    guard.share('"<b>x"')
    assert "<b>x" not in guard._repr_html_()
    assert "<b>x" not in guard.history._repr_html_()
    assert "No question was asked yet." in Guard({"x": np.arange(400) % 2 == 0})._repr_html_()
