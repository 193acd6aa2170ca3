"""Tables are often sorted: what reads some of the rows reads a random sample of them, and the book knows
which."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from holdfast import Guard
from holdfast.engines import _rows, open_rows, unsealed
from holdfast.errors import QueryRejected
from holdfast.guard import _epoch, _setup
from holdfast.ledger import Book, BookError

ROWS = 2_000
SHARES = {"Adelie": 0.44, "Chinstrap": 0.2, "Gentoo": 0.36}


@pytest.fixture
def penguins(rng):
    """Drawn at random and sorted afterwards, as tables are."""
    species = np.sort(rng.choice(list(SHARES), ROWS, p=list(SHARES.values())))
    heavier = {"Adelie": 0.4, "Chinstrap": 0.4, "Gentoo": 0.8}
    mass = np.array([heavier[name] for name in species]) + rng.normal(0, 0.05, ROWS)
    return {"species": species, "mass": mass, "number": np.arange(ROWS)}


def in_table_order(monkeypatch):
    """The twin: rows are read as they come."""
    monkeypatch.setattr(_setup, "_shuffled", lambda part, seed: (part, {"seed": seed}))


def questions(guard):
    return [guard.share(f"species = '{name}'") for name in SHARES]


def test_splitting_a_sorted_table_gives_every_question_a_random_sample(penguins):
    for seed in range(5):
        guard = Guard(penguins, strategy="split", queries=10, split_seed=seed)
        for answer, share in zip(questions(guard), SHARES.values(), strict=True):
            assert answer.low <= share <= answer.high, answer


def test_consecutive_rows_of_a_sorted_table_would_miss(penguins, monkeypatch):
    in_table_order(monkeypatch)
    first = Guard(penguins, strategy="split", queries=10).share("species = 'Adelie'")
    assert first.value == 1
    assert first.low > 0.9


def test_every_row_is_read_once_and_blocks_look_alike(penguins):
    guard = Guard(penguins, strategy="split", queries=10)
    with unsealed():
        blocks = [guard._setup.protected.rows.block(start, 200).frame() for start in range(0, ROWS, 200)]
    numbers = np.concatenate([block["number"] for block in blocks])
    assert sorted(numbers) == list(range(ROWS))
    assert list(numbers) != list(range(ROWS))
    counts = [[int((block["species"] == name).sum()) for name in SHARES] for block in blocks]
    assert stats.chi2_contingency(counts).pvalue > 1e-6


@pytest.mark.parametrize("options", [{}, {"training_share": 0.25}, {"split_seed": 3}])
def test_the_order_is_a_term_of_the_book(penguins, tmp_path, options):
    terms = {"strategy": "split", "queries": 10, "ledger": tmp_path / "book", **options}
    first = Guard(penguins, **terms)
    answers = questions(first)
    again = Guard(penguins, **terms)
    assert [answer.to_dict() for answer in questions(again)] == [answer.to_dict() for answer in answers]
    assert again.share("mass > 0.6").certificate.numbers["question"] == 4
    opened = Book(tmp_path / "book").opening.body["order"]
    assert opened["seed"] == options.get("split_seed", 0)
    with pytest.raises(BookError, match="order"):
        Guard(penguins, **{**terms, "split_seed": 8})


def test_a_generator_that_draws_otherwise_is_noticed(penguins, tmp_path, monkeypatch):
    """Another version of numpy may draw another order from the same seed, and would give rows out twice."""
    terms = {"strategy": "split", "queries": 10, "ledger": tmp_path / "book"}
    Guard(penguins, **terms).share("mass > 0.6")
    monkeypatch.setattr(_setup, "_FOR_ORDER", 77)
    with pytest.raises(BookError, match="order"):
        Guard(penguins, **terms)


def test_a_book_that_read_consecutive_rows_is_refused_with_a_sentence(penguins, tmp_path):
    made = Guard(penguins, strategy="split", queries=10)
    book = Book(tmp_path / "book")
    opening = {name: term for name, term in made._book.opening.body.items() if name != "order"}
    opening["data"] = made._setup.facts["data"].under(book.secret)
    book.append("open", opening, after=0)
    with pytest.raises(BookError, match=r"consecutive rows.*Open a new book, for rows that no question"):
        Guard(penguins, strategy="split", queries=10, ledger=tmp_path / "book")


@pytest.mark.parametrize("given", [False, True], ids=["own training part", "given training part"])
def test_the_pilot_of_a_sorted_table_is_a_random_sample_and_stays_aligned(penguins, monkeypatch, given):
    monkeypatch.setattr(_setup, "_PILOT_ROWS", 300)
    guard = Guard(penguins, train=penguins) if given else Guard(penguins)
    pilot, training = guard._setup.pilot, guard._setup.training
    frame = pilot.rows.frame()
    assert pilot.rows.count == len(frame) == 300
    assert abs((frame["species"] == "Adelie").mean() - 0.44) < 0.15
    assert set(frame["number"]) <= set(training.rows.frame()["number"])
    if not given:
        assert list(np.flatnonzero(pilot.mask)) == list(frame["number"])


def test_the_pilot_of_a_large_file_is_a_random_sample_too(penguins, monkeypatch, tmp_path):
    monkeypatch.setattr(_setup, "_PILOT_ROWS", 300)
    monkeypatch.setattr(_rows, "_MOST_COPIED", 10)
    pq.write_table(pa.table(penguins), tmp_path / "penguins.parquet", row_group_size=500)
    path = str(tmp_path / "penguins.parquet")
    guards = [Guard(path, split_seed=seed) for seed in (0, 5)]
    guards += [Guard(path, split_by="number"), Guard(path, train=path)]
    for guard in guards:
        assert guard._setup.training.rows.stays
        frame = guard._setup.pilot.rows.frame()
        assert 220 < len(frame) < 380
        assert abs((frame["species"] == "Adelie").mean() - 0.44) < 0.15
        seen = set(guard._setup.training.rows.frame()["mass"])
        assert set(frame["mass"]) <= seen
    again = Guard(path, split_seed=5)._setup.pilot.rows.frame()
    assert again.equals(guards[1]._setup.pilot.rows.frame())


def test_rows_of_a_sample_have_no_other_columns_and_no_other_kinds(penguins):
    rows = open_rows(penguins).stored()
    chosen = np.arange(ROWS) % 7 == 0
    assert rows.at(chosen).frame().equals(rows.frame()[chosen].reset_index(drop=True))
    places = np.random.default_rng(0).permutation(ROWS)
    assert rows.reordered(places).frame().equals(rows.frame().iloc[places].reset_index(drop=True))


def test_a_model_of_dependence_keeps_its_order_and_is_refused_as_before(penguins):
    from holdfast.dependence import MDependent

    with pytest.raises(QueryRejected, match="independent rows"):
        Guard(penguins, strategy="split", queries=10, dependence=MDependent(ROWS, 2))


def test_the_next_epoch_trains_on_a_random_few_of_the_earlier_rows(penguins, monkeypatch):
    monkeypatch.setattr(_epoch, "_MOST_TRAINING", 200)
    guard = Guard(penguins)
    guard.close_account()
    later = {name: values[::-1].copy() for name, values in penguins.items()}
    later["mass"] = later["mass"] + 1e-6
    later["number"] = later["number"] + ROWS
    frame = guard.next_epoch(later).train
    assert len(frame["species"]) == 400
    assert abs(np.mean(np.asarray(frame["species"]) == "Adelie") - 0.44) < 0.15
