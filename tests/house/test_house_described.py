"""Public parameters have types and are named in docstrings.

``python tests/house/public_parameters.py`` counts those that are not. The counts may only fall.
"""

from __future__ import annotations

import public_parameters
import pytest

# Lower these when the figure falls; never raise them.
MOST_ANY = 1
MOST_UNDOCUMENTED = 0
# Names whose docstrings name every parameter.
DESCRIBED = (
    "holdfast.guard.Guard",
    "holdfast.guard.Verbs",
    "holdfast.guard.ScoreVerbs",
    "holdfast.client.Client",
    "holdfast.boards.Board",
    "holdfast.gates.Gate",
    "holdfast.answers.Answer",
    "holdfast.planning.plan",
)


@pytest.fixture(scope="module")
def parameters() -> list[public_parameters.PublicParameter]:
    return list(public_parameters.public_parameters())


def test_parameters_of_any_type_become_fewer(parameters):
    assert sum(parameter.is_any for parameter in parameters) <= MOST_ANY


def test_parameters_that_no_docstring_names_become_fewer(parameters):
    assert sum(not parameter.documented for parameter in parameters) <= MOST_UNDOCUMENTED


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_first_names_that_people_meet_are_described_in_full(parameters, name):
    own = [it for it in parameters if it.place == name or it.place.startswith(f"{name}.")]
    assert own
    assert [str(parameter) for parameter in own if not parameter.documented] == []


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
    assert public_parameters.names_parameter(text, "rows") == named
