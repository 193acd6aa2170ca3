"""The notions of stability as small frozen values, their composition, and the conversions between them.

Typical stability, differential privacy, Bayesian differential privacy, max-information, perfect
generalisation and replicability: each is a record of checked numbers with the operations its theorems allow.
Every operation has ``method="sharp"`` (the default) and, where the literature prints one, ``method="paper"``.
:func:`convert` and :func:`explain` follow the published arrows from one notion to another.

Names that are imported ``as`` themselves are for other packages of Holdfast, and ``ARROWS`` for the pages
that draw the graph.
"""

from holdfast.stability._adaptive import (
    adaptive_failure,
    azuma,
    azuma_intervals,
    azuma_with_drift,
    expected_loss,
    hoeffding_lemma,
    polya_lengths,
    polya_tail,
    polya_variance,
)
from holdfast.stability._arrows import ARROWS as ARROWS
from holdfast.stability._compilers import (
    PerfectPlan,
    PrivatePlan,
    exponential_excess,
    perfect_plan,
    private_plan,
    selection_threshold,
)
from holdfast.stability._compilers import chance_disagreement as chance_disagreement
from holdfast.stability._compilers import coin_disagreement as coin_disagreement
from holdfast.stability._compilers import estimation_distance as estimation_distance
from holdfast.stability._compilers import mean_distance as mean_distance
from holdfast.stability._compilers import outcome_variance as outcome_variance
from holdfast.stability._compilers import private_distance as private_distance
from holdfast.stability._composition import composed_delta, log_composed_delta_pure, optimal_epsilon
from holdfast.stability._dp import DP, BayesianDP
from holdfast.stability._generalization import MaxInformation, PerfectGeneralization
from holdfast.stability._graph import convert, explain
from holdfast.stability._notation import NODES as NODES
from holdfast.stability._notation import node_of as node_of
from holdfast.stability._notation import parse_notion
from holdfast.stability._notion import EFFICIENT as EFFICIENT
from holdfast.stability._notion import EXPLICIT as EXPLICIT
from holdfast.stability._notion import SAME as SAME
from holdfast.stability._notion import Notion as Notion
from holdfast.stability._notion import Path, Step
from holdfast.stability._profiles import Gaussian, Laplace, gaussian_delta, laplace_delta
from holdfast.stability._replicability import (
    GoodCoins,
    Replicability,
    collision_probability,
    disagreement_bound,
)
from holdfast.stability._transfer import TransferError, split_error, transfer_error
from holdfast.stability._transfer import transfer_exponent as transfer_exponent
from holdfast.stability._typical import SetStability, TwoSampleStability, TypicalStability, conditioned
from holdfast.stability._typical_error import TypicalError, typical_gaussian_error, typical_laplace_error

__all__ = [
    "DP",
    "BayesianDP",
    "Gaussian",
    "GoodCoins",
    "Laplace",
    "MaxInformation",
    "Path",
    "PerfectGeneralization",
    "PerfectPlan",
    "PrivatePlan",
    "Replicability",
    "SetStability",
    "Step",
    "TransferError",
    "TwoSampleStability",
    "TypicalError",
    "TypicalStability",
    "adaptive_failure",
    "azuma",
    "azuma_intervals",
    "azuma_with_drift",
    "collision_probability",
    "composed_delta",
    "conditioned",
    "convert",
    "disagreement_bound",
    "expected_loss",
    "explain",
    "exponential_excess",
    "gaussian_delta",
    "hoeffding_lemma",
    "laplace_delta",
    "log_composed_delta_pure",
    "optimal_epsilon",
    "parse_notion",
    "perfect_plan",
    "polya_lengths",
    "polya_tail",
    "polya_variance",
    "private_plan",
    "selection_threshold",
    "split_error",
    "transfer_error",
    "typical_gaussian_error",
    "typical_laplace_error",
]
