"""What an answer may say and what it costs: accounts, priors, alphabets, cells, stages and ladders.

Everything here is arithmetic on public facts and earlier outputs: no rows, no book. ``holdfast.guard`` reads
and records, ``holdfast.planning`` forecasts and ``holdfast.audit`` simulates on these rules.
"""

from holdfast.coding._account import MICRO, PROMISES, Account, Weights, look_nats
from holdfast.coding._alphabet import WHOLE, Alphabet, ArmClasses, Output
from holdfast.coding._cell import (
    PRECISE_NATS,
    after_expected,
    best_half_cell,
    cell_entropy,
    coming_questions,
    training_share,
)
from holdfast.coding._experience import FAILURE_SHARE, Experience
from holdfast.coding._grid import Grid
from holdfast.coding._ladder import LadderAlphabet, LadderGrid
from holdfast.coding._learned import COUNTING_WEIGHT, SCALES, Claims, Learned, Mixture, forgetting_price
from holdfast.coding._promotions import PromotionAlphabet
from holdfast.coding._stages import (
    ROOMS,
    Agreement,
    Run,
    Schedule,
    checked_schedule,
    grid_schedule,
    guess_deviation,
    honest_deviations,
    lacking,
    largest_tried,
    least_error,
    price,
    runs,
)

__all__ = [
    "COUNTING_WEIGHT",
    "FAILURE_SHARE",
    "MICRO",
    "PRECISE_NATS",
    "PROMISES",
    "ROOMS",
    "SCALES",
    "WHOLE",
    "Account",
    "Agreement",
    "Alphabet",
    "ArmClasses",
    "Claims",
    "Experience",
    "Grid",
    "LadderAlphabet",
    "LadderGrid",
    "Learned",
    "Mixture",
    "Output",
    "PromotionAlphabet",
    "Run",
    "Schedule",
    "Weights",
    "after_expected",
    "best_half_cell",
    "cell_entropy",
    "checked_schedule",
    "coming_questions",
    "forgetting_price",
    "grid_schedule",
    "guess_deviation",
    "honest_deviations",
    "lacking",
    "largest_tried",
    "least_error",
    "look_nats",
    "price",
    "runs",
    "training_share",
]
