"""The service: a data owner lets many people ask, from one account a dataset, for years."""

from __future__ import annotations

import importlib
from typing import Any

# Names are imported on first use: tokens and policies do not need the web framework.
_HOME = {
    "Policy": "_policy",
    "Service": "_service",
    "Tokens": "_tokens",
    "create_app": "_app",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'holdfast.server' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"holdfast.server.{_HOME[name]}"), name)
    except ModuleNotFoundError as missing:
        from holdfast.errors import MissingExtra

        if (missing.name or "").split(".")[0] == "holdfast":
            raise
        raise MissingExtra("server", what="The service") from None


def __dir__() -> list[str]:
    return sorted(__all__)
