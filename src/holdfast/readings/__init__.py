"""What a question reads: the few numbers it takes from the rows, what the training part predicts of them,
and the interval that follows.

All names are for other packages of Holdfast.
"""

from holdfast.readings._clipping import Clipping as Clipping
from holdfast.readings._clipping import clipping_of as clipping_of
from holdfast.readings._clipping import keys_counted_by_cells as keys_counted_by_cells
from holdfast.readings._clipping import questions_counting_clipped as questions_counting_clipped
from holdfast.readings._curve import CurveQuestion as CurveQuestion
from holdfast.readings._curve import CurveReading as CurveReading
from holdfast.readings._curve import curve_by_bets as curve_by_bets
from holdfast.readings._curve import curve_question as curve_question
from holdfast.readings._curve import curve_reading as curve_reading
from holdfast.readings._expectation import Expectation as Expectation
from holdfast.readings._expectation import PublicFacts as PublicFacts
from holdfast.readings._expectation import expect as expect
from holdfast.readings._expectation import look as look
from holdfast.readings._question import CellQuestion as CellQuestion
from holdfast.readings._question import Moments as Moments
from holdfast.readings._question import Part as Part
from holdfast.readings._question import Question as Question
from holdfast.readings._question import StatisticQuestion as StatisticQuestion
from holdfast.readings._question import TableQuestion as TableQuestion
from holdfast.readings._question import custom_question as custom_question
from holdfast.readings._readings import BoundedMean as BoundedMean
from holdfast.readings._readings import MeanOfDependentRows as MeanOfDependentRows
from holdfast.readings._readings import Measured as Measured
from holdfast.readings._readings import Reading as Reading
from holdfast.readings._readings import Share as Share
from holdfast.readings._training import NOT_SEEN as NOT_SEEN
from holdfast.readings._training import OTHERS as OTHERS
from holdfast.readings._training import Hints as Hints
from holdfast.readings._training import question_of_all_groups as question_of_all_groups
from holdfast.readings._training import questions_of_groups as questions_of_groups
from holdfast.readings._training import range_of as range_of
from holdfast.readings._training import repeated_rows as repeated_rows
from holdfast.readings._training import require_values_inside as require_values_inside
from holdfast.readings._training import resolved as resolved
from holdfast.readings._training import too_few as too_few
from holdfast.readings._training import with_ranges as with_ranges
