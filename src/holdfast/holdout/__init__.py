"""Reusable holdouts: a training part answers as long as the holdout agrees with it.

Users take these names from :mod:`holdfast` and :mod:`holdfast.guard`.
"""

from holdfast.holdout._holdout import CodeHoldout as CodeHoldout
from holdfast.holdout._holdout import ReusableHoldout as ReusableHoldout
from holdfast.holdout._parts import Promise as Promise
from holdfast.holdout._parts import SparseNoise as SparseNoise
