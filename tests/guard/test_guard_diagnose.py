"""What the training part says about rows that are not independent, and the one warning."""

from __future__ import annotations

import itertools
import json
import math
import time
import warnings

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard
from holdfast.answers._diagnosis import NOTHING
from holdfast.dependence import Clusters, Independent, MDependent
from holdfast.errors import DependenceWarning, InvalidArgument, QueryRejected
from holdfast.guard._resemblance import (
    Pairs,
    agreement_moments,
    agreement_resemblance,
    centred_ranks,
    honest_z,
    product_moments,
    product_resemblance,
)


def series(rng, rows, memory):
    noise = rng.normal(size=rows) * math.sqrt(1 - memory**2)
    values = np.empty(rows)
    values[0] = rng.normal()
    for place in range(1, rows):
        values[place] = memory * values[place - 1] + noise[place]
    return values


def people(rng, persons=800, each=8, *, shuffled=True):
    """Visits of persons; two visits of one person have a correlation of one half."""
    person = np.repeat(np.arange(persons), each)
    if shuffled:
        person = rng.permutation(person)
    names = np.array([f"p{number}" for number in rng.permutation(persons)])
    own = rng.normal(size=persons)
    return {
        "person": names[person],
        "pressure": own[person] + rng.normal(size=len(person)),
        "coin": rng.integers(0, 2, len(person)),
    }


