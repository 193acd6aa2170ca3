"""Analysts who try to make an honest table lie; each asks only what anyone may ask.

``sign_attack`` asks a :class:`~holdfast.Guard` about its columns. All others ask any *answerer*: a function
that is given a :class:`AttackQuestion`, which says one value in [0, 1] for each row, and returns a number or
an answer with ``value``, ``low`` and ``high``. Peers, guards and plain averages are attacked with the same
code.

================================ ==========================================================================
:func:`vote_attack`              turn each column the way its answer points, ask for the vote
:func:`averaging_attack`         the same, each question asked often, in other words, to average noise away
:func:`linear_classifier_attack` keep the columns that two parts agree on, ask for the classifier they make
:func:`ladder_boosting_attack`   random predictions on a leaderboard, and the majority of the good ones
:func:`differencing_attack`      everyone, and everyone but one: the difference is one person's secret
:func:`fingerprint_attack`       which rows do the answers lean to; ask for just these
:func:`chain_attack`             every parity of a chain's state, and the vote that its stays suggest
================================ ==========================================================================

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
