"""Asking a table: the guard, its set-up, epochs, reports and diagnoses.

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
from holdfast.asking import Asker
from holdfast.guard._epoch import Epoch
from holdfast.guard._guard import Guard
from holdfast.guard._opening import Terms as Terms
from holdfast.guard._opening import TermsOptions as TermsOptions
from holdfast.guard._opening import number_option as number_option
from holdfast.guard._opening import open_session as open_session
from holdfast.guard._opening import whole_option as whole_option
from holdfast.guard._report import Report
from holdfast.guard._scores import ScoreRequest as ScoreRequest
from holdfast.guard._scores import ScoreVerbs
from holdfast.guard._setup import Content as Content
from holdfast.guard._setup import require_columns as require_columns
from holdfast.guard._verbs import Verbs
from holdfast.lazy import lazy_names
from holdfast.strategies import Discovery

if TYPE_CHECKING:
    from holdfast.boards import Board, FinalScore, Submission
    from holdfast.gates import Gate, GateReport, Verdict, Version
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
    "ScoreVerbs",
    "Submission",
    "Table",
    "Verbs",
    "Verdict",
    "Version",
]

# Modules that a Guard does not need are imported on first use, so that importing Guard stays fast.
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
        },
    )
