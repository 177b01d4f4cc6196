"""The first page's picture: scores by dataset as bars with an axis, for a page and for the README.

Text has the size of the surrounding page, colours follow dark mode, and every score is next to its
bar with its ε in words, so that the picture can be read aloud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from private_graphs.running.exhibit import Bar

_WIDTH, _LEFT, _SCALE, _ROW, _HEAD, _FOOT = 372, 116, 110, 24, 26, 42
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


def picture(bars: Mapping[str, Sequence[Bar]], axis: str, *, alone: bool = False) -> str:
    """Return an SVG with the bars of all datasets side by side; ``axis`` names their score.

    ``alone``: a separate file, which includes its colours; otherwise the page's colours apply.
    """
    rows = max(map(len, bars.values()))
    width = _WIDTH * len(bars) + 20 * (len(bars) - 1)
    description = "; ".join(
        f"{name}: " + ", ".join(f"{bar.label} {bar.value:.2f}, {bar.words}" for bar in group)
        for name, group in bars.items()
    )
    panels = (
        f'<g transform="translate({index * (_WIDTH + 20)} 0)">{_panel(name, group, axis, rows)}</g>'
        for index, (name, group) in enumerate(bars.items())
    )
    style = (
        f"<style>svg{{{variables(False)}font:13px system-ui,sans-serif}}"
        f"@media(prefers-color-scheme:dark){{svg{{{variables(True)}}}}}</style>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="bars" role="img" '
        f'viewBox="0 0 {width} {_HEAD + rows * _ROW + _FOOT}">'
        f"<title>{escape(f'{axis}. {description}')}</title>"
        f"{style if alone else ''}{''.join(panels)}</svg>"
    )


def _panel(name: str, bars: Sequence[Bar], axis: str, rows: int) -> str:
    parts = [f'<text y="15" fill="var(--ink)" font-weight="600">{escape(name)}</text>']
    for row, bar in enumerate(bars):
        y, length = _HEAD + row * _ROW + _ROW / 2, _SCALE * bar.value
        colour = {"published": "ink", "": "soft"}.get(bar.tone, bar.tone)
        fill = f'fill="var(--{colour})"'
        if bar.tone in ("refuted", "none", "vacuous"):
            fill += f' fill-opacity=".2" stroke="var(--{colour})" stroke-dasharray="3 2"'
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end" fill="var(--ink)">'
            f"{escape(bar.label)}</text>"
            f'<rect x="{_LEFT}" y="{y - 7}" width="{length:.1f}" height="14" {fill}/>'
            f'<text x="{_LEFT + length + 6:.1f}" y="{y + 4}" fill="var(--ink)">{bar.value:.2f} '
            f'<tspan fill="var(--soft)">{escape(bar.words)}</tspan></text>'
        )
    y = _HEAD + rows * _ROW + 4
    parts.append(f'<path d="M{_LEFT} {y}h{_SCALE}" stroke="var(--line)"/>')
    for value, text in ((0, "0"), (0.5, "0.5"), (1, "1")):
        x = _LEFT + _SCALE * value
        parts.append(
            f'<path d="M{x:g} {y}v4" stroke="var(--line)"/><text x="{x:g}" y="{y + 17}" '
            f'text-anchor="middle" fill="var(--soft)">{text}</text>'
        )
    parts.append(f'<text x="{_LEFT + _SCALE / 2:g}" y="{y + 33}" text-anchor="middle" '
                 f'fill="var(--soft)">{escape(axis)}</text>')  # fmt: skip
    return "".join(parts)
