"""What a compiled algorithm puts to the vote, and the exact law of what comes out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from reductions_oracles import vote_law

from holdfast.reductions import Algorithm, _agnostic, _vote
from holdfast.replicable import Tape


@dataclass(frozen=True)
class Election:
    """The ballots of one run, and the ε, the reserve and the list of outcomes that it votes with."""

    ballots: tuple[tuple[Any, ...], ...]
    epsilon: float
    reserve: float
    outcomes: tuple[Any, ...] | None

    def law(
        self, items: tuple[Any, ...], *, weight: float | None = None, reserve: float | None = None
    ) -> np.ndarray:
        """P(item), and P(nobody) last unless outcomes are listed; with another ε or reserve if given."""
        counts = Counter(item for ballot in self.ballots for item in set(ballot))
        assert set(counts) <= set(items)
        held = None if self.outcomes is not None else self.reserve if reserve is None else reserve
        return vote_law([counts[item] for item in items], self.epsilon if weight is None else weight, held)


def election(private: Algorithm, rows: Any, tape: Tape) -> Election:
    """What ``private`` puts to the vote on these rows. The vote itself does not take place."""
    seen: list[Election] = []

    def spy(ballots, epsilon, *, reserve=0.0, outcomes=None, seed=None):
        seen.append(Election(tuple(tuple(ballot) for ballot in ballots), epsilon, reserve, outcomes))

    with pytest.MonkeyPatch.context() as patch:
        for module in (_vote, _agnostic):
            patch.setattr(module, "elect", spy)
        private(rows, tape)
    (one,) = seen
    return one
