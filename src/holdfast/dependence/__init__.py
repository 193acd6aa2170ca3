"""Dependence: how rows depend on one another, and what may then be said about their means.

Every model bounds the tail of a mean (:meth:`~Dependence.mean_tail`), says in words what it assumes, and,
where a rule is proved, sets rows aside as a free training part (:meth:`~Dependence.split`).
"""

from holdfast.dependence._bayesian_network import BayesianNetwork
from holdfast.dependence._best import BestTail, ReportRow, ShiftedTail, TailReport, TailRow
from holdfast.dependence._blocks import Blocks
from holdfast.dependence._chain import MarkovChain
from holdfast.dependence._clusters import Clusters
from holdfast.dependence._colouring import ChromaticNumber
from holdfast.dependence._coupling import coupling_bdp
from holdfast.dependence._disclosure import ExponentialChoice, LaplaceAnswer
from holdfast.dependence._fit import fit
from holdfast.dependence._fitted import FittedChain
from holdfast.dependence._fitted_network import FittedNetwork
from holdfast.dependence._gaussian import GaussianRows
from holdfast.dependence._graph import DependencyGraph, MDependent
from holdfast.dependence._holdout import (
    blanket_holdout_rows,
    reusable_holdout_rows,
    reusable_holdout_tail,
)
from holdfast.dependence._independent import Independent
from holdfast.dependence._layouts import Layout
from holdfast.dependence._markov_network import MarkovNetwork
from holdfast.dependence._mixing import BlockTail, Mixing, beta_mixing_tail
from holdfast.dependence._model import Dependence
from holdfast.dependence._quilts import Quilt
from holdfast.dependence._spectral import spectral_dp
from holdfast.dependence._split import Split

__all__ = [
    "BayesianNetwork",
    "BestTail",
    "BlockTail",
    "Blocks",
    "ChromaticNumber",
    "Clusters",
    "Dependence",
    "DependencyGraph",
    "ExponentialChoice",
    "FittedChain",
    "FittedNetwork",
    "GaussianRows",
    "Independent",
    "LaplaceAnswer",
    "Layout",
    "MDependent",
    "MarkovChain",
    "MarkovNetwork",
    "Mixing",
    "Quilt",
    "ReportRow",
    "ShiftedTail",
    "Split",
    "TailReport",
    "TailRow",
    "beta_mixing_tail",
    "blanket_holdout_rows",
    "coupling_bdp",
    "fit",
    "reusable_holdout_rows",
    "reusable_holdout_tail",
    "spectral_dp",
]
