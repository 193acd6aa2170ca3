"""Any classifier, replicable at each point: the exact mismatch of votes, and scikit-learn's own checks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.intervals import clopper_pearson
from holdfast.replicable import PointwiseClassifier, pointwise_learners, pointwise_rho
from holdfast.stability import collision_probability

NATS = math.log(1e5)


@parametrize_with_checks([PointwiseClassifier(), PointwiseClassifier(GaussianNB(), learners=2)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("learners", [1, 2, 5, 32, 100])
def test_the_mismatch_at_a_point_by_enumeration(learners):
    votes = np.arange(learners + 1) / learners
    apart = np.abs(np.subtract.outer(votes, votes))
    worst = 0.0
    for p in np.linspace(0.0, 1.0, 41):
        law = stats.binom.pmf(np.arange(learners + 1), learners, p)
        worst = max(worst, float(law @ apart @ law))
    assert worst <= pointwise_rho(learners) <= 1.0 / math.sqrt(math.pi * learners)
    # Reached at p = ½, so anything smaller by 1 % is wrong.
    assert worst > 0.99 * pointwise_rho(learners) or learners == 1


def test_three_classes_by_enumeration():
    learners = 6
    shares = [(a, b, learners - a - b) for a in range(learners + 1) for b in range(learners + 1 - a)]
    law = stats.multinomial(learners, [1 / 3] * 3).pmf(shares)
    votes = np.array(shares) / learners
    mismatch = sum(
        p * q * (1.0 - collision_probability(first, second))
        for p, first in zip(law, votes, strict=True)
        for q, second in zip(law, votes, strict=True)
    )
    assert mismatch <= pointwise_rho(learners, 3)
    assert mismatch > pointwise_rho(16 * learners, 3)


def test_thirty_two_learners_are_enough_for_a_tenth():
    assert pointwise_learners(0.1) == 32
    assert pointwise_rho(31) > 0.1 >= pointwise_rho(32)
    assert pointwise_rho(10, 1) == 0.0


def _rows(rng, count):
    x = rng.normal(size=(count, 2))
    return x, (x @ [1.0, -0.5] + rng.normal(size=count) > 0.0).astype(int)


def test_two_laboratories_disagree_at_a_point_as_rarely_as_promised(seed):
    rng = np.random.default_rng(seed)
    points = np.array([[0.02, 0.05], [1.5, 0.0]])
    trials, rho = 150, 0.2
    differ, alone = np.zeros(2), np.zeros(2)
    for number in range(trials):
        tape = f"{seed} {number}"
        models = [
            PointwiseClassifier(GaussianNB(), rho=rho, tape=tape).fit(*_rows(rng, 160)) for _ in range(2)
        ]
        first, second = (model.predict(points) for model in models)
        differ += first != second
        # The twin: a tape of its own for the second laboratory.
        models[1].coins_ = PointwiseClassifier(tape=tape + " other").fit(*_rows(rng, 20)).coins_
        alone += first != models[1].predict(points)
    for count in differ:
        assert clopper_pearson(int(count), trials, NATS).low <= rho
    assert clopper_pearson(int(alone[0]), trials, NATS).low > rho


def test_it_classifies_about_as_well_as_one_learner(seed):
    rng = np.random.default_rng(seed)
    x, y = _rows(rng, 6400)
    fresh, labels = _rows(rng, 4000)
    one = LogisticRegression().fit(x[:200], y[:200]).score(fresh, labels)
    model = PointwiseClassifier(LogisticRegression(), tape=str(seed)).fit(x, y)
    assert len(model.estimators_) == 32
    assert model.score(fresh, labels) > one - 0.03
    assert np.allclose(model.vote_shares(fresh).sum(axis=1), 1.0)


def test_too_few_rows_and_bad_arguments():
    x, y = _rows(np.random.default_rng(0), 40)
    model = PointwiseClassifier(tape="x").fit(x, y)
    assert len(model.estimators_) == 20
    assert model.guarantee_.rho == pointwise_rho(20)
    with pytest.raises(NotEnoughRows):
        PointwiseClassifier(best_effort=False).fit(x, y)
    with pytest.raises(InvalidArgument, match="learners"):
        PointwiseClassifier(learners=0).fit(x, y)
    with pytest.raises(InvalidArgument, match="rho"):
        PointwiseClassifier(rho=0.0).fit(x, y)
