"""The service: a data owner lets many people ask, from one account a dataset, for years."""

from __future__ import annotations

from holdfast.lazy import lazy_names

# Names are imported on first use: tokens and policies do not need the web framework.
_HOME = {
    "Arrived": "_epochs",
    "Policy": "_policy",
    "Service": "_service",
    "Tokens": "_tokens",
    "create_app": "_app",
    "make_local_tools": "_agents",
    "make_tools": "_agents",
}

__all__ = list(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME, extra="server")
