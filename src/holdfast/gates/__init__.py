"""Gates: may this candidate replace the incumbent? Asked again and again, with one account.

Users take these names from :mod:`holdfast` and :mod:`holdfast.guard`.
"""

from holdfast.gates._gate import Gate as Gate
from holdfast.gates._verdict import GateReport as GateReport
from holdfast.gates._verdict import Verdict as Verdict
from holdfast.gates._verdict import Version as Version
