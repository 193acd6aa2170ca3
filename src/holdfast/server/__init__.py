"""The service: a data owner lets many people ask, from one account a dataset, for years."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from holdfast.server._agents import make_local_tools, make_tools
    from holdfast.server._app import create_app
    from holdfast.server._people import Tokens
    from holdfast.server._policy import Arrived, Policy
    from holdfast.server._service import Service

# Names are imported on first use: tokens and policies do not need the web framework.
_HOME = {
    "Arrived": "_policy",
    "Policy": "_policy",
    "Service": "_service",
    "Tokens": "_people",
    "create_app": "_app",
    "make_local_tools": "_agents",
    "make_tools": "_agents",
}

__all__ = [
    "Arrived",
    "Policy",
    "Service",
    "Tokens",
    "create_app",
    "make_local_tools",
    "make_tools",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOME, extra="server")
