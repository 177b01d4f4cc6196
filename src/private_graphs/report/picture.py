"""Colours of pages and of the pictures in them, for light and dark mode."""

from __future__ import annotations

COLOURS = {
    "ink": ("#1b1e23", "#e8eaed"), "soft": ("#565d66", "#a8b0ba"), "line": ("#d8dce2", "#3a4048"),
    "e1": ("#0a5a33", "#8df59a"), "e3": ("#0a7391", "#51cde1"), "e10": ("#2a3f96", "#7aa2e6"),
    "e20": ("#7a25c4", "#c377f7"), "vacuous": ("#63666b", "#9a9c9f"),
    "none": ("#15171a", "#e3dfc4"), "refuted": ("#c21d14", "#ff7f76"),
}  # fmt: skip
"""Light and dark colours of pages and pictures, including the scale of ε (``words.SCALE``)."""


def variables(dark: bool) -> str:
    """Return the colours as CSS properties."""
    return "".join(f"--{name}:{values[dark]};" for name, values in COLOURS.items())
