"""The command line: one file a command, one way to fail.

Exit status: 0 done; 1 a refusal by statistics, by the budget or by a service that is administered; 2 bad
input.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console

import holdfast
from holdfast import errors
from holdfast.cli._options import name_options
from holdfast.cli._output import print_data, write_on_any_terminal
from holdfast.cli.admin import admin
from holdfast.cli.ask import ask
from holdfast.cli.audit import audit
from holdfast.cli.backup import backup, restore
from holdfast.cli.bench import bench
from holdfast.cli.demo import demo
from holdfast.cli.epoch import epoch
from holdfast.cli.explain import explain
from holdfast.cli.export import export
from holdfast.cli.figures import figures
from holdfast.cli.gate import gate
from holdfast.cli.leak import leak
from holdfast.cli.mcp import mcp
from holdfast.cli.migrate import migrate
from holdfast.cli.plan import plan
from holdfast.cli.replicate import replicate
from holdfast.cli.report import report
from holdfast.cli.serve import serve
from holdfast.cli.verify import verify

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
name_options(cli)

_REFUSALS = (errors.BudgetSpent, errors.NotEnoughRows, errors.ServiceRefused)


def _report(error: errors.HoldfastError, *, as_json: bool) -> None:
    """Say what went wrong: to people in words on stderr, to machines as one JSON object on stdout."""
    if as_json:
        details = {name: value for name, value in vars(error).items() if value is not None}
        print_data({"error": type(error).__name__, "message": str(error), **details})
    else:
        _say(str(error), "bold red")


def _say(message: str, style: str, *, in_one_line: bool = False) -> None:
    console = Console(stderr=True)
    console.print("holdfast:", style=style, end=" ")
    console.print(message, highlight=False, markup=False, soft_wrap=in_one_line)


def _tell_of_dependence() -> None:
    """Print the one warning of a guard as a sentence on stderr, without the file and line it comes from."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, errors.DependenceWarning):
            _say(str(message), "bold yellow", in_one_line=True)
        else:
            shown(message, category, *place, **more)

    warnings.simplefilter("always", errors.DependenceWarning)
    warnings.showwarning = show


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status."""
    with warnings.catch_warnings():
        _tell_of_dependence()
        _run(arguments)


def _run(arguments: Sequence[str] | None) -> None:
    write_on_any_terminal()
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        cli.main(args=given, prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
    except errors.HoldfastError as error:
        _report(error, as_json=as_json)
        sys.exit(1 if isinstance(error, _REFUSALS) else 2)
    except click.ClickException as error:
        if as_json:
            print_data({"error": type(error).__name__, "message": error.format_message()})
        else:
            error.show()
        sys.exit(2)
    except BrokenPipeError:
        # Whoever read the output has seen enough; the last flush, which is Python's own, must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise
        _report(errors.HoldfastError(f"Cannot use {error.filename}: {error.strerror}."), as_json=as_json)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    sys.exit(0)
