"""Clusters, blocks and fitted chains through the public door: what is answered, refused, charged and told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard, dependence
from holdfast.dependence import Blocks, Clusters, MarkovChain, MDependent, Mixing
from holdfast.errors import InvalidArgument, NotEnoughRows, QueryRejected

PEOPLE, YEARS = 545, 8


def panel(rng, *, shuffled=True):
    person = np.repeat(np.arange(PEOPLE), YEARS)
    level = np.repeat(rng.normal(0, np.sqrt(0.15), PEOPLE), YEARS)
    wage = np.clip(1.65 + level + rng.normal(0, np.sqrt(0.12), PEOPLE * YEARS), 0, 4.5)
    frame = pd.DataFrame(
        {"person": person, "wage": wage, "member": wage + rng.normal(0, 1, len(wage)) > 2, "year": person % 8}
    )
    return frame.sample(frac=1, random_state=5) if shuffled else frame


def memory(rng, rows, stay):
    """A value that is kept with probability ``stay`` and drawn again otherwise, from 0, 1/9, …, 1."""
    fresh = rng.random(rows) >= stay
    fresh[0] = True
    return (rng.integers(0, 10, rows) / 9)[np.maximum.accumulate(np.where(fresh, np.arange(rows), 0))]


def test_a_panel_is_answered_near_the_width_of_cluster_robust_statistics(rng):
    guard = Guard(panel(rng), dependence=Clusters(column="person"))
    answer = guard.mean("wage", bounds=(0, 4.5))
    assert answer.low < 1.65 < answer.high
    assert answer.half_width <= 0.12
    assert "over independent units of rows" in answer.certificate.interval
    assert guard.certificate.numbers["charged for the split"] == 0


def test_the_order_of_the_rows_does_not_matter_where_a_column_names_the_clusters(rng):
    table = panel(rng, shuffled=False)
    by_order = Guard(table, dependence=Clusters([YEARS] * PEOPLE)).mean("wage", bounds=(0, 4.5))
    by_column = Guard(table, dependence=Clusters(column="person")).mean("wage", bounds=(0, 4.5))
    assert (by_order.low, by_order.high) == (by_column.low, by_column.high)


def test_every_verb_has_an_answer_for_clusters(rng):
    guard = Guard(panel(rng), dependence=Clusters(column="person"), expect=20)
    bounds = (0, 4.5)
    for answer, truth in [
        (guard.share("wage > 1.65"), 0.5),
        (guard.median("wage"), 1.65),
        (guard.mean("wage", bounds=bounds, where="member"), None),
        (guard.ratio("wage", "year + 1", bounds={"wage": bounds, "year + 1": (0, 8)}), None),
        (guard.difference("wage", between=("year < 4", "year >= 4"), bounds=bounds), 0.0),
        (guard.std("wage", bounds=bounds), np.sqrt(0.27)),
        (guard.variance("wage", bounds=bounds), 0.27),
        (guard.slope("wage", "year", bounds={"wage": bounds, "year": (0, 8)}), 0.0),
    ]:
        assert answer.low < answer.high
        assert truth is None or answer.low <= truth <= answer.high
    curve = guard.cdf("wage")
    assert curve.at(1.65).low < 0.5 < curve.at(1.65).high
    assert len(guard.share("member", by="year").rows) > 2


def test_models_and_arrays_are_scored_over_clusters(rng):
    from sklearn.linear_model import LogisticRegression

    table = panel(rng)
    guard = Guard(table, dependence=Clusters(column="person"))
    model = LogisticRegression().fit(guard.train[["wage"]], guard.train["member"])
    right = guard.score(model, target="member")
    by_hand = guard.score(model.predict(table[["wage"]]), target="member")
    assert right.low < by_hand.high
    assert by_hand.low < right.high
    with pytest.raises(QueryRejected, match=r"needs independent rows.*accuracy"):
        guard.score(model, target="member", metric="auc")
    assert len(guard.history) == 2


def test_whole_clusters_are_set_aside(rng):
    guard = Guard(panel(rng), dependence=Clusters(column="person"))
    assert (guard.train.groupby("person").size() == YEARS).all()
    assert guard.rows % YEARS == 0


def test_a_report_and_a_preregistration_over_clusters(rng):
    table = panel(rng)
    report = Guard(table, dependence=Clusters(column="person"), training_share=0).report(
        ["mean(wage, 0, 4.5)", "share(wage > 1.65)"]
    )
    first, second = report.answers
    assert first.low < 1.65 < first.high
    assert first.half_width < 0.09
    assert second.half_width < 0.08


def test_an_account_over_clusters_continues_only_with_its_clusters(rng, tmp_path):
    table, place = panel(rng), tmp_path / "book"
    with_book = Guard(table, dependence=Clusters(column="person"), ledger=place)
    answer = with_book.share("member")
    with_book.close()
    again = Guard(table, dependence=Clusters(column="person"), ledger=place)
    assert again.share("member").cost == answer.cost
    assert again.spent == pytest.approx(answer.cost)
    again.close()
    with pytest.raises(Exception, match="opened"):
        Guard(table, ledger=place)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Clusters(column="nobody"), "There is no column 'nobody' to name the clusters"),
        (Clusters(column="wage"), "neither text nor whole numbers"),
        (Clusters(column="same"), r"4,360 of 4,360 rows have the same 'same'"),
    ],
)
def test_a_column_that_names_no_clusters_is_refused(rng, model, sentence):
    table = panel(rng)
    table["same"] = 1
    with pytest.raises(QueryRejected, match=sentence):
        Guard(table, dependence=model)


def test_clusters_need_a_column_or_sizes():
    with pytest.raises(InvalidArgument, match="column"):
        Clusters()
    with pytest.raises(InvalidArgument, match=r"Clusters\(column=…\)"):
        Clusters("person")
    with pytest.raises(InvalidArgument, match="give it to Guard"):
        Clusters(column="person").mean_tail(0, 1)


def test_two_ways_to_split_contradict_each_other(rng):
    with pytest.raises(InvalidArgument, match="a cluster goes to one part as a whole"):
        Guard(panel(rng), dependence=Clusters(column="person"), split_by="year")


@pytest.mark.parametrize(
    "model", [Mixing(0.9), MDependent(20_000, 30), Blocks(200, 150, 1e-6)], ids=lambda model: model.name
)
def test_a_series_is_read_off_blocks_or_its_tail(rng, model):
    guard = Guard({"x": memory(rng, 20_000, 0.9)}, dependence=model)
    answer = guard.mean("x", bounds=(0, 1))
    assert answer.low < 0.5 < answer.high
    assert answer.half_width < 0.1
    assert "over independent units of rows" in answer.certificate.interval
    charged = guard.certificate.numbers.get("charged for blocks", 0)
    assert (charged == 0) == isinstance(model, MDependent)
    assert charged <= 0.025
    assert "blocks of rows" in " ".join(guard.certificate.assumed)


def test_a_declared_correlation_of_neighbours_narrows_an_answer(rng):
    values = {"x": memory(rng, 20_000, 0.9)}
    plain, more = (
        Guard(values, dependence=model).mean("x", bounds=(0, 1))
        for model in (Mixing(0.9), Mixing(0.9, correlation=0.9))
    )
    assert more.half_width < 0.75 * plain.half_width
    assert more.low < 0.5 < more.high
    assert "for a stationary chain" in more.certificate.interval
    assert any(
        "correlated with a function of the next by more than 0.9" in s for s in more.certificate.assumed
    )


def test_a_known_chain_is_read_by_its_operator_norm(rng):
    states = (memory(rng, 20_000, 0.9) * 9).round().astype(int)
    chain = MarkovChain(0.9 * np.eye(10) + 0.01, 20_000)
    guard = Guard({"state": states}, dependence=chain)
    share, mean, median = guard.share("state < 5"), guard.mean("state", bounds=(0, 9)), guard.median("state")
    assert share.low < 0.5 < share.high
    assert mean.low < 4.5 < mean.high
    assert median.low <= 4 <= median.high
    assert share.certificate.interval == "Chernoff bound for stationary chains"
    assert "for a stationary chain" in mean.certificate.interval


def test_predictions_by_place_are_not_read_by_the_norm_of_a_chain(rng):
    """Bets on a chain need the same function of every state; an array is another one for each row."""
    states = (memory(rng, 20_000, 0.5) * 9).round().astype(int)
    guard = Guard({"state": states}, dependence=MarkovChain(0.5 * np.eye(10) + 0.05, 20_000))
    answer = guard.score(rng.integers(0, 10, 20_000), target="state")
    assert "chain" not in answer.certificate.interval.replace("dependence", "")


def fitted_parts(rng, rows=24_000, known=8_000):
    states = np.cumsum(rng.random(rows) < 0.05) % 2
    table = pd.DataFrame({"running": states, "load": rng.random(rows)})
    return table[:known], table[known:]


def test_a_fitted_chain_answers_for_its_columns_and_is_charged(rng):
    train, later = fitted_parts(rng)
    model = dependence.fit(train, columns=["running"])
    guard = Guard(later, train=train, dependence=model)
    answer = guard.share("running = 1")
    assert answer.low < 0.5 < answer.high
    assert answer.half_width < 0.12
    assert guard.certificate.numbers["charged for the fit"] == pytest.approx(0.002)
    assert guard.rows < len(later)
    with pytest.raises(QueryRejected, match=r"describes 'running'.*reads 'load'.*Mixing"):
        guard.mean("load", bounds=(0, 1))
    with pytest.raises(QueryRejected, match="describes 'running'"):
        guard.share("running = 1", where="load > 0.5")
    assert len(guard.history) == 1


def test_a_fitted_chain_needs_the_rows_it_was_fitted_to(rng):
    train, later = fitted_parts(rng)
    model = dependence.fit(train, columns=["running"])
    with pytest.raises(QueryRejected, match=r"Give those rows as train="):
        Guard(later, dependence=model)
    with pytest.raises(QueryRejected, match=r"fitted to 8,000 rows, and the training part has 4,000"):
        Guard(later, train=train[:4_000], dependence=model)


def test_a_series_too_short_for_its_gap_is_refused(rng):
    short = {"x": rng.random(300)}
    with pytest.raises(NotEnoughRows, match="rows of a gap"):
        Guard(short, dependence=Mixing(0.99))
    with pytest.raises(NotEnoughRows):
        Guard(short, dependence=Blocks(100, 100, 1e-6))
    with pytest.raises(InvalidArgument, match="long enough"):
        Guard({"x": rng.random(30_000)}, dependence=Blocks(10, 5, 0.01))


def test_an_account_of_a_series_continues_with_its_layouts(rng, tmp_path):
    values, place = {"x": memory(rng, 20_000, 0.9)}, tmp_path / "book"
    guard = Guard(values, dependence=Mixing(0.9), ledger=place)
    answer = guard.mean("x", bounds=(0, 1))
    charged = guard.certificate.numbers["charged for blocks"]
    guard.close()
    again = Guard(values, dependence=Mixing(0.9), ledger=place)
    assert again.mean("x", bounds=(0, 1)).low == answer.low
    assert again.certificate.numbers["charged for blocks"] == charged
    again.close()


def test_what_blocks_cost_is_taken_from_the_rate_of_discoveries_too(rng):
    guard = Guard({"x": memory(rng, 20_000, 0.9)}, dependence=Mixing(0.9))
    assert guard.discover("share(x > 0.2) > 0.4").found
    charged = guard.certificate.numbers["charged for blocks"]
    with pytest.raises(QueryRejected, match="Ask with a larger rate"):
        Guard({"x": memory(rng, 20_000, 0.9)}, dependence=Mixing(0.9)).discover(
            "share(x > 0.2) > 0.4", rate=charged / 2
        )
