"""Models of how rows depend on one another, and the bounds that follow for their means.

Every model bounds the tail of a mean (:meth:`~Dependence.mean_tail`), says in words what it assumes, and,
where a rule is proved, sets rows aside as a free training part (:meth:`~Dependence.split`).

Names that are imported ``as`` themselves are for other packages of Holdfast.
"""

from typing import TYPE_CHECKING

from holdfast.dependence._clusters import Clusters, Independent
from holdfast.dependence._clusters import SimilarClusters as SimilarClusters
from holdfast.dependence._mixing import Blocks, BlockTail, Layout, MDependent, Mixing, beta_mixing_tail
from holdfast.dependence._model import Dependence, Split
from holdfast.lazy import lazy_names
from holdfast.tails import BestTail, ReportRow, ShiftedTail, TailReport, TailRow

if TYPE_CHECKING:
    from holdfast.dependence._chain import MarkovChain
    from holdfast.dependence._chain_privacy import coupling_bdp, spectral_dp
    from holdfast.dependence._fit import fit
    from holdfast.dependence._fitted import FittedChain, FittedNetwork
    from holdfast.dependence._gaussian import GaussianRows
    from holdfast.dependence._graph import ChromaticNumber, DependencyGraph
    from holdfast.dependence._holdout import HoldoutSettings as HoldoutSettings
    from holdfast.dependence._holdout import (
        blanket_holdout_rows,
        reusable_holdout_rows,
        reusable_holdout_tail,
    )
    from holdfast.dependence._network import BayesianNetwork, MarkovNetwork
    from holdfast.dependence._privacy import ExponentialChoice, LaplaceAnswer
    from holdfast.dependence._quilts import Quilt

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
            "BayesianNetwork": "_network",
            "ChromaticNumber": "_graph",
            "DependencyGraph": "_graph",
            "ExponentialChoice": "_privacy",
            "FittedChain": "_fitted",
            "FittedNetwork": "_fitted",
            "GaussianRows": "_gaussian",
            "HoldoutSettings": "_holdout",
            "LaplaceAnswer": "_privacy",
            "MarkovChain": "_chain",
            "MarkovNetwork": "_network",
            "Quilt": "_quilts",
            "blanket_holdout_rows": "_holdout",
            "coupling_bdp": "_chain_privacy",
            "fit": "_fit",
            "reusable_holdout_rows": "_holdout",
            "reusable_holdout_tail": "_holdout",
            "spectral_dp": "_chain_privacy",
        },
    )
