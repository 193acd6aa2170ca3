"""Tapes whose coins a test chooses, and the thresholds that coins pick."""

from __future__ import annotations

import math

import numpy as np

from holdfast.replicable import Tape


def rigged(uniform):
    """A tape whose uniform numbers are all this one, on every branch: what a tape decides is then known."""

    class Rigged(Tape):
        def uniforms(self, count, *, start=0):
            return np.full(count, uniform)

    return Rigged("rigged")


class CountThreshold:
    """Thresholds among ``low`` … ``high`` for a count of ``trials``, picked by uniform coins, as the lemma of
    docs/theory/replicable-estimation.md has them: ⌊(n+1) sin²θ⌋ − 1 for an even θ."""

    def __init__(self, trials, low, high):
        self.trials, self.low, self.high = trials, low, high
        self.ends = [math.asin(math.sqrt(i / (trials + 1))) for i in (low + 1, high + 2)]

    def __call__(self, coins):
        angle = self.ends[0] + (self.ends[1] - self.ends[0]) * coins
        drawn = np.floor((self.trials + 1) * np.sin(angle) ** 2).astype(int) - 1
        return np.clip(drawn, self.low, self.high)
