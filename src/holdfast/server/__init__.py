"""The service: many people ask the datasets of an owner, with one account for each dataset.

Names that are imported ``as`` themselves are for the shell and for those who deploy a service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from holdfast.registry import Arrived, Policy, Service, Tokens
    from holdfast.registry import back_up as back_up
    from holdfast.registry import restore as restore
    from holdfast.registry import standing as standing
    from holdfast.server._admission import Limits as Limits
    from holdfast.server._agents import make_local_tools, make_tools
    from holdfast.server._app import create_app
    from holdfast.server._connections import listen as listen
    from holdfast.server._observation import Tracing as Tracing
    from holdfast.server._observation import logging_to as logging_to
    from holdfast.server._serving import Settings as Settings
    from holdfast.server._serving import serve_here as serve_here
    from holdfast.server._serving import stopped_by_signal as stopped_by_signal
    from holdfast.server._serving import supervise as supervise

# Names are imported on first use: tokens and policies do not need the web framework.
_HOME = {
    "Arrived": "holdfast.registry",
    "Policy": "holdfast.registry",
    "Service": "holdfast.registry",
    "Tokens": "holdfast.registry",
    "create_app": "_app",
    "make_local_tools": "_agents",
    "make_tools": "_agents",
    # For those who deploy it, and pass them to create_app.
    "Limits": "_admission",
    "Tracing": "_observation",
    # For holdfast.cli.
    "Settings": "_serving",
    "back_up": "holdfast.registry",
    "listen": "_connections",
    "logging_to": "_observation",
    "restore": "holdfast.registry",
    "serve_here": "_serving",
    "standing": "holdfast.registry",
    "stopped_by_signal": "_serving",
    "supervise": "_serving",
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
