"""What a model of the rows says about means: of bounded values, or of the rows themselves."""

from __future__ import annotations

from holdfast.dependence import Dependence
from holdfast.errors import QueryRejected
from holdfast.tails import Tail


def tail_of_bounded_mean(model: Dependence, low: float, high: float) -> Tail:
    """The tail of a mean of values in [low, high]; refused, without data, where the model has none."""
    if not model.bounded:
        raise QueryRejected(
            f"{model.name} say how the mean of the rows themselves varies, and nothing about shares, "
            "quantiles and clipped values. Use strategy='code', 'typical-gaussian' or 'typical-laplace' and "
            "ask with guard.custom(lambda rows: rows['x'].mean(), tail=model.mean_tail()), or give another "
            "model."
        )
    return model.mean_tail(low, high)


def widest_tail(model: Dependence) -> Tail:
    """The tail of the widest question that the model has an answer for: a share, or the mean of the rows."""
    return model.mean_tail()
