"""Attacks: questions chosen so that answers about an honest table mislead. Anyone may ask them.

``sign_attack`` asks a :class:`~holdfast.Guard` about its columns. All others ask any *answerer*. That is a
function that takes an :class:`AttackQuestion`, one value in [0, 1] for each row. It returns a number, or an
answer with ``value``, ``low`` and ``high``. The same code attacks other packages, guards and plain averages.

* :func:`vote_attack` turns each column the way its answer points. Then it asks for the vote.
* :func:`averaging_attack` also asks each question often, in other words, to average the noise away.
* :func:`linear_classifier_attack` keeps the columns that two parts agree on. It asks for their classifier.
* :func:`ladder_boosting_attack` submits random predictions to a leaderboard, then the majority of the best.
* :func:`differencing_attack` asks about everyone, then about all but one. The difference is one
  person's secret.
* :func:`fingerprint_attack` looks for the rows that the answers lean to, and asks about just these.
* :func:`chain_attack` asks for every parity of a chain's state, and for the vote that its stays suggest.

Names that are imported ``as`` themselves are for Holdfast's own simulations and benchmarks.
"""

from holdfast.audit.attacks._answerers import CodeAnswerer, naive, through
from holdfast.audit.attacks._answerers import CountedBoard as CountedBoard
from holdfast.audit.attacks._answerers import CountedGuard as CountedGuard
from holdfast.audit.attacks._answerers import CountedShare as CountedShare
from holdfast.audit.attacks._differencing import differencing_attack, fingerprint_attack
from holdfast.audit.attacks._protocol import Answerer, Attack, AttackQuestion
from holdfast.audit.attacks._sign import SignAttack, sign_attack
from holdfast.audit.attacks._votes import (
    averaging_attack,
    chain_attack,
    fair_signs,
    ladder_boosting_attack,
    linear_classifier_attack,
    sticky_states,
    vote_attack,
)

__all__ = [
    "Answerer",
    "Attack",
    "AttackQuestion",
    "CodeAnswerer",
    "SignAttack",
    "averaging_attack",
    "chain_attack",
    "differencing_attack",
    "fair_signs",
    "fingerprint_attack",
    "ladder_boosting_attack",
    "linear_classifier_attack",
    "naive",
    "sign_attack",
    "sticky_states",
    "through",
    "vote_attack",
]
