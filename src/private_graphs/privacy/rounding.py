"""Bounds as text, rounded to their safe side: the one place that does so.

An upper bound (ε proved, spent, allowed) is rounded up and a lower one (ε shown) down, so that no
text says less, or more, than is proved or shown.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal


def at_most(bound: float | Decimal, decimals: int | None = None) -> str:
    """Return an upper bound, rounded up to four significant digits, or to so many decimals."""
    return _rounded(bound, decimals, ROUND_CEILING)


def at_least(bound: float | Decimal, decimals: int | None = None) -> str:
    """Return a lower bound, rounded down as :func:`at_most` rounds up."""
    return _rounded(bound, decimals, ROUND_FLOOR)


def _rounded(bound: float | Decimal, decimals: int | None, rounding: str) -> str:
    exact = Decimal(str(bound))
    if not exact.is_finite():
        return f"{exact:f}".lower().replace("infinity", "inf")
    if decimals is not None:
        return f"{exact.quantize(Decimal(1).scaleb(-decimals), rounding):f}"
    number = Context(prec=4, rounding=rounding).create_decimal(exact)
    if number and not Decimal("1e-4") <= abs(number) < Decimal("1e6"):
        return f"{number:.4g}"  # no exponent from 0.0001 to a million
    plain = f"{number:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain
