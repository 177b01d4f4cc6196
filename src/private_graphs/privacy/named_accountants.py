"""Accountants by name, for single requests: ε of a noise, and noise for an ε."""

from __future__ import annotations

import math

from private_graphs.core.arguments import require_types
from private_graphs.core.errors import UsageError, UserError, suggest
from private_graphs.privacy.accountants import gdp_epsilon
from private_graphs.privacy.calibration import gdp_noise, mu_of, pld_noise
from private_graphs.privacy.checks import check
from private_graphs.privacy.gradient_prices import pld_epsilon
from private_graphs.privacy.moments import (
    cancelling_moments_epsilon,
    moments_epsilon,
    moments_noise,
)

ACCOUNTANTS = ("moments", "gdp", "pld", "cancelling")


def _check_accountant(accountant: str, sampling_rate: float, relation: str) -> None:
    if accountant not in ACCOUNTANTS:
        raise UsageError(
            f"accountant is {accountant!r}; expected one of {', '.join(ACCOUNTANTS)}"
            f"{suggest(accountant, ACCOUNTANTS)}"
        )
    check(relation=relation, rate=sampling_rate)
    if accountant in ("moments", "cancelling") and relation != "add_remove":
        better = "gdp or pld" if sampling_rate == 1 else "pld"
        raise UsageError(
            f"the accountant {accountant} is the published formula and covers add_remove only, not "
            f"{relation}; use the accountant {better}"
        )
    if accountant == "gdp" and sampling_rate != 1:
        better = "pld or moments" if relation == "add_remove" else "pld"
        raise UsageError(
            f"the accountant gdp needs sampling rate 1, not {sampling_rate:g}; "
            f"use the accountant {better}"
        )


def epsilon_for(
    accountant: str,
    noise_multiplier: float,
    steps: int,
    sampling_rate: float,
    delta: float,
    relation: str,
) -> float:
    """Return ε by the named accountant: moments (add_remove), gdp (sampling rate 1) or pld.

    Other combinations raise UsageError, which names the accountant to use. ``cancelling`` is the
    value that the code of LREC 2022 prints (add_remove) and no bound: UserError where it has no
    finite value.

    >>> round(epsilon_for("gdp", 20.0, 100, 1.0, 1e-5, "replace"), 3)
    4.377
    """
    _check_accountant(accountant, sampling_rate, relation)
    check(noise=noise_multiplier, steps=steps, delta=delta)
    if accountant == "moments":
        return moments_epsilon(noise_multiplier, steps, sampling_rate, delta)
    if accountant == "cancelling":
        printed = cancelling_moments_epsilon(noise_multiplier, steps, sampling_rate, delta)
        if not math.isfinite(printed):
            raise UserError(
                f"the authors' accountant has no finite epsilon for the noise multiplier "
                f"{noise_multiplier:g} at sampling rate {sampling_rate:g}; use the accountant "
                "moments, the same formula without its rounding errors"
            )
        return printed
    if accountant == "gdp":
        return gdp_epsilon(mu_of(noise_multiplier, steps, relation), delta)
    return pld_epsilon(noise_multiplier, steps, sampling_rate, delta, relation)


def noise_for(
    accountant: str, epsilon: float, steps: int, sampling_rate: float, delta: float, relation: str
) -> float:
    """Return the noise multiplier by the named accountant, rounded up to three decimals.

    >>> noise_for("gdp", 2.0, 100, 1.0, 1e-5, "replace")
    39.877
    """
    _check_accountant(accountant, sampling_rate, relation)
    if accountant == "cancelling":
        raise UsageError(
            "the accountant cancelling is too small at large noise and keeps no budget; calibrate "
            "with moments, the same formula, or with gdp or pld"
        )
    if accountant == "moments":
        return moments_noise(epsilon, steps, sampling_rate, delta)
    if accountant == "gdp":
        return gdp_noise(epsilon, steps, delta, relation)
    return pld_noise(epsilon, steps, sampling_rate, delta, relation)


@require_types
def epsilon(
    noise_multiplier: float,
    steps: int,
    *,
    sampling_rate: float = 1.0,
    delta: float = 1e-5,
    relation: str = "replace",
    accountant: str = "pld",
) -> float:
    """Return ε of noisy, clipped gradient steps (docs/privacy.md §0).

    Args:
        noise_multiplier (float): standard deviation of the noise in units of the clip norm.
        steps (int): number of steps.
        sampling_rate (float): probability with which a record joins a step, 0 to 1.
        delta (float): δ of the guarantee.
        relation (str): ``replace``, ``add_remove`` or ``zero_out``.
        accountant (str): ``pld``, ``gdp`` or ``moments``.

    Returns:
        float: ε, an upper bound (``gdp``: exact).

    Example:
        >>> round(epsilon(112, 2000, accountant="gdp"), 4)
        3.3801
    """
    return epsilon_for(accountant, noise_multiplier, steps, sampling_rate, delta, relation)
