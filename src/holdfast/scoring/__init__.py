"""Scoring predictions: metrics, arrays of predictions, and fitted models.

All names are for other packages of Holdfast.
"""

from holdfast.scoring._metrics import METRICS as METRICS
from holdfast.scoring._metrics import Scale as Scale
from holdfast.scoring._metrics import compare_query as compare_query
from holdfast.scoring._metrics import require_probabilities as require_probabilities
from holdfast.scoring._metrics import score_query as score_query
from holdfast.scoring._metrics import scored_expression as scored_expression
from holdfast.scoring._scores import ScoreQuestion as ScoreQuestion
from holdfast.scoring._scores import compare_question as compare_question
from holdfast.scoring._scores import require_labels as require_labels
from holdfast.scoring._scores import scale_of as scale_of
from holdfast.scoring._scores import score_question as score_question
