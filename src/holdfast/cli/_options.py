"""Whoever typed an option reads about the option, and not about the argument it is in the library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

import click

from holdfast.errors import InvalidArgument

_SUBJECT = re.compile(r"The '\w+' argument(?: of .+?)? must be ")


def name_options(command: click.Command) -> None:
    """Let a command, or every command of a group, say which of its options was wrong."""
    if isinstance(command, click.Group):
        for inside in command.commands.values():
            name_options(inside)
        return
    call = command.callback
    assert call is not None

    @wraps(call)
    def called(**given: Any) -> Any:
        try:
            return call(**given)
        except InvalidArgument as error:
            _rename(error, command.params, given)
            raise

    command.callback = called


def _rename(error: InvalidArgument, parameters: Sequence[click.Parameter], given: Mapping[str, Any]) -> None:
    options = {str(one.name): max(one.opts, key=len) for one in parameters if isinstance(one, click.Option)}
    name, got = error.argument, error.got
    # The value tells an option from an argument of the same name inside a notion or a question.
    if name not in options or not _same(given[name], got):
        return
    words = _SUBJECT.sub(f"The {options[name]} option must be ", str(error), count=1)
    if got is None:
        words = words.removesuffix(" Got None instead.")
        for missing in (other for other in options if given[other] is None):
            words = re.sub(rf"(?<![-\w]){missing}\b", options[missing], words)
    error.argument, error.args = options[name], (words,)


def _same(given: Any, got: Any) -> bool:
    """Whether an option's value is what the library got; pairs arrive as either kind of sequence, and NaN is
    not equal to itself."""
    pair = (list, tuple)
    return repr(given) == repr(got) or (
        isinstance(given, pair) and isinstance(got, pair) and [*given] == [*got]
    )
