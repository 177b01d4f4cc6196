"""``private-graphs``: datasets, privacy accounting, training and audits without Snakemake.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 failed,
2 wrong usage, 3 over the budget, 130 interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

import contextlib
import io
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from private_graphs.cli.terminal import say
from private_graphs.core.errors import (
    UsageError,
    UserError,
    lacks_memory,
    system_code,
    system_error_text,
)

COMMANDS = {
    "declare": "declared",
    "classify": "classify",
    "predict": "declared",
    "attack": "declared",
    "explain": "explain",
    "ledger": "declared",
    "epsilon": "accounting",
    "noise": "accounting",
    "dataset": "data",
    "train": "train",
    "audit": "audit",
    "rerun": "rerun",
    "record": "results",
    "restate": "results",
    "site": "results",
    "paper": "results",
}
"""Command -> module in this package with the function of the same name."""
RENAMED = {"--setting": "--scenario", "--tuning-labels": "--validation-labels"}
"""Flags of the previous version, still accepted."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""


def application(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the command line with some commands; only their modules are imported."""
    app = typer.Typer(
        help="Differentially private graph learning: data, accounting, training, with a privacy "
        "statement on every result.",
        no_args_is_help=True,
        add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)  # requires the command's name even in an application with one
    for name in names:
        module = import_module(f"{__name__}.{COMMANDS[name]}")
        app.command(cls=getattr(module, "COMMAND_CLASS", None))(getattr(module, name))
    return app


def _print_version(flag: bool) -> None:
    if flag:
        from private_graphs.core.version import __version__

        typer.echo(f"private-graphs {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True,
                     callback=_print_version),
    ] = False,
) -> None:  # fmt: skip
    """Take the options that stand before a command."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point, which turns errors and Ctrl-C into one message and an exit code."""
    for stream in (sys.stdout, sys.stderr):  # a file name may have bytes that are no text
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):  # a stream that cannot be asked where it stands
                stream.reconfigure(errors="backslashreplace")
    try:
        given = _renamed(sys.argv[1:] if arguments is None else arguments)
        app = application(given[:1] if given[:1] and given[0] in COMMANDS else COMMANDS)
        app(args=given, prog_name="private-graphs")
    except UserError as error:
        say(f"error: {error}{_notes(error)}")
        sys.exit(getattr(error, "exit_code", 2 if isinstance(error, UsageError) else 1))
    except Exception as error:  # a defect: its message may quote data, its place does not
        if lacks_memory(error):
            say(f"error: not enough memory{f' ({error})' if str(error) else ''}; ask for less at "
                f"once: smaller sizes, fewer runs{_notes(error)}")  # fmt: skip
            sys.exit(1)
        if isinstance(error, OSError) or system_code(error):
            say(f"error: {system_error_text(error)}{_notes(error)}")
            sys.exit(1)
        if sys.flags.dev_mode:
            raise
        say(
            f"error: a defect of private-graphs ({type(error).__name__} at {_place(error)}); "
            "please report it, with what python -X dev -m private_graphs prints of the same command"
            f"{_notes(error)}"
        )
        sys.exit(1)
    except (KeyboardInterrupt, SystemExit) as error:
        notes = _notes(error)
        if not isinstance(error, SystemExit) or error.code == INTERRUPTED or notes:
            say(f"interrupted{notes or '; no result was saved'}")
        sys.exit(error.code if isinstance(error, SystemExit) else INTERRUPTED)


def _notes(error: BaseException | None) -> str:
    """Return what was noted on an error, or on the one behind it: what is paid for."""
    while error is not None:
        if notes := getattr(error, "__notes__", ()):
            return "".join(f"; {each}" for each in notes)
        error = error.__cause__ or error.__context__  # typer ends Ctrl-C with an error of its own
    return ""


def _place(error: Exception) -> str:
    """Return the innermost lines of an error, without what they say."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)


def _renamed(arguments: list[str]) -> list[str]:
    """Return the arguments with renamed flags replaced; print which have changed."""
    renamed = []
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        if flag in RENAMED:
            say(f"{flag} is now {RENAMED[flag]}; the old name goes with the next version")
            argument = f"{RENAMED[flag]}{equals}{value}"
        renamed.append(argument)
    return renamed
