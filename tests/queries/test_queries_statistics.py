"""Questions about ratios, groups, spreads and pairs: their texts read back, and their ranges are right."""

from __future__ import annotations

import math

import pytest

from holdfast import queries
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.queries import read

TEXTS = {
    "ratio(a, b, 0, 10, 0, 5)": (0.0, math.inf),
    "ratio(a, b, 1, 10, 2, 5)": (0.2, 5.0),
    "ratio(a, b, -1, 10, 0, 5)": (-math.inf, math.inf),
    "difference(x, arm = 'b', arm = 'a', 0, 500)": (-500.0, 500.0),
    "difference(x > 1, arm, 0, 1, where = y > 2)": (-1.0, 1.0),
    "lift(x, a = 1, a = 0, 0, 1)": (-1.0, math.inf),
    "variance(x, -2, 4)": (0.0, 9.0),
    "std(x, -2, 4, nulls = skip)": (0.0, 3.0),
    "covariance(x, y, 0, 2, 0, 4)": (-2.0, 2.0),
    "correlation(x, y, -1, 1, -1, 1)": (-1.0, 1.0),
    "slope(y, x, 0, 1, 0, 1)": (-math.inf, math.inf),
    "mean(x, 0, 1, 0, 2, weights = w)": (0.0, 1.0),
    "std(x, bounds = train)": None,
    "share(x > 1, by = (a, b))": (0.0, 1.0),
    "cdf(x, where = y > 1)": (-math.inf, math.inf),
}


@pytest.mark.parametrize("text", list(TEXTS))
def test_a_text_reads_back_and_has_its_range(text):
    query = read(text)
    assert query.text == text
    assert read(str(query)) == query
    assert read(query.text).key == query.key
    if TEXTS[text] is not None:
        assert queries.limits(query) == TEXTS[text]


def test_the_functions_make_what_the_texts_say():
    both = {"x": (0, 1), "y": (0, 2)}
    pairs = [
        (queries.ratio("x", "y", bounds=both), "ratio(x, y, 0, 1, 0, 2)"),
        (queries.covariance("x", "y", bounds=[(0, 1), (0, 2)]), "covariance(x, y, 0, 1, 0, 2)"),
        (queries.correlation("x", "y", bounds=(0, 1)), "correlation(x, y, 0, 1, 0, 1)"),
        (queries.slope("y", "x", bounds=both), "slope(y, x, 0, 2, 0, 1)"),
        (queries.variance("x", bounds=(0, 1)), "variance(x, 0, 1)"),
        (queries.std("x", bounds="train"), "std(x, bounds = train)"),
        (
            queries.difference("x", between=("g = 1", "g = 0"), bounds=(0, 1)),
            "difference(x, g = 1, g = 0, 0, 1)",
        ),
        (queries.lift("x", between="g = 1, g = 0", bounds=(0, 1)), "lift(x, g = 1, g = 0, 0, 1)"),
        (queries.mean("x", bounds=both | {"w": (0, 3)}, weights="w"), "mean(x, 0, 1, 0, 3, weights = w)"),
        (queries.median("x", by="g"), "quantile(x, 0.5, by = g)"),
        (queries.cdf("x"), "cdf(x)"),
        (queries.histogram("x", 5), "histogram(x, 5)"),
        (queries.histogram("x", [0, 0.5, 2], where="y > 1"), "histogram(x, 0, 0.5, 2, where = y > 1)"),
    ]
    for query, text in pairs:
        assert query == read(text)


@pytest.mark.parametrize(
    "text",
    [
        "ratio(a, 0, 1)",
        "ratio(a, b, 0, 1, 0)",
        "ratio(a, b, 0, 1, -1, 1)",
        "lift(x, g = 1, g = 0, -1, 1)",
        "difference(x)",
        "difference(x, g = 1, g = 1, 0, 1)",
        "variance(x)",
        "variance(x, 0)",
        "correlation(x, y, 0, 1, 0, 1, weights = w)",
        "cdf(x, 0, 1)",
        "cdf(x, guess = 0.5)",
        "histogram(x)",
        "histogram(x, 5, by = g)",
        "share(x, weights = w)",
        "mean(x, 0, 1, -1, 2, weights = w)",
        "mean(x, 0, 1, 0, 2, weights = w, nulls = 0)",
        "std(x, 0, 1, nulls = 0)",
        "correlation(x, y, 0, 1, 0, 1, guess = 2)",
        "count(x > 1)",
    ],
)
def test_what_says_too_little_or_too_much_is_refused(text):
    with pytest.raises((QueryRejected, InvalidArgument)):
        read(text)


def test_the_keys_of_earlier_questions_stay_as_they_were():
    """An account book knows its questions by these."""
    assert read("share(age > 40)").key.startswith("02a6e44")
    assert read("mean(income, 0, 1e5, where = sex = 'F')").key.startswith("1c049b1")
