"""``private-graphs``: datasets, privacy accounting, training and audits without Snakemake.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 failed,
2 wrong usage, 3 over the budget, 130 interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import sys
import threading
import traceback
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from private_graphs.cli.terminal import print_text, say
from private_graphs.core.errors import (
    UsageError,
    UserError,
    lacks_memory,
    naming,
    system_code,
    system_error_text,
)

GROUPS = {
    "Your documents": {
        "declare": ("verbs", "Say who is protected, what is public, what may be spent."),
        "classify": ("verbs", "Train one classifier with a proved guarantee."),
        "predict": ("verbs", "Classify new documents with a released model."),
        "explain": ("verbs", "Say in plain words what a release guarantees."),
        "ledger": ("ledger", "Show what was spent of whose budget."),
        "attack": ("verbs", "Measure who can be recognised by classifiers like yours."),
    },
    "Papers": {
        "site": ("results", "Write the pages of all results, recorded and your own."),
        "paper": ("results", "Write a LaTeX folder with every table and figure."),
        "epsilon": ("accounting", "Price noisy steps: the epsilon of a noise multiplier."),
        "noise": ("accounting", "Find the noise multiplier of an epsilon."),
        "audit": ("audit", "Attack a training, of a paper or your own."),
        "train": ("train", "Train one job; print its scores and what is proved."),
        "dataset": ("data", "Build a dataset and print its sizes."),
        "rerun": ("rerun", "Compute recorded jobs again and compare every row."),
    },
    "Maintainers": {
        "record": ("results", "Record the results of a full run."),
        "restate": ("results", "Make the statements of recorded results again."),
    },
}
"""Group of commands -> command -> module in this package with the function of its name, and what
the list of commands says of it."""
COMMANDS = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}
"""Command -> its module."""
_LEAST = (("memory in MB (ulimit -v)", resource.RLIMIT_AS, 2**20, 1024),
          ("open files (ulimit -n)", resource.RLIMIT_NOFILE, 1, 32))  # fmt: skip
"""What the libraries of a release take, rounded up."""
INTERRUPTED = 130
"""Exit code after Ctrl-C; those after all signals are above 128, as in shells."""


class Grouped(TyperGroup):
    """Application whose help lists commands in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each with its line."""
        for head, group in GROUPS.items():
            with formatter.section(head):
                formatter.write_dl([(name, line) for name, (_, line) in group.items()])


def application(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the command line; only the modules of some commands are imported, which can run."""
    app = typer.Typer(
        cls=Grouped,
        help="Is the privacy that papers print real? And classifiers of your documents whose "
        "privacy is. COMMAND --help says more.",
        no_args_is_help=True,
        add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)  # requires the command's name even in an application with one
    for name, module in COMMANDS.items():
        if name not in names:  # it has a name to complete and to suggest
            app.command(name)(lambda: None)
            continue
        command = getattr(import_module(f"{__name__}.{module}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            from private_graphs.cli.signatures import command_of

            app.command()(command_of(command) if callable(command) else command.command())
    return app


def _print_version(flag: bool) -> None:
    if flag:
        from private_graphs.core.version import __version__

        print_text(f"private-graphs {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True,
                                          callback=_print_version)] = False,
) -> None:  # fmt: skip
    """Take the options that stand before a command."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point, which turns errors and Ctrl-C into one message and an exit code."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: a file of ours would take its number
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):  # a file name may have bytes that are no text
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):  # a stream that cannot be asked where it stands
                stream.reconfigure(errors="backslashreplace")
    try:
        given = sys.argv[1:] if arguments is None else arguments
        for before, word in zip(["private-graphs", *given], given, strict=False):
            if not word or (word.startswith("--") and word.endswith("=")):
                raise UsageError(f"{word or before}: an empty word follows; expected a value: "
                                 "give one, or leave the option out")  # fmt: skip
        flags = [word.partition("=")[0] for word in given if word[:2] == "--"]
        if twice := {f for f in flags if flags.count(f) > 1} - {"--set", "--command", "--names"}:
            raise UsageError(f"{min(twice)}: is given twice; give it once, with all its values")
        with naming("the folder that this command runs in"):
            os.getcwd()
        helps = not given or {"-h", "--help", "--version"} & {*given}
        if not helps:
            _require_machine()
        app = application(_needed(given))
        with naming("standard output") if helps else contextlib.nullcontext():
            app(args=given, prog_name="private-graphs")
    except UserError as error:
        say(f"error: {error}{_notes(error)}")
        sys.exit(getattr(error, "exit_code", 2 if isinstance(error, UsageError) else 1))
    except Exception as error:
        if not (words := _words_of(error)):  # a defect: its message may quote data
            if sys.flags.dev_mode:
                raise
            words = (
                f"a defect of private-graphs ({type(error).__name__} at {_place(error)}); "
                "please report it, with the output of python -X dev -m private_graphs …"
            )
        say(f"error: {words}{_notes(error)}")
        sys.exit(1)
    except (KeyboardInterrupt, SystemExit) as error:
        notes = _notes(error)
        code = error.code if isinstance(error, SystemExit) else INTERRUPTED
        if notes or (isinstance(code, int) and code > 128):
            say(f"interrupted{notes or '; nothing unfinished was saved'}")
        sys.exit(code)


def _words_of(error: Exception) -> str:
    """Return what the machine refuses, and what to do; "" for a defect."""
    if lacks_memory(error) and getattr(error, "filename", None) is None:
        return (f"not enough memory{f' ({error})' if str(error) else ''}; ask for less at once: "
                "smaller sizes, fewer runs")  # fmt: skip
    if isinstance(error, OSError) or system_code(error):
        return system_error_text(error)
    if isinstance(error, ImportError):
        return (f"a library of this installation cannot be read ({error}); install private-graphs "
                "anew, or correct the permissions")  # fmt: skip
    return ""


def _require_machine() -> None:
    """Raise UserError where libraries would abort, or fail in words that lead astray."""
    for what, kind, unit, least in _LEAST:
        if 0 <= (bound := resource.getrlimit(kind)[0] // unit) < least:
            raise UserError(f"not enough {what}: this shell allows {bound}; expected at least "
                            f"{least}: raise the limit")  # fmt: skip
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        raise UserError("no further thread may start: raise the limit (ulimit -u)") from None


def _needed(arguments: list[str]) -> Iterable[str]:
    """Return the words among which the command stands, also where a shell completes them."""
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return arguments or typed.split()


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
