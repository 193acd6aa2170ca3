"""How a question is priced and what of it is released: the code guard, agreed numbers, noise, splitting.

All names are for other packages of Holdfast. Users take ``Discovery`` from :mod:`holdfast.guard`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names
from holdfast.strategies._code import CodeStrategy as CodeStrategy
from holdfast.strategies._code import PreparedCode as PreparedCode
from holdfast.strategies._discover import CLAIM as CLAIM
from holdfast.strategies._discover import ClaimQuestion as ClaimQuestion
from holdfast.strategies._discover import Discovery as Discovery
from holdfast.strategies._discover import split_claim as split_claim
from holdfast.strategies._discover import whole_rate as whole_rate
from holdfast.strategies._strategy import STRATEGIES as STRATEGIES
from holdfast.strategies._strategy import TRAINING_SHARES as TRAINING_SHARES
from holdfast.strategies._strategy import Outcome as Outcome
from holdfast.strategies._strategy import Prepared as Prepared
from holdfast.strategies._strategy import Preparing as Preparing
from holdfast.strategies._strategy import Setup as Setup
from holdfast.strategies._strategy import Strategy as Strategy
from holdfast.strategies._strategy import choose_strategy as choose_strategy
from holdfast.strategies._strategy import default_share as default_share

if TYPE_CHECKING:
    from holdfast.strategies._noise import promised_with as promised_with
    from holdfast.strategies._noise import transfer_noise as transfer_noise
    from holdfast.strategies._noise import typical_noise as typical_noise
    from holdfast.strategies._noise import typical_plan as typical_plan

__all__: list[str] = []

# Noise is rarely used, and its module is slow to import.
if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(
        __name__,
        {
            "promised_with": "_noise",
            "transfer_noise": "_noise",
            "typical_noise": "_noise",
            "typical_plan": "_noise",
        },
    )
