"""Compilers between the kinds of stability: an algorithm goes in with its guarantee, another comes out.

Theory: ``docs/theory/reductions.md``.
"""

from __future__ import annotations

from holdfast.lazy import lazy_names

# Where each public name lives. Names are imported on first use.
_HOME = {
    "Algorithm": "_algorithm",
    "amplify_delta": "_amplify_delta",
    "amplify_generalization": "_amplify_generalization",
    "amplify_replicability": "_amplify_replicability",
    "dp_replicability": "_mismatch",
    "dp_to_replicable": "_replicable",
    "exponential_choice": "_instances",
    "heavy_hitter": "_instances",
    "item_to_user_level": "_user_level",
    "laplace_mean": "_instances",
    "noise_replicability": "_density",
    "noise_to_replicable": "_density",
    "perfect_to_replicable": "_replicable",
    "private_agnostic": "_agnostic",
    "replicability_budget": "_mismatch",
    "replicable_to_dp": "_private",
    "replicable_to_perfect": "_perfect",
}

__all__ = list(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME)
