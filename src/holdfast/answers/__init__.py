"""The records that users get: answers, tables, curves, previews, certificates, what is left, diagnoses.

This package also decides how they look. Users take these names from :mod:`holdfast` and
:mod:`holdfast.guard`.
"""

from holdfast.answers._answer import Answer as Answer
from holdfast.answers._answer import Certificate as Certificate
from holdfast.answers._answer import Left as Left
from holdfast.answers._answer import Preview as Preview
from holdfast.answers._answer import perhaps_too_wide as perhaps_too_wide
from holdfast.answers._answer import tells_nothing as tells_nothing
from holdfast.answers._diagnosis import MATTERS as MATTERS
from holdfast.answers._diagnosis import SHUFFLED as SHUFFLED
from holdfast.answers._diagnosis import TIMES as TIMES
from holdfast.answers._diagnosis import Diagnosis as Diagnosis
from holdfast.answers._diagnosis import Likeness as Likeness
from holdfast.answers._diagnosis import Neighbours as Neighbours
from holdfast.answers._diagnosis import close_sentence as close_sentence
from holdfast.answers._diagnosis import group_sentence as group_sentence
from holdfast.answers._diagnosis import sentences_of as sentences_of
from holdfast.answers._plot import History as History
from holdfast.answers._plot import account_html as account_html
from holdfast.answers._plot import plot_answers as plot_answers
from holdfast.answers._table import Curve as Curve
from holdfast.answers._table import GroupAnswer as GroupAnswer
from holdfast.answers._table import Table as Table
from holdfast.answers._table import group_label as group_label
