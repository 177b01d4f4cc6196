"""``private-graphs epsilon`` and ``noise``: privacy accounting of noisy, clipped gradient steps."""

from __future__ import annotations

from typing import Annotated

import typer

from private_graphs.cli.options import Delta
from private_graphs.cli.terminal import print_json

_ACCOUNTANTS = (
    "moments: the published formula (add_remove only); gdp: exact Gaussian, sampling rate 1; "
    "pld: privacy loss distribution, any sampling rate and relation."
)
Steps = Annotated[int, typer.Option(help="Number of noisy steps.")]
Rate = Annotated[float, typer.Option(help="Poisson sampling rate; 1 means every step sees all.")]
Relation = Annotated[
    str, typer.Option(help="What a neighbour is.", metavar="add_remove|zero_out|replace")
]


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
