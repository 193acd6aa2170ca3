"""An ordered finite domain: where a replicable quantile may lie, and how many questions lead to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.replicable._arguments import bounds_argument
from holdfast.replicable._elementary import Floats

__all__ = ["Domain", "domain_argument"]

_MOST = 2**62
_LARGEST_KEY = int(np.float64(np.finfo(np.float64).max).view(np.int64))


@dataclass(frozen=True)
class Domain:
    """The places 0 … ``count`` − 1 in order: listed values, a lattice, or every finite float."""

    count: int
    listed: Floats | None = None
    low: float = 0.0
    step: float = 0.0

    @property
    def questions(self) -> int:
        """How many halvings find one place."""
        return (self.count - 1).bit_length()

    def places(self, values: Floats) -> npt.NDArray[np.int64]:
        """The sorted places of the values: exact for floats, the nearest of a lattice, the next listed."""
        if self.listed is not None:
            found = np.minimum(np.searchsorted(self.listed, values), self.count - 1)
        elif self.step:
            found = np.clip(np.round((values - self.low) / self.step), 0, self.count - 1).astype(np.int64)
        else:
            bits = (values + 0.0).view(np.int64)  # + 0.0 makes −0.0 the same float as 0.0
            found = np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)
        return np.sort(found)

    def key(self, place: int) -> int:
        """The place as :meth:`places` writes it; floats are counted from zero, so that it fits 64 bits."""
        return place if self.listed is not None or self.step else place - _LARGEST_KEY

    def value(self, place: int) -> float:
        """The number at a place."""
        if self.listed is not None:
            return float(self.listed[place])
        if self.step:
            return self.low + place * self.step
        key = place - _LARGEST_KEY
        size = float(np.int64(abs(key)).view(np.float64))
        return size if key >= 0 else -size


def domain_argument(domain: Any, bounds: Any, resolution: Any, *, of: str, by: str) -> Domain:
    """The listed ``domain``; or the multiples of ``resolution`` within ``bounds``; or every finite float."""
    if domain is not None:
        if bounds is not None or resolution is not None:
            raise InvalidArgument(
                "domain", "given without bounds and resolution", domain, of=of, reference=by
            )
        listed = np.array(checks.reals(domain, "domain", "(-inf, inf)", of=of, by=by))
        if not (np.diff(listed) > 0.0).all():
            raise InvalidArgument("domain", "numbers in increasing order", domain, of=of, reference=by)
        return Domain(listed.size, listed=listed)
    if bounds is None and resolution is None:
        return Domain(2 * _LARGEST_KEY + 1)
    if bounds is None or resolution is None:
        raise InvalidArgument("resolution", "given together with bounds", resolution, of=of, reference=by)
    low, high = bounds_argument(bounds, of=of, by=by)
    step = checks.real(resolution, "resolution", "(0, inf)", of=of, by=by)
    if not 1.0 <= (high - low) / step < _MOST:
        expected = f"at most the length of the bounds, {high - low:g}, and not absurdly less"
        raise InvalidArgument("resolution", expected, resolution, of=of, reference=by)
    return Domain(int(np.floor((high - low) / step + 1e-9)) + 1, low=low, step=step)
