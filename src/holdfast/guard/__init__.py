"""Asking: strategies, the account, answers and their certificates.

Names that are imported ``as`` themselves are for other packages of Holdfast.
"""

from typing import TYPE_CHECKING

from holdfast.answers import (
    Answer,
    Certificate,
    Curve,
    Diagnosis,
    GroupAnswer,
    Left,
    Likeness,
    Neighbours,
    Preview,
    Table,
)
from holdfast.guard._asking import Member as Member
from holdfast.guard._asking import answer_together as answer_together
from holdfast.guard._clean_room import Failed as Failed
from holdfast.guard._clean_room import may_be_alive as may_be_alive
from holdfast.guard._clean_room import read_protected as read_protected
from holdfast.guard._clean_room import reader as reader
from holdfast.guard._code import CodeStrategy as CodeStrategy
from holdfast.guard._code import PreparedCode as PreparedCode
from holdfast.guard._content import Content as Content
from holdfast.guard._content import open_session as open_session
from holdfast.guard._discover import Discovery
from holdfast.guard._epoch import Epoch
from holdfast.guard._guard import Guard
from holdfast.guard._metrics import METRICS as METRICS
from holdfast.guard._metrics import Scale as Scale
from holdfast.guard._metrics import compare_query as compare_query
from holdfast.guard._metrics import score_query as score_query
from holdfast.guard._question import Moments as Moments
from holdfast.guard._question import Part as Part
from holdfast.guard._question import Question as Question
from holdfast.guard._readings import BoundedMean as BoundedMean
from holdfast.guard._readings import Reading as Reading
from holdfast.guard._readings import Share as Share
from holdfast.guard._release import released as released
from holdfast.guard._report import Report
from holdfast.guard._scores import ScoreQuestion as ScoreQuestion
from holdfast.guard._scores import score_question as score_question
from holdfast.guard._session import NOBODY as NOBODY
from holdfast.guard._session import Asked as Asked
from holdfast.guard._session import Asker
from holdfast.guard._session import Released as Released
from holdfast.guard._session import Settled as Settled
from holdfast.guard._setup import require_columns as require_columns
from holdfast.guard._strategy import TRAINING_SHARES as TRAINING_SHARES
from holdfast.guard._strategy import Outcome as Outcome
from holdfast.guard._verbs import Verbs
from holdfast.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast.boards import Board, FinalScore, Submission
    from holdfast.gates import Gate, GateReport, Verdict, Version
    from holdfast.guard._noise import promised_with as promised_with
    from holdfast.guard._noise import transfer_noise as transfer_noise
    from holdfast.guard._noise import typical_noise as typical_noise
    from holdfast.guard._noise import typical_plan as typical_plan
    from holdfast.holdout import CodeHoldout, ReusableHoldout

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
            "Board": "holdfast.boards",
            "CodeHoldout": "holdfast.holdout",
            "FinalScore": "holdfast.boards",
            "Gate": "holdfast.gates",
            "GateReport": "holdfast.gates",
            "ReusableHoldout": "holdfast.holdout",
            "Submission": "holdfast.boards",
            "Verdict": "holdfast.gates",
            "Version": "holdfast.gates",
            # For holdfast.planning and holdfast.audit.
            "promised_with": "_noise",
            "transfer_noise": "_noise",
            "typical_noise": "_noise",
            "typical_plan": "_noise",
        },
    )
