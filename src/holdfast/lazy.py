"""Names of a package that are imported on first use, so that a part that is not used costs nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import MissingExtra

__all__ = ["lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, str], *, extra: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose public names live in these private modules, or in
    other packages that are named in full.

    With ``extra``, a library that is not installed is reported as that extra.

    Args:
        package: The name of the package.
        homes: The private module of each public name.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        try:
            return getattr(importlib.import_module(home if "." in home else f"{package}.{home}"), name)
        except ModuleNotFoundError as missing:
            if extra is None or (missing.name or "").split(".")[0] == "holdfast":
                raise
            raise MissingExtra(extra, what=f"{package}.{name}") from None

    def __dir__() -> list[str]:  # noqa: N807
        return sorted(homes)

    return __getattr__, __dir__
