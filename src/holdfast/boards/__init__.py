"""Boards: many people submit predictions, scores stay valid, and a sealed part decides once at the end.

Users take these names from :mod:`holdfast.guard`.
"""

from holdfast.boards._board import Board as Board
from holdfast.boards._predictions import Predictions as Predictions
from holdfast.boards._rules import FinalScore as FinalScore
from holdfast.boards._rules import LadderStrategy as LadderStrategy
from holdfast.boards._rules import PreparedComparison as PreparedComparison
from holdfast.boards._rules import Submission as Submission
