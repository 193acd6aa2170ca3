"""A book knows its dependence model by its content, and refuses every other model."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast import Guard, ReusableHoldout
from holdfast.dependence import (
    BayesianNetwork,
    Clusters,
    DependencyGraph,
    Independent,
    MarkovChain,
    MarkovNetwork,
    MDependent,
)
from holdfast.guard import _opening, _setup
from holdfast.ledger import Book, BookError

ROWS = 400
STICKY, FAIR = [[0.99, 0.01], [0.01, 0.99]], [[0.5, 0.5], [0.5, 0.5]]
COIN = [0.5, 0.5]


def _pairs(table):
    return BayesianNetwork(
        {name: entry for i in range(0, ROWS, 2) for name, entry in ((i, ([], COIN)), (i + 1, ([i], table)))}
    )


# Each pair has one text in a book of the landed version.
MODELS = {
    "transition matrix": (MarkovChain(STICKY, ROWS), MarkovChain(FAIR, ROWS)),
    "later sizes": (Clusters([2] * 150 + [100]), Clusters([2] * 149 + [51, 51])),
    "edges": (
        DependencyGraph([(i, i + 1) for i in range(9)], n=ROWS),
        DependencyGraph([(2 * i, 2 * i + 1) for i in range(9)], n=ROWS),
    ),
    "tables": (_pairs(STICKY), _pairs(FAIR)),
    "factors": (
        MarkovNetwork([((i, i + 1), [[9, 1], [1, 9]]) for i in range(0, ROWS, 2)]),
        MarkovNetwork([((i, i + 1), [[1, 1], [1, 1]]) for i in range(0, ROWS, 2)]),
    ),
}


@pytest.fixture
def table(rng):
    return {"x": rng.random(ROWS), "flag": rng.random(ROWS) < 0.3}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "account.holdfast"


@pytest.fixture
def as_it_was():
    """What the landed version wrote and compared: the words for the model, and not its content."""

    def set_up(*arguments, **options):
        made = landed(*arguments, **options)
        for name in ("model", "parts"):
            made.facts.pop(name, None)
        return made

    landed = _setup.set_up
    with pytest.MonkeyPatch.context() as change:
        change.setattr("holdfast.guard._opening.set_up", set_up)
        yield change


def opened(table, model, ledger):
    return Guard(table, dependence=model, training_share=0, ledger=ledger)


@pytest.mark.parametrize("case", MODELS)
def test_a_book_continues_with_its_model_and_refuses_others(table, path, case):
    given, other = MODELS[case]
    first = opened(table, given, path)
    first.share("flag", guess=0.3)
    spent = first.spent
    first.close()
    with pytest.raises(BookError, match=r"model differ.*Give the same model with the same parameters"):
        opened(table, other, path)
    again = opened(table, given, path)
    assert again.spent == spent
    again.close()


@pytest.mark.parametrize("case", MODELS)
def test_comparing_the_words_alone_would_accept_another_model(table, path, case, as_it_was):
    """The twin: what the landed version compared is the same for both."""
    given, other = MODELS[case]
    opened(table, given, path).close()
    opened(table, other, path).close()


def test_intervals_miss_where_a_sticky_book_continues_as_a_fair_coin(tmp_path, rng):
    """Why it matters. In 8 runs at 95 % five misses have probability below 2e-5."""

    def misses(run):
        states = {"s": (np.cumsum(rng.random(1_000) < 0.01) + rng.integers(2)) % 2}
        path = tmp_path / f"{run}.holdfast"
        opened(states, MarkovChain(STICKY, 1_000), path).close()
        answer = opened(states, MarkovChain(FAIR, 1_000), path).share("s = 1", guess=0.5)
        return not answer.low <= 0.5 <= answer.high

    with pytest.raises(BookError, match="model"):
        misses("refused")
    with pytest.MonkeyPatch.context() as change:
        change.setattr(_opening, "_ADDED", ())
        change.setattr(MarkovChain, "fingerprint", "")
        assert sum(misses(run) for run in range(8)) >= 5


def test_extra_assumptions_are_part_of_the_model_of_a_book(table, path):
    """An account of a fitted chain does not continue with a chain that is given as known."""
    fitted = MarkovChain(FAIR, ROWS, extra_assumptions=("The matrix was fitted.",))
    opened(table, fitted, path).close()
    with pytest.raises(BookError, match="model"):
        opened(table, MarkovChain(FAIR, ROWS), path)
    assert "The matrix was fitted." in opened(table, fitted, path).certificate.assumed


def test_every_certificate_says_the_parameters(table):
    guard = Guard(table, dependence=MarkovChain(STICKY, ROWS), training_share=0)
    for certificate in (guard.certificate, guard.share("flag", guess=0.3).certificate):
        assert "[[0.99, 0.01], [0.01, 0.99]]" in str(certificate)
        assert MarkovChain(STICKY, ROWS).fingerprint[:16] in str(certificate)
    assert "fingerprint" not in str(Guard(table).certificate)  # Independent rows have no parameters.
    settings = {"threshold": 0.2, "noise": 0.01, "budget": 2}
    rows = np.zeros((200, 1))
    holdout = ReusableHoldout(rows, rows, **settings, dependence=Clusters([2] * 100))
    assert "100 clusters" in holdout.certificate.numbers["model"]


@pytest.mark.parametrize("case", MODELS)
def test_a_book_of_an_earlier_version_adopts_the_first_model_it_is_opened_with(table, path, case, as_it_was):
    given, other = MODELS[case]
    opened(table, given, path).close()
    as_it_was.undo()
    guard = opened(table, given, path)
    sentences = [text for text in guard.certificate.assumed if "opened by an earlier version" in text]
    assert len(sentences) == 1
    assert guard.share("flag", guess=0.3).certificate.assumed == guard.certificate.assumed
    guard.close()
    with pytest.raises(BookError, match="model"):
        opened(table, other, path)
    opened(table, given, path).close()


@pytest.mark.parametrize("model", [None, Independent(ROWS), MDependent(ROWS, 2)])
def test_a_book_of_an_earlier_version_whose_words_name_the_whole_model_continues(
    table, path, model, as_it_was
):
    opened(table, model, path).close()
    as_it_was.undo()
    guard = opened(table, model, path)
    assert not [text for text in guard.certificate.assumed if "earlier version" in text]
    guard.close()
    with pytest.raises(BookError, match="dependence"):
        opened(table, MDependent(ROWS, 3), path)


def test_rows_that_another_draw_would_set_aside_are_refused(table, path, monkeypatch):
    """A seed is not a split: if a library drew otherwise, rows that were protected would be shown."""
    Guard(table, ledger=path).close()
    split = Independent.split

    def drawn_otherwise(self, share, rng, beta=0.05):
        rng.random()
        return split(self, share, rng, beta)

    monkeypatch.setattr(Independent, "split", drawn_otherwise)
    with pytest.raises(BookError, match="parts"):
        Guard(table, ledger=path)


def test_a_board_and_a_holdout_keep_no_model(path):
    """A board's rows are independent, and a holdout keeps no book: neither has a model to continue with."""
    from holdfast.guard import Board

    labels = {"id": np.arange(100), "y": np.arange(100) % 2}
    Board(labels, id="id", target="y", ledger=path).close()
    book = Book(path)
    assert not {"model", "dependence"} & set(book.opening.body)
    book.close()
