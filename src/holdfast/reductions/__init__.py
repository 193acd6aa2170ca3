"""Compilers between the kinds of stability: an algorithm goes in with its guarantee, another comes out.

Theory: ``docs/theory/reductions.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from holdfast.reductions._agnostic import private_agnostic
    from holdfast.reductions._algorithm import Algorithm
    from holdfast.reductions._amplify import amplify_delta, amplify_generalization, amplify_replicability
    from holdfast.reductions._instances import exponential_choice, heavy_hitter, laplace_mean
    from holdfast.reductions._mismatch import dp_replicability, replicability_budget
    from holdfast.reductions._perfect import replicable_to_perfect
    from holdfast.reductions._private import item_to_user_level, replicable_to_dp
    from holdfast.reductions._replicable import (
        dp_to_replicable,
        noise_replicability,
        noise_to_replicable,
        perfect_to_replicable,
    )

# Where each public name lives. Names are imported on first use.
_HOME = {
    "Algorithm": "_algorithm",
    "amplify_delta": "_amplify",
    "amplify_generalization": "_amplify",
    "amplify_replicability": "_amplify",
    "dp_replicability": "_mismatch",
    "dp_to_replicable": "_replicable",
    "exponential_choice": "_instances",
    "heavy_hitter": "_instances",
    "item_to_user_level": "_private",
    "laplace_mean": "_instances",
    "noise_replicability": "_replicable",
    "noise_to_replicable": "_replicable",
    "perfect_to_replicable": "_replicable",
    "private_agnostic": "_agnostic",
    "replicability_budget": "_mismatch",
    "replicable_to_dp": "_private",
    "replicable_to_perfect": "_perfect",
}

__all__ = [
    "Algorithm",
    "amplify_delta",
    "amplify_generalization",
    "amplify_replicability",
    "dp_replicability",
    "dp_to_replicable",
    "exponential_choice",
    "heavy_hitter",
    "item_to_user_level",
    "laplace_mean",
    "noise_replicability",
    "noise_to_replicable",
    "perfect_to_replicable",
    "private_agnostic",
    "replicability_budget",
    "replicable_to_dp",
    "replicable_to_perfect",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOME)
