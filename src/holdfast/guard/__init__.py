"""Asking: strategies, the account, answers and their certificates."""

from holdfast.guard._answer import Answer, Left, Preview
from holdfast.guard._certificate import Certificate
from holdfast.guard._guard import Guard

__all__ = ["Answer", "Certificate", "Guard", "Left", "Preview"]
