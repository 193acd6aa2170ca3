"""The command line: its commands, and one way to fail.

Exit status: 0 done; 1 refused, because rows or budget do not suffice, the account is closed or a service says
no; 2 bad input.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

import click
from rich.console import Console

import holdfast
from holdfast import errors
from holdfast.cli._output import print_data, status_of, write_on_any_terminal
from holdfast.cli.account import epoch
from holdfast.cli.admin import admin
from holdfast.cli.ask import ask, report
from holdfast.cli.audit import audit
from holdfast.cli.books import backup, export, migrate, restore, verify
from holdfast.cli.gate import gate
from holdfast.cli.lab import bench, demo, figures
from holdfast.cli.plan import explain, leak, plan
from holdfast.cli.replicate import replicate
from holdfast.cli.serve import mcp, serve

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(holdfast.__version__, prog_name="holdfast")
def cli() -> None:
    """Ask one dataset as many questions as you like, each depending on the last, and still believe the
    answers."""


cli.add_command(admin)
cli.add_command(ask)
cli.add_command(bench)
cli.add_command(audit)
cli.add_command(backup)
cli.add_command(demo)
cli.add_command(epoch)
cli.add_command(explain)
cli.add_command(export)
cli.add_command(figures)
cli.add_command(gate)
cli.add_command(leak)
cli.add_command(mcp)
cli.add_command(migrate)
cli.add_command(plan)
cli.add_command(replicate)
cli.add_command(report)
cli.add_command(restore)
cli.add_command(serve)
cli.add_command(verify)
# A write to a full disk, or beyond a limit, does not say to which file.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SUBJECT = re.compile(r"The '\w+' argument(?: of .+?)? must be ")


def _report(error: errors.HoldfastError, *, as_json: bool) -> None:
    """Print an error: in words on stderr, or as one JSON object on stdout."""
    if as_json:
        print_data(error.to_dict())
    else:
        _say(str(error), "bold red")


def _say(message: str, style: str, *, in_one_line: bool = False) -> None:
    console = Console(stderr=True)
    console.print("holdfast:", style=style, end=" ")
    console.print(message, highlight=False, markup=False, soft_wrap=in_one_line)


def _print_dependence_warnings() -> None:
    """Print the warning of a guard as a sentence on stderr, without the file and line that it comes from."""
    show_other_warning = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
        if issubclass(category, errors.DependenceWarning):
            _say(str(message), "bold yellow", in_one_line=True)
        else:
            show_other_warning(message, category, *place, **options)

    warnings.simplefilter("always", errors.DependenceWarning)
    warnings.showwarning = show


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, then exit with its status."""
    with warnings.catch_warnings():
        _print_dependence_warnings()
        _run(arguments)


def _run(arguments: Sequence[str] | None) -> None:
    write_on_any_terminal()
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in command_line
    try:
        cli.main(args=command_line, prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
    except errors.HoldfastError as error:
        _report(error, as_json=as_json)
        sys.exit(status_of(error))
    except click.ClickException as error:
        if as_json:
            print_data({"error": type(error).__name__, "message": error.format_message()})
        else:
            error.show()
        sys.exit(2)
    except BrokenPipeError:
        # The reader of the pipe has closed it. Python flushes once more at the end, and that must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None and error.errno not in _FULL:
            raise
        what = "Cannot write" if error.filename is None else f"Cannot use {error.filename}"
        _report(errors.HoldfastError(f"{what}: {error.strerror}."), as_json=as_json)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    sys.exit(0)


def _name_options(command: click.Command) -> None:
    """Let error messages of a command, or of every command of a group, name its options.

    The user typed an option and does not know the argument of the library that it stands for.
    """
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            _name_options(subcommand)
        return
    call = command.callback
    assert call is not None

    @wraps(call)
    def call_and_rename(**values: Any) -> Any:
        try:
            return call(**values)
        except errors.InvalidArgument as error:
            _rename(error, command.params, values)
            raise

    command.callback = call_and_rename


def _rename(
    error: errors.InvalidArgument, parameters: Sequence[click.Parameter], values: Mapping[str, Any]
) -> None:
    options = {
        str(option.name): max(option.opts, key=len)
        for option in parameters
        if isinstance(option, click.Option)
    }
    name, rejected_value = error.argument, error.got
    # A notion or a question may have an argument of the same name; only the value distinguishes them.
    if name not in options or not _is_same_value(values[name], rejected_value):
        return
    words = _SUBJECT.sub(f"The {options[name]} option must be ", str(error), count=1)
    if rejected_value is None:
        words = words.removesuffix(" Got None instead.")
        for missing in (option_name for option_name in options if values[option_name] is None):
            words = re.sub(rf"(?<![-\w]){missing}\b", options[missing], words)
    error.argument, error.args = options[name], (words,)


def _is_same_value(option_value: Any, rejected_value: Any) -> bool:
    """Whether an option's value is what the library got; pairs arrive as either kind of sequence, and NaN is
    not equal to itself."""
    pair = (list, tuple)
    return repr(option_value) == repr(rejected_value) or (
        isinstance(option_value, pair)
        and isinstance(rejected_value, pair)
        and [*option_value] == [*rejected_value]
    )


_name_options(cli)
