"""Contrast of two colours, as the Web Content Accessibility Guidelines define it."""

from __future__ import annotations

from matplotlib.colors import to_rgb


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""

    def light(colour: str) -> float:
        parts = [
            c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)
        ]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(first), light(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)
