"""``private-graphs``: datasets, privacy accounting, training and audits without Snakemake.

JSON goes to standard output, everything else to standard error. Exit codes: 0 done, 1 failed,
2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from private_graphs.cli_audit import audit
from private_graphs.cli_classify import WithMethods, classify
from private_graphs.cli_data import dataset
from private_graphs.cli_explain import explain
from private_graphs.cli_options import Delta
from private_graphs.cli_results import paper, publish, record, restate
from private_graphs.cli_terminal import print_json, say
from private_graphs.cli_train import train
from private_graphs.errors import UsageError, UserError

RENAMED = {"--setting": "--scenario", "--tuning-labels": "--validation-labels"}
"""Flags of the version before this one, which are still understood."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

app = typer.Typer(
    help="Differentially private graph learning: data, accounting, training, with a privacy "
    "statement on every result.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_ACCOUNTANTS = (
    "moments: the published formula (add_remove only); gdp: exact Gaussian, sampling rate 1; "
    "pld: privacy loss distribution, any sampling rate and relation."
)
Steps = Annotated[int, typer.Option(help="Number of noisy steps.")]
Rate = Annotated[float, typer.Option(help="Poisson sampling rate; 1 means every step sees all.")]
Relation = Annotated[
    str, typer.Option(help="What a neighbour is.", metavar="add_remove|zero_out|replace")
]


@app.command()
def epsilon(
    noise_multiplier: Annotated[
        float, typer.Option(help="Standard deviation of the noise in units of the clip norm.")
    ],
    steps: Steps,
    accountant: Annotated[
        str,
        typer.Option(
            metavar="moments|gdp|pld|cancelling",
            help=f"{_ACCOUNTANTS} cancelling: what the code of LREC 2022 prints, the formula with "
            "rounding errors that make it too small; no bound.",
        ),
    ] = "pld",
    sampling_rate: Rate = 1.0,
    delta: Delta = 1e-5,
    relation: Relation = "add_remove",
) -> None:
    """Print the epsilon of noisy, clipped gradient steps as JSON.

    Example: private-graphs epsilon --accountant gdp --noise-multiplier 112 --steps 2000
    --relation replace
    """
    from private_graphs.privacy.calibration import epsilon_for

    value = epsilon_for(accountant, noise_multiplier, steps, sampling_rate, delta, relation)
    print_json({"epsilon": value})


@app.command()
def noise(
    epsilon: Annotated[float, typer.Option(help="Privacy budget to keep.")],
    steps: Steps,
    accountant: Annotated[str, typer.Option(help=_ACCOUNTANTS, metavar="moments|gdp|pld")] = "pld",
    sampling_rate: Rate = 1.0,
    delta: Delta = 1e-5,
    relation: Relation = "add_remove",
) -> None:
    """Print the smallest noise multiplier (up to three decimals, rounded up) as JSON.

    Example: private-graphs noise --accountant gdp --epsilon 2 --steps 500 --relation replace
    """
    from private_graphs.privacy.calibration import noise_for

    value = noise_for(accountant, epsilon, steps, sampling_rate, delta, relation)
    print_json({"noise_multiplier": value})


app.command()(dataset)
app.command()(train)
app.command(cls=WithMethods)(classify)
app.command()(explain)
app.command()(audit)
app.command()(record)
app.command()(restate)
app.command()(publish)
app.command()(paper)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: turns errors and Ctrl-C into one message and an exit code."""
    try:
        app(args=_renamed(sys.argv[1:] if arguments is None else arguments),
            prog_name="private-graphs")  # fmt: skip
    except UserError as error:
        say(f"error: {error}")
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        why = error.strerror or error
        say(f"error: {place}cannot be read or written ({why}); check that it is there, its "
            "permissions and the room on the disk")  # fmt: skip
        sys.exit(1)
    except MemoryError as error:
        say(f"error: not enough memory{f' ({error})' if str(error) else ''}; ask for less at once: "
            "smaller sizes, fewer runs")  # fmt: skip
        sys.exit(1)
    except (KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code != INTERRUPTED:
            raise
        say("interrupted; no result was saved")
        sys.exit(INTERRUPTED)


def _renamed(arguments: list[str]) -> list[str]:
    """Return the arguments with the present names of flags; say which have changed."""
    renamed = []
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        if flag in RENAMED:
            say(f"{flag} is now {RENAMED[flag]}; the old name goes with the next version")
            argument = f"{RENAMED[flag]}{equals}{value}"
        renamed.append(argument)
    return renamed
