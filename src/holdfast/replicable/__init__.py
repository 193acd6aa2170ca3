"""Replicable statistics and learning: two laboratories with the same tape and different samples get exactly
the same result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from holdfast.replicable._agnostic import agnostic
    from holdfast.replicable._amplify import amplify
    from holdfast.replicable._cantor import cantor_position, cantor_words, modular_position, modular_words
    from holdfast.replicable._choose import choose
    from holdfast.replicable._classifier import ReplicableClassifier
    from holdfast.replicable._continuous import correlated_laplace, correlated_normal
    from holdfast.replicable._contrast import difference, slope
    from holdfast.replicable._correlated import correlated_choice, correlated_log_choice, correlated_name
    from holdfast.replicable._eigenvalue import least_eigenvalue
    from holdfast.replicable._gaussian import gaussian_mean
    from holdfast.replicable._heavy import heavy_hitters
    from holdfast.replicable._histogram import histogram
    from holdfast.replicable._identity import identity_test
    from holdfast.replicable._interior import interior_point, learn_threshold
    from holdfast.replicable._learn_littlestone import learn_littlestone
    from holdfast.replicable._list_heavy import list_heavy_hitter
    from holdfast.replicable._littlestone import StandardOptimal, littlestone_dimension
    from holdfast.replicable._littlestone_plan import LittlestonePlan, LittlestoneWay, plan_littlestone
    from holdfast.replicable._mean import mean
    from holdfast.replicable._opt import estimate_opt
    from holdfast.replicable._pointwise import PointwiseClassifier, pointwise_learners, pointwise_rho
    from holdfast.replicable._power import power
    from holdfast.replicable._quantile import median, quantile
    from holdfast.replicable._result import Result
    from holdfast.replicable._search import ReplicableSearchCV
    from holdfast.replicable._several import SeveralPlan, SeveralWay, plan_several
    from holdfast.replicable._sizes import sample_size
    from holdfast.replicable._tape import Tape

# Where each public name lives. Names are imported on first use: a mean does not wait for scikit-learn.
_HOME = {
    "ComparedWay": "_compared",
    "LittlestonePlan": "_littlestone_plan",
    "LittlestoneWay": "_littlestone_plan",
    "PointwiseClassifier": "_pointwise",
    "ReplicableClassifier": "_classifier",
    "ReplicableSearchCV": "_search",
    "Result": "_result",
    "SeveralPlan": "_several",
    "SeveralWay": "_several",
    "StandardOptimal": "_littlestone",
    "Tape": "_tape",
    "agnostic": "_agnostic",
    "amplify": "_amplify",
    "cantor_position": "_cantor",
    "cantor_words": "_cantor",
    "choose": "_choose",
    "compare_ways": "_compared",
    "correlated_choice": "_correlated",
    "correlated_countable": "_countable",
    "correlated_laplace": "_continuous",
    "correlated_log_choice": "_correlated",
    "correlated_name": "_correlated",
    "correlated_normal": "_continuous",
    "difference": "_contrast",
    "estimate_opt": "_opt",
    "gaussian_mean": "_gaussian",
    "hashed_points": "_represented",
    "heavy_hitters": "_heavy",
    "histogram": "_histogram",
    "identity_test": "_identity",
    "interior_point": "_interior",
    "learn_littlestone": "_learn_littlestone",
    "learn_represented": "_represented",
    "learn_threshold": "_interior",
    "least_eigenvalue": "_eigenvalue",
    "list_heavy_hitter": "_list_heavy",
    "littlestone_dimension": "_littlestone",
    "mean": "_mean",
    "median": "_quantile",
    "modular_position": "_cantor",
    "modular_words": "_cantor",
    "plan_littlestone": "_littlestone_plan",
    "plan_several": "_several",
    "pointwise_learners": "_pointwise",
    "pointwise_rho": "_pointwise",
    "power": "_power",
    "quantile": "_quantile",
    "sample_size": "_sizes",
    "slope": "_contrast",
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
