"""Planning: what each method would promise before any question is asked, and what scores already gave away.

:func:`plan` puts every method side by side for one promise; :func:`leak` is for those who already reused a
test set, and :func:`recipe` for a winner that can be written down in a few bytes. :func:`gate_power`,
:func:`gate_gain` and :func:`gate_tasks` say what a gate can see. Theory: ``docs/theory/planning.md`` and
``docs/theory/gate.md``.
"""

from holdfast.planning._gate import GatePower, gate_gain, gate_power, gate_tasks
from holdfast.planning._leak import Leak, Rounding, leak
from holdfast.planning._plan import Plan, PlanEntry, plan, plot_plan
from holdfast.planning._recipe import COMPRESSORS, RecipeLeak, RecipeLimit, recipe
from holdfast.stability import TypicalError, typical_gaussian_error, typical_laplace_error

__all__ = [
    "COMPRESSORS",
    "GatePower",
    "Leak",
    "Plan",
    "PlanEntry",
    "RecipeLeak",
    "RecipeLimit",
    "Rounding",
    "TypicalError",
    "gate_gain",
    "gate_power",
    "gate_tasks",
    "leak",
    "plan",
    "plot_plan",
    "recipe",
    "typical_gaussian_error",
    "typical_laplace_error",
]
