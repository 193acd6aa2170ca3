"""The door is described: these figures only fall. ``python tests/house/house_figures.py`` prints them all."""

from __future__ import annotations

import house_figures
import pytest

# Lower these when the figure falls; never raise them.
MOST_ANY = 551
MOST_UNDOCUMENTED = 1_223
# Names whose docstrings name every parameter.
DESCRIBED = (
    "holdfast.guard.Guard",
    "holdfast.guard.Verbs",
    "holdfast.guard.Answer",
    "holdfast.planning.plan",
)


@pytest.fixture(scope="module")
def parameters() -> list[house_figures.PublicParameter]:
    return list(house_figures.public_parameters())


def test_parameters_of_any_type_become_fewer(parameters):
    assert sum(parameter.is_any for parameter in parameters) <= MOST_ANY


def test_parameters_that_no_docstring_names_become_fewer(parameters):
    assert sum(not parameter.documented for parameter in parameters) <= MOST_UNDOCUMENTED


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_first_names_that_people_meet_are_described_in_full(parameters, name):
    own = [one for one in parameters if one.place == name or one.place.startswith(f"{name}.")]
    assert own
    assert [str(one) for one in own if not one.documented] == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("The share of ``rows``.", True),
        ("With ``rows=3`` more.", True),
        ("Args:\n    rows: How many.", True),
        ("Many rows.", False),
        ("``arrows``", False),
    ],
)
def test_a_docstring_names_a_parameter_in_backticks_or_in_a_list(text, named):
    assert house_figures.names_parameter(text, "rows") == named
