"""Results of evaluation tools, as one score per task: what a gate compares.

:func:`read_results` reads logs of Inspect, sample files of the LM Evaluation Harness, JUnit XML, CSV and JSON
Lines. No tool has to be installed for that.

Scores are sealed: whoever makes candidates must not see them. So no error message here shows a score, or
names a task because of its score, and the ``repr`` of :class:`Results` shows counts only.
"""

from holdfast.results._inspect import inspect_results
from holdfast.results._read import FORMATS, read_results
from holdfast.results._record import Results

__all__ = ["FORMATS", "Results", "inspect_results", "read_results"]
