"""Replicable statistics and learning: two laboratories with the same tape and different samples get exactly
the same result."""

from __future__ import annotations

from holdfast.lazy import lazy_names

# Where each public name lives. Names are imported on first use: a mean does not wait for scikit-learn.
_HOME = {
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
    "correlated_choice": "_correlated",
    "correlated_laplace": "_continuous",
    "correlated_log_choice": "_correlated",
    "correlated_name": "_correlated",
    "correlated_normal": "_continuous",
    "difference": "_contrast",
    "estimate_opt": "_opt",
    "gaussian_mean": "_gaussian",
    "heavy_hitters": "_heavy",
    "histogram": "_histogram",
    "identity_test": "_identity",
    "interior_point": "_interior",
    "learn_littlestone": "_learn_littlestone",
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

__all__ = list(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME)
