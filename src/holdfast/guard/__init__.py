"""Asking: strategies, the account, answers and their certificates.

Names that are imported ``as`` themselves are for other packages of Holdfast.
"""

from typing import TYPE_CHECKING

from holdfast.guard._answer import Answer, Certificate, Left, Preview
from holdfast.guard._curve import Curve
from holdfast.guard._diagnosis import Diagnosis, Likeness, Neighbours
from holdfast.guard._discover import Discovery
from holdfast.guard._epoch import Epoch
from holdfast.guard._guard import Guard
from holdfast.guard._report import Report
from holdfast.guard._session import Asker
from holdfast.guard._table import GroupAnswer, Table
from holdfast.guard._verbs import Verbs
from holdfast.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast.guard._board import Board, FinalScore, Submission
    from holdfast.guard._board_rules import LadderStrategy as LadderStrategy
    from holdfast.guard._code import CodeStrategy as CodeStrategy
    from holdfast.guard._code import PreparedCode as PreparedCode
    from holdfast.guard._gate import Gate
    from holdfast.guard._noise import promised_with as promised_with
    from holdfast.guard._noise import transfer_noise as transfer_noise
    from holdfast.guard._noise import typical_noise as typical_noise
    from holdfast.guard._noise import typical_plan as typical_plan
    from holdfast.guard._question import Moments as Moments
    from holdfast.guard._question import Part as Part
    from holdfast.guard._question import Question as Question
    from holdfast.guard._reusable_holdout import CodeHoldout, ReusableHoldout
    from holdfast.guard._strategy import TRAINING_SHARES as TRAINING_SHARES
    from holdfast.guard._verdict import GateReport, Verdict, Version

__all__ = [
    "Answer",
    "Asker",
    "Board",
    "Certificate",
    "CodeHoldout",
    "Curve",
    "Diagnosis",
    "Discovery",
    "Epoch",
    "FinalScore",
    "Gate",
    "GateReport",
    "GroupAnswer",
    "Guard",
    "Left",
    "Likeness",
    "Neighbours",
    "Preview",
    "Report",
    "ReusableHoldout",
    "Submission",
    "Table",
    "Verbs",
    "Verdict",
    "Version",
]

# What a Guard does not need is imported on first use, so that importing Guard stays fast.
if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(
        __name__,
        {
            "Board": "_board",
            "CodeHoldout": "_reusable_holdout",
            "FinalScore": "_board",
            "Gate": "_gate",
            "GateReport": "_verdict",
            "ReusableHoldout": "_reusable_holdout",
            "Submission": "_board",
            "Verdict": "_verdict",
            "Version": "_verdict",
            # For holdfast.planning and holdfast.audit.
            "CodeStrategy": "_code",
            "LadderStrategy": "_board_rules",
            "Moments": "_question",
            "Part": "_question",
            "PreparedCode": "_code",
            "Question": "_question",
            "TRAINING_SHARES": "_strategy",
            "promised_with": "_noise",
            "transfer_noise": "_noise",
            "typical_noise": "_noise",
            "typical_plan": "_noise",
        },
    )
