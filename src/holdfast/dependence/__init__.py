"""Dependence: how rows depend on one another, and what may then be said about their means.

Every model bounds the tail of a mean (:meth:`~Dependence.mean_tail`), says in words what it assumes, and,
where a rule is proved, sets rows aside as a free training part (:meth:`~Dependence.split`).
"""

from typing import TYPE_CHECKING

from holdfast.dependence._best import BestTail, ReportRow, ShiftedTail, TailReport, TailRow
from holdfast.dependence._clusters import Clusters
from holdfast.dependence._independent import Independent
from holdfast.dependence._layouts import Layout
from holdfast.dependence._mixing import BlockTail, Mixing, beta_mixing_tail
from holdfast.dependence._model import Dependence
from holdfast.dependence._split import Split
from holdfast.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast.dependence._bayesian_network import BayesianNetwork
    from holdfast.dependence._blocks import Blocks
    from holdfast.dependence._chain import MarkovChain
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
    from holdfast.dependence._markov_network import MarkovNetwork
    from holdfast.dependence._quilts import Quilt
    from holdfast.dependence._spectral import spectral_dp

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

# Most tables need no chain and no network. Those are imported on first use, so that Guard is imported fast.
if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(
        __name__,
        {
            "BayesianNetwork": "_bayesian_network",
            "Blocks": "_blocks",
            "ChromaticNumber": "_colouring",
            "DependencyGraph": "_graph",
            "ExponentialChoice": "_disclosure",
            "FittedChain": "_fitted",
            "FittedNetwork": "_fitted_network",
            "GaussianRows": "_gaussian",
            "LaplaceAnswer": "_disclosure",
            "MDependent": "_graph",
            "MarkovChain": "_chain",
            "MarkovNetwork": "_markov_network",
            "Quilt": "_quilts",
            "blanket_holdout_rows": "_holdout",
            "coupling_bdp": "_coupling",
            "fit": "_fit",
            "reusable_holdout_rows": "_holdout",
            "reusable_holdout_tail": "_holdout",
            "spectral_dp": "_spectral",
        },
    )
