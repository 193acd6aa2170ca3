"""Replicable statistics and learning: two laboratories with the same tape and different samples get exactly
the same result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from holdfast.replicable._agnostic import agnostic
    from holdfast.replicable._amplify import amplify
    from holdfast.replicable._choose import choose, estimate_opt
    from holdfast.replicable._classifier import (
        PointwiseClassifier,
        ReplicableClassifier,
        pointwise_learners,
        pointwise_rho,
    )
    from holdfast.replicable._correlated import (
        correlated_choice,
        correlated_laplace,
        correlated_log_choice,
        correlated_name,
        correlated_normal,
    )
    from holdfast.replicable._design import Result
    from holdfast.replicable._gaussian import gaussian_mean, identity_test, least_eigenvalue
    from holdfast.replicable._heavy import heavy_hitters, list_heavy_hitter
    from holdfast.replicable._histogram import histogram
    from holdfast.replicable._interior import interior_point, learn_threshold
    from holdfast.replicable._learn_littlestone import (
        LittlestonePlan,
        LittlestoneWay,
        learn_littlestone,
        plan_littlestone,
    )
    from holdfast.replicable._littlestone import StandardOptimal, littlestone_dimension
    from holdfast.replicable._mean import difference, mean, slope
    from holdfast.replicable._quantile import median, quantile
    from holdfast.replicable._rounding import round_to_grid as round_to_grid
    from holdfast.replicable._search import ReplicableSearchCV
    from holdfast.replicable._sizes import SeveralPlan, SeveralWay, plan_several, power, sample_size
    from holdfast.replicable._tape import Tape, cantor_position, cantor_words, modular_position, modular_words
    from holdfast.replicable._tape import tape_argument as tape_argument

# Where each public name lives. Names are imported on first use: a mean does not wait for scikit-learn.
_HOME = {
    "ComparedWay": "_sizes",
    "LittlestonePlan": "_learn_littlestone",
    "LittlestoneWay": "_learn_littlestone",
    "PointwiseClassifier": "_classifier",
    "ReplicableClassifier": "_classifier",
    "ReplicableSearchCV": "_search",
    "Result": "_design",
    "SeveralPlan": "_sizes",
    "SeveralWay": "_sizes",
    "StandardOptimal": "_littlestone",
    "Tape": "_tape",
    "agnostic": "_agnostic",
    "amplify": "_amplify",
    "cantor_position": "_tape",
    "cantor_words": "_tape",
    "choose": "_choose",
    "compare_ways": "_sizes",
    "correlated_choice": "_correlated",
    "correlated_countable": "_correlated",
    "correlated_laplace": "_correlated",
    "correlated_log_choice": "_correlated",
    "correlated_name": "_correlated",
    "correlated_normal": "_correlated",
    "difference": "_mean",
    "estimate_opt": "_choose",
    "gaussian_mean": "_gaussian",
    "hashed_points": "_represented",
    "heavy_hitters": "_heavy",
    "histogram": "_histogram",
    "identity_test": "_gaussian",
    "interior_point": "_interior",
    "learn_littlestone": "_learn_littlestone",
    "learn_represented": "_represented",
    "learn_threshold": "_interior",
    "least_eigenvalue": "_gaussian",
    "list_heavy_hitter": "_heavy",
    "littlestone_dimension": "_littlestone",
    "mean": "_mean",
    "median": "_quantile",
    "modular_position": "_tape",
    "modular_words": "_tape",
    "plan_littlestone": "_learn_littlestone",
    "plan_several": "_sizes",
    "pointwise_learners": "_classifier",
    "pointwise_rho": "_classifier",
    "power": "_sizes",
    "quantile": "_quantile",
    "sample_size": "_sizes",
    "slope": "_mean",
    # For other packages of Holdfast.
    "round_to_grid": "_rounding",
    "tape_argument": "_tape",
}

__all__ = [
    "LittlestonePlan",
    "LittlestoneWay",
    "PointwiseClassifier",
    "ReplicableClassifier",
    "ReplicableSearchCV",
    "Result",
    "SeveralPlan",
    "SeveralWay",
    "StandardOptimal",
    "Tape",
    "agnostic",
    "amplify",
    "cantor_position",
    "cantor_words",
    "choose",
    "correlated_choice",
    "correlated_laplace",
    "correlated_log_choice",
    "correlated_name",
    "correlated_normal",
    "difference",
    "estimate_opt",
    "gaussian_mean",
    "heavy_hitters",
    "histogram",
    "identity_test",
    "interior_point",
    "learn_littlestone",
    "learn_threshold",
    "least_eigenvalue",
    "list_heavy_hitter",
    "littlestone_dimension",
    "mean",
    "median",
    "modular_position",
    "modular_words",
    "plan_littlestone",
    "plan_several",
    "pointwise_learners",
    "pointwise_rho",
    "power",
    "quantile",
    "sample_size",
    "slope",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOME)