def independent(rng, rows=600):
    """Independent rows of every kind: heavy tails, ties, rare truths, texts, an id that means nothing."""
    income = np.exp(2 * rng.normal(size=rows))
    return {
        "income": income,
        "tax": income * rng.random(rows),
        "children": rng.poisson(0.7, rows),
        "rare": rng.random(rows) < 0.01,
        "sex": rng.choice(["f", "m"], rows),
        "town": rng.choice([f"t{number}" for number in range(60)], rows),
        "code": rng.integers(0, rows // 2, rows),
    }


def pairs_of(kind, rows):
    """Every pair of a kind by itself, and what is said of all of them."""
    if kind == "groups":
        sizes = (3, 2, rows - 5)
        label = np.repeat(np.arange(3), sizes)
        listed = [(i, j) for i, j in itertools.combinations(range(rows), 2) if label[i] == label[j]]
        return listed, Pairs.inside(sizes)
    if kind == "two stretches":
        listed = [(i, i + 1) for i in range(rows - 1) if i != 2]
        return listed, Pairs.apart(1, [3, rows - 3])
    lag = int(kind)
    return [(i, i + lag) for i in range(rows - lag)], Pairs.apart(lag, [rows])


def dealt_out(values, listed):
    """Products and agreements over the pairs, for every order of the values."""
    orders = np.array(list(itertools.permutations(values)))
    left, right = (orders[:, [pair[side] for pair in listed]] for side in (0, 1))
    return (left * right).sum(axis=1), (left == right).sum(axis=1)


@pytest.mark.parametrize("kind", ["1", "2", "groups", "two stretches"])
@pytest.mark.parametrize(
    "values", [(1, 2, 3, 4, 5, 6, 7), (0, 0, 0, 1, 1, 0), (1, 1, 2, 2, 9, 9), (0, 5, 5, 5, 7, 8, 9)]
)
def test_mean_and_variance_are_those_over_all_orders(kind, values):
    x = np.array(values) - np.mean(values)
    listed, pairs = pairs_of(kind, len(values))
    assert pairs.count == len(listed)
    products, agreements = dealt_out(x, listed)
    moments = product_moments((x**2).sum(), (x**4).sum(), len(x), pairs)
    assert moments == pytest.approx((products.mean(), products.var()), rel=1e-12)
    counts = [values.count(value) for value in values]
    moments = agreement_moments(counts, len(values), pairs)
    assert moments == pytest.approx((agreements.mean(), agreements.var()), rel=1e-12, abs=1e-12)


def test_the_same_check_catches_a_variance_that_forgets_pairs_that_share_a_row():
    values = np.array([1, 1, 2, 2, 9, 9]) - 4.0
    listed, pairs = pairs_of("1", 6)
    products, agreements = dealt_out(values, listed)
    wrong = Pairs(pairs.count, 0.0)
    assert product_moments((values**2).sum(), (values**4).sum(), 6, wrong)[1] != pytest.approx(products.var())
    assert agreement_moments([2] * 6, 6, wrong)[1] != pytest.approx(agreements.var())
    untied = np.arange(6) - 2.5  # Ranks as if no two values were equal.
    assert product_moments((untied**2).sum(), (untied**4).sum(), 6, pairs)[1] != pytest.approx(products.var())


def scores_of_independent_rows(rng, trials=4_000):
    """Scores, and what they were before they were made honest, where that is hard: few rows that are 1, and
    two large groups."""
    rare = centred_ranks(np.repeat([0, 1], [392, 8]), np.array([392, 8]))
    smooth = centred_ranks(np.arange(400), np.ones(400, dtype=int))
    apart, two, label = Pairs.apart(1, [400]), Pairs.inside([200, 200]), np.repeat([0, 1], 200)
    alike = []
    for _ in range(trials):
        x = rng.permutation(rare)
        alike.append(product_resemblance(x, float((x[1:] * x[:-1]).sum()), apart))
        x = rng.permutation(smooth)
        sums = np.bincount(label, x)
        alike.append(product_resemblance(x, float((sums**2).sum() - (x**2).sum()) / 2, two))
    return np.array([one.z for one in alike]), np.array([one.correlation / one.spread for one in alike])


def test_scores_are_as_rare_as_normal_ones_where_raw_ones_are_not():
    """One normal score in 4,300 is above 3.5: of 8,000 more than 9 are with probability below 0.0001."""
    honest, raw = scores_of_independent_rows(np.random.default_rng(5))
    assert (honest > 3.5).sum() <= 9
    assert (raw > 3.5).sum() > 30


def test_a_score_below_zero_and_one_of_many_events_stay_as_they_are():
    assert honest_z(-5.0, Pairs.inside([50, 50]), 1.0) == -5.0
    assert honest_z(3.0, Pairs.apart(1, [10**6]), 1e9) == pytest.approx(3.0, abs=1e-3)


def test_nothing_to_compare_is_no_score():
    assert product_resemblance(np.zeros(10), 0.0, Pairs.apart(1, [10])) is None
    assert agreement_resemblance(np.ones(10), 0.0, Pairs.apart(1, [10])) is None
    assert product_resemblance(np.arange(3.0) - 1, 0.0, Pairs.apart(1, [3])) is None


@pytest.mark.parametrize(("tables", "most"), [(20, 1), pytest.param(200, 3, marks=pytest.mark.slow)])
def test_independent_rows_get_the_sentence_that_nothing_speaks_against_it(tables, most):
    """Each table raises an alarm with probability 0.001; more than ``most`` do with less than 0.0002."""
    rng = np.random.default_rng(20)
    diagnoses = [Guard(independent(rng)).diagnose() for _ in range(tables)]
    # Tax and income go together, and neither says anything about the order.
    assert sum(diagnosis.sentences != (NOTHING,) for diagnosis in diagnoses) <= most


def test_a_series_is_noticed_and_the_sentence_says_what_to_do():
    rng = np.random.default_rng(1)
    guard = Guard({"minute": np.arange(6_000), "heat": series(rng, 6_000, 0.95), "coin": rng.random(6_000)})
    diagnosis = guard.diagnose()
    minute, heat, coin = diagnosis.neighbours
    assert diagnosis.speaks_against
    assert heat.correlation == pytest.approx(0.95**3, abs=0.05)  # one row in three is for training
    assert min(heat.z, heat.nearby_z) > 20
    assert abs(coin.z) < diagnosis.threshold
    assert minute.is_sorted
    assert not heat.is_sorted
    assert heat.lags[:3] == (1, 2, 4)
    assert heat.autocorrelation[0] == heat.correlation > heat.autocorrelation[3]
    first, second = diagnosis.sentences
    assert first.startswith("Neighbouring rows of 'heat' agree far more than independent rows would (corr")
    assert "Mixing(rate=…)" in first
    assert "Clusters(column=…)" in first
    assert second.startswith("The table is sorted by 'minute'. That alone does no harm.")
    assert guard.spent == 0
    assert guard.history == ()


def test_a_series_of_texts_is_noticed_too():
    rng = np.random.default_rng(2)
    state = np.cumsum(rng.random(6_000) < 0.1) % 3
    diagnosis = Guard({"state": np.array(["idle", "on", "off"])[state]}).diagnose()
    assert diagnosis.neighbours[0].correlation > 0.4
    assert diagnosis.sentences[0].startswith("Neighbouring rows of 'state' agree far more")


def test_several_rows_of_a_person_are_noticed_with_how_much_too_narrow_intervals_would_be():
    diagnosis = Guard(people(np.random.default_rng(3))).diagnose()
    pressure, coin = diagnosis.clusters
    assert (pressure.column, pressure.name, coin.name) == ("person", "pressure", "coin")
    assert pressure.correlation == pytest.approx(0.5, abs=0.06)
    assert pressure.rows_each == pytest.approx(8, abs=0.3)  # of the data, and not of the training part
    assert pressure.too_narrow == pytest.approx(math.sqrt(1 + 7 * 0.5), abs=0.15)
    assert abs(coin.z) < diagnosis.threshold
    (sentence,) = diagnosis.sentences
    assert sentence.startswith("Rows with the same 'person' resemble each other in 'pressure' (intraclass")
    assert "2.1 times too narrow. Use Guard(data, dependence=Clusters(column='person'))." in sentence


def test_no_correlation_inside_groups_is_above_one():
    """One large group lies at the top of the range, so its pairs have larger products than all rows."""
    rng = np.random.default_rng(3)
    person = np.concatenate([np.arange(3_000) // 3, np.full(300, 5_000)])
    income = np.concatenate([rng.random(3_000), np.full(300, 2.0)])
    diagnosis = Guard({"person": person, "income": income}).diagnose(by="person")
    (likeness,) = diagnosis.clusters
    assert likeness.correlation == 1.0
    assert likeness.design_effect == pytest.approx(likeness.rows_each)


def test_families_of_equal_rows_without_an_id_are_noticed():
    rng = np.random.default_rng(5)
    family = np.repeat(rng.normal(size=1_500), 4)
    diagnosis = Guard({"x": family, "t": np.repeat(rng.choice(list("abcdef"), 1_500), 4)}).diagnose()
    assert diagnosis.sentences[0].startswith("Neighbouring rows of 'x' and 't' agree far more")


def test_a_sorted_table_does_no_harm():
    rng = np.random.default_rng(6)
    age = np.sort(rng.integers(18, 90, 6_000))
    diagnosis = Guard({"age": age, "coin": rng.random(6_000)}).diagnose()
    assert not diagnosis.speaks_against
    assert diagnosis.sentences == (
        "The table is sorted by 'age'. That alone does no harm. It matters if rows that are near each other "
        "in this order depend on each other.",
        NOTHING,
    )
    drifting = Guard({"age": age, "income": age + 30 * rng.normal(size=6_000)}).diagnose()
    assert drifting.sentences[0].startswith("'income' changes along the table")
    assert drifting.neighbours[1].z > drifting.threshold > drifting.neighbours[1].nearby_z


def test_alternating_rows_are_noticed_as_harmless():
    rng = np.random.default_rng(7)
    rows = {"x": series(rng, 6_000, -0.9)}
    diagnosis = Guard(rows, dependence=MDependent(6_000, 50)).diagnose()
    assert diagnosis.neighbours[0].correlation < -0.8
    assert diagnosis.sentences[0].startswith(
        "Neighbouring rows of 'x' differ more than independent rows would"
    )


def test_a_question_is_looked_at_where_its_rows_enter():
    rng = np.random.default_rng(8)
    heat = series(rng, 9_000, 0.95)
    guard = Guard({"heat": heat, "inside": rng.random(9_000) < 0.5, "coin": rng.random(9_000)})
    warm = guard.diagnose("share(heat > 1, where = inside)")
    (seen,) = warm.neighbours
    assert seen.name == "share(heat > 1, where = inside)"
    assert seen.rows == guard.training_rows()["inside"].sum()
    assert seen.z > 10
    assert not guard.diagnose("mean(coin, 0, 1)").speaks_against
    assert guard.diagnose("quantile(heat, 0.5)").speaks_against
    assert guard.diagnose("difference(heat, inside, not inside, -5, 5)").speaks_against
    assert guard.diagnose(guard.to_score("heat > 1", target="heat > 0")).speaks_against
    # What is clipped away does not count.
    assert guard.diagnose("mean(heat, 90, 91)").neighbours == ()
    assert guard.spent == 0


def test_missing_values_are_left_out_or_count_as_the_question_says():
    rng = np.random.default_rng(9)
    x = np.where(rng.random(3_000) < 0.5, np.nan, rng.normal(size=3_000))
    guard = Guard({"x": x, "day": pd.Series(pd.NaT, index=range(3_000)), "name": [None] * 2_999 + ["a"]})
    (seen,) = guard.diagnose().neighbours
    assert seen.rows == guard.training_rows()["x"].notna().sum()
    assert guard.diagnose("mean(x, -3, 3, nulls = 'skip')").neighbours[0].rows == seen.rows
    assert guard.diagnose("mean(x, -3, 3, nulls = 0)").neighbours[0].rows == 1_000
    assert guard.diagnose("share(x > 0, nulls = False)").neighbours[0].rows == 1_000


def test_every_kind_of_column_is_looked_at():
    rng = np.random.default_rng(26)
    hours = pd.to_timedelta(np.arange(900), "h")
    rows = pd.DataFrame(
        {
            "endless": np.where(rng.random(900) < 0.3, np.inf, rng.normal(size=900)),
            "when": pd.to_datetime("2020-01-01", utc=True) + hours,
            "on": (pd.to_datetime("2020-01-01") + hours).date,
            "maybe": pd.array(rng.choice([True, False, None], 900), dtype="boolean"),
            "count": pd.array(rng.choice([1, 2, None], 900), dtype="Int64"),
            "large": rng.integers(0, 2**63, 900).astype("uint64"),
            "grade": pd.Categorical(rng.choice(["lo", "hi"], 900), categories=["lo", "hi"], ordered=True),
            "bytes": [b"x"] * 900,  # Cannot be asked about.
        }
    )
    guard = Guard(rows)
    diagnosis = guard.diagnose()
    assert [neighbour.name for neighbour in diagnosis.neighbours] == list(rows)[:-1]
    assert [neighbour.name for neighbour in diagnosis.neighbours if neighbour.is_time] == ["when", "on"]
    assert [neighbour.name for neighbour in diagnosis.neighbours if neighbour.is_sorted] == ["when", "on"]
    assert diagnosis.sentences[0].startswith("The table is sorted by 'when' and 'on'.")
    assert diagnosis.sentences[1:] == (NOTHING,)
    for question in (
        "cdf(endless)",
        "ratio(large, count, 0, 9, 1, 2, nulls = 'skip')",
        "share(grade = 'lo')",
    ):
        assert guard.diagnose(question).sentences == (NOTHING,)


def test_a_number_that_is_measured_is_no_id():
    """Rows with the same age have like incomes, and so have rows with the next age."""
    rng = np.random.default_rng(10)
    age = rng.integers(18, 90, 3_000)
    guard = Guard({"age": age, "income": age + 5 * rng.normal(size=3_000)})
    assert guard.diagnose().clusters == ()
    (named,) = guard.diagnose(by="age").clusters
    assert named.correlation > 0.8


def test_what_cannot_be_diagnosed_is_refused_for_free():
    rng = np.random.default_rng(11)
    guard = Guard(independent(rng))
    with pytest.raises(
        InvalidArgument, match=r"'by' argument of Guard\.diagnose must be a column: income, tax"
    ):
        guard.diagnose(by="persons")
    with pytest.raises(QueryRejected, match="There is no column 'ag'"):
        guard.diagnose("share(ag > 1)")
    scored = guard.to_score(np.ones(600, dtype=int), target="children", metric="accuracy")
    with pytest.raises(QueryRejected, match="Only questions about columns can be diagnosed"):
        guard.diagnose(scored)
    with pytest.raises(QueryRejected, match="There are no training rows to look at"):
        Guard(independent(rng), training_share=0).diagnose()
    assert guard.spent == 0


def test_at_most_fifty_columns_are_looked_at_and_the_others_are_named():
    rng = np.random.default_rng(12)
    diagnosis = Guard({f"c{number}": rng.random(90) for number in range(55)}).diagnose()
    assert len(diagnosis.neighbours) == 50
    assert diagnosis.not_looked_at == ("c50", "c51", "c52", "c53", "c54")
    assert "- 5 columns were not looked at: 'c50', 'c51', 'c52' and 2 more." in str(diagnosis)


def test_rows_that_stay_in_a_file_have_ids_and_no_order(tmp_path, monkeypatch):
    import holdfast.engines._rows as rows

    monkeypatch.setattr(rows, "_MOST_COPIED", 10)
    pd.DataFrame(people(np.random.default_rng(13))).to_parquet(tmp_path / "visits.parquet")
    diagnosis = Guard(tmp_path / "visits.parquet").diagnose()
    assert diagnosis.neighbours == ()
    assert diagnosis.clusters[0].rows_each == pytest.approx(8, abs=0.5)
    assert diagnosis.sentences[0].startswith("Rows with the same 'person'")


def test_long_tables_are_looked_at_in_stretches(monkeypatch):
    from holdfast.guard import _diagnose

    monkeypatch.setattr(_diagnose, "_MOST_ROWS", 1_600)
    rng = np.random.default_rng(14)
    rows = people(rng, 2_000, 8)
    rows["heat"] = series(rng, 16_000, 0.8)
    diagnosis = Guard(rows).diagnose()
    heat = diagnosis.neighbours[-1]
    assert (heat.name, heat.rows) == ("heat", 1_600)
    assert heat.correlation == pytest.approx(0.8**3, abs=0.15)
    assert diagnosis.clusters[0].rows_each == pytest.approx(8, abs=0.3)


def test_a_guard_with_a_model_says_what_it_assumes():
    rows = people(np.random.default_rng(15), shuffled=False)
    diagnosis = Guard(rows, dependence=Clusters([8] * 800)).diagnose()
    assert diagnosis.clusters[0].rows_each == pytest.approx(8)
    assert all("Guard(data" not in sentence for sentence in diagnosis.sentences)
    assert "This guard assumes independent clusters." in diagnosis.sentences[0]


def test_a_diagnosis_is_a_record(tmp_path):
    from matplotlib.figure import Figure

    diagnosis = Guard(people(np.random.default_rng(16))).diagnose()
    document = json.loads(json.dumps(diagnosis.to_dict()))
    assert document["clusters"][0]["column"] == "person"
    assert document["neighbours"][0]["lags"][:2] == [1, 2]
    assert str(diagnosis) == f"Diagnosis of 2,133 training rows, free:\n- {diagnosis.sentences[0]}"
    page = diagnosis._repr_html_()
    assert "<td>pressure</td>" in page
    assert f"{diagnosis.clusters[0].too_narrow:.2g}×</td>" in page
    figure = diagnosis.plot()
    assert isinstance(figure, Figure)
    assert [axis.get_xlabel() for axis in figure.axes] == [
        "rows apart in the table, about",
        "correlation of rows with the same id",
    ]
    figure.savefig(tmp_path / "diagnosis.png")
    quiet = Guard(independent(np.random.default_rng(17))).diagnose()
    quiet.plot().savefig(tmp_path / "quiet.png")


def warned(guard, *questions):
    """The sentences of all warnings that questions raise."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for question in questions:
            guard.ask(question)
    assert all(one.category is DependenceWarning for one in caught)
    assert all(one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


def test_a_guard_warns_once_of_a_series():
    rng = np.random.default_rng(18)
    rows = {"heat": series(rng, 6_000, 0.95), "cold": series(rng, 6_000, 0.95), "coin": rng.random(6_000)}
    guard = Guard(rows)
    assert warned(guard, "share(coin > 0.5)") == []
    (sentence,) = warned(guard, "share(heat > 1)", "share(cold > 1)", "share(heat > 0)")
    assert sentence.startswith(
        "This guard assumes independent rows. Neighbouring rows of share(heat > 1) agree far more than"
    )
    assert sentence.endswith("guard.diagnose() shows more.")
    assert warned(Guard(rows, dependence=MDependent(6_000, 200)), "share(heat > 1)") == []
    assert warned(Guard(rows, strategy="split", queries=5), "share(heat > 1)") == []
    assert warned(Guard(rows, training_share=0), "share(heat > 1, guess = 0.5)") == []


def test_a_guard_warns_of_persons():
    rng = np.random.default_rng(19)
    rows = people(rng)
    (sentence,) = warned(Guard(rows), "share(coin = 1)", "mean(pressure, -5, 5)", "share(pressure > 0)")
    assert "Rows with the same 'person' resemble each other in mean(pressure, -5, 5) (intr" in sentence
    assert warned(Guard(rows), "share(person = 'p1')", "share(coin = 1)") == []
    rows = people(rng, shuffled=False)
    assert warned(Guard(rows, dependence=Clusters([8] * 800)), "mean(pressure, -5, 5)") == []


def test_a_warning_that_is_an_error_charges_nothing():
    rng = np.random.default_rng(20)
    guard = Guard({"heat": series(rng, 6_000, 0.95)})
    with pytest.raises(DependenceWarning):
        guard.share("heat > 1")
    assert guard.spent == 0
    assert guard.share("heat > 1").value == pytest.approx(0.16, abs=0.05)


def test_sorted_and_independent_rows_do_not_warn():
    rng = np.random.default_rng(21)
    age = np.sort(rng.integers(18, 90, 6_000))
    rows = {
        "age": age,
        "income": age + 30 * rng.normal(size=6_000),
        "height": np.sort(rng.normal(size=6_000)),
    }
    assert warned(Guard(rows), "share(age > 40)", "mean(income, 0, 200)", "mean(height, -3, 3)") == []
    for seed in range(5):
        guard = Guard(independent(np.random.default_rng(seed)))
        assert warned(guard, "mean(income, 0, 10)", "share(tax > 1)", "share(rare)", "share(sex = 'f')") == []


def test_a_table_in_the_order_of_time_warns_and_one_in_that_of_a_price_does_not():
    """Goods of one price are alike, so neighbours are where prices stand in order."""
    rng = np.random.default_rng(22)
    place = np.sort(rng.integers(0, 1_500, 9_000))
    good = rng.normal(size=1_500)[place] > 0
    (by_price,) = warned(Guard({"price": place, "good": good}), "share(good)")
    (by_hour,) = warned(Guard({"hour": place, "good": good}), "share(good)")
    assert "Neighbouring rows" not in by_price
    assert "Rows with the same 'price' resemble each other" in by_price
    assert "Neighbouring rows" in by_hour


def test_only_the_first_few_sets_of_columns_are_looked_at(monkeypatch):
    from holdfast.guard import _diagnose

    rng = np.random.default_rng(23)
    guard = Guard({f"c{number}": rng.random(900) for number in range(20)})
    looked = []
    values_of = _diagnose.values_of
    monkeypatch.setattr(
        _diagnose,
        "values_of",
        lambda blocks, checked, name: looked.append(name) or values_of(blocks, checked, name),
    )
    guard.ask_all([f"share(c{number} > {level})" for number in range(20) for level in (0.3, 0.6)])
    assert looked == [f"share(c{number} > 0.3)" for number in range(8)]


def test_a_look_that_fails_is_no_reason_to_fail(monkeypatch):
    from holdfast.guard import _diagnose

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(_diagnose, "values_of", fails)
    guard = Guard(independent(np.random.default_rng(24)))
    assert guard.share("income > 1").high < 1


@pytest.mark.slow
def test_a_long_table_is_diagnosed_in_seconds():
    rng = np.random.default_rng(25)
    rows = {f"x{number}": rng.normal(size=337_000) for number in range(10)}
    rows |= {f"k{number}": rng.integers(0, 10 ** (number + 2), 337_000) for number in range(4)}
    rows |= {
        f"t{number}": rng.choice([f"v{i}" for i in range(10 ** (number + 1))], 337_000) for number in range(4)
    }
    guard = Guard(pd.DataFrame(rows))
    start = time.process_time()
    assert not guard.diagnose().speaks_against
    assert time.process_time() - start < 30


def test_clusters_in_order_warn_where_the_rows_are_shuffled():
    rng = np.random.default_rng(5)
    shuffled, ordered = people(rng), people(rng, shuffled=False)
    sizes = Clusters([8] * 800)
    with pytest.warns(DependenceWarning, match=r"do not seem to stand cluster by cluster.*column='person'"):
        Guard(shuffled, dependence=sizes).mean("pressure", bounds=(-6, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_order = Guard(ordered, dependence=sizes).mean("pressure", bounds=(-6, 6))
        by_name = Guard(shuffled, dependence=Clusters(column="person")).mean("pressure", bounds=(-6, 6))
    assert in_order.half_width == pytest.approx(by_name.half_width, rel=0.3)


def test_declaring_independent_rows_turns_the_warning_off():
    values = {"x": series(np.random.default_rng(3), 3_000, 0.9)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = Guard(values, dependence=Independent(3_000)).share("x > 0")
    assert answer.certificate.interval == "Clopper–Pearson"
