"""Whether prices can be paid: the prior behind them must not sum to more than one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from holdfast import checks
from holdfast.audit._finding import Finding
from holdfast.errors import InvalidArgument


def prior(prices: Iterable[Any], *, name: str = "prices") -> Finding:
    """What the prior behind a question's prices sums to, at least: Σ exp(−price) over different outputs.

    ``prices`` are in nats, one for each output that the question could have; of infinitely many outputs, give
    as many as you like. A guard whose prices sum to more than 1 sells knowledge too cheaply.

    Guarantee: deterministic; the sum over all outputs is at least ``low``. More than 1 contradicts the code
    guard's validity, however long an analyst would need to use it.
    Assumes: that the prices belong to different outputs of one question (not checkable).
    Reference: theory 2.2, Kraft's inequality.

    >>> import math
    >>> prior([math.log(2)] * 2).verdict
    'not refuted'
    >>> prior([math.log(4 / 3)] * 2).verdict
    'refuted'
    """
    listed = checks.reals(prices, "prices", "[0, inf)", of="prior", by="theory 2.2")
    # Each exponential is within an ulp and fsum rounds once; a fair prior must not be refuted by rounding.
    mass = math.fsum(math.exp(-price) for price in listed) * (1 - 1e-12)
    if not math.isfinite(mass):
        raise InvalidArgument("prices", "numbers whose exponentials can be added", prices, of="prior")
    return Finding(
        "prior",
        name,
        "sum of the prior",
        len(listed),
        mass,
        mass,
        math.inf,
        1.0,
        1.0,
        statement=f"{len(listed):,} outputs have prices that stand for a total probability of {mass:.6g}.",
        assumes=("The prices belong to different outputs of one question.",),
        details={"outputs": len(listed)},
    )
