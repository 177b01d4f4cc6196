"""The overview's picture: scores by dataset as one SVG, for a page and for the README.

Text has the size of the surrounding page, colours follow dark mode, and every number is next to its
mark, so that the picture can be read aloud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from private_graphs.report.exhibit import Bar

_WIDTH, _LEFT, _ROW, _HEAD = 320, 150, 23, 26
_SCALE = _WIDTH - _LEFT - 40
COLOURS = {
    "ink": ("#1b1e23", "#e8eaed"), "soft": ("#565d66", "#a8b0ba"), "line": ("#d8dce2", "#3a4048"),
    "e1": ("#0b6b3a", "#4cc38a"), "e3": ("#2c7f47", "#7bd3a0"), "e10": ("#6a7410", "#c9d15c"),
    "e20": ("#95650a", "#e3b04b"), "vacuous": ("#5f656e", "#9aa2af"),
    "none": ("#a1361b", "#ffab8f"), "refuted": ("#b3261e", "#ff8a80"),
}  # fmt: skip
"""Light and dark colours of pages and pictures, including the scale of ε (``words.SCALE``)."""


def variables(dark: bool) -> str:
    """Return the colours as CSS properties."""
    return "".join(f"--{name}:{values[dark]};" for name, values in COLOURS.items())


def picture(bars: Mapping[str, Sequence[Bar]], *, alone: bool = False) -> str:
    """Return an SVG with the bars of all datasets side by side.

    ``alone``: a separate file, which includes its colours; otherwise the page's colours apply.
    """
    rows = max(map(len, bars.values()))
    width, height = _WIDTH * len(bars) + 20 * (len(bars) - 1), _HEAD + rows * _ROW + 6
    said = "; ".join(
        f"{name}: " + ", ".join(f"{bar.label} {bar.value:.2f}" for bar in group)
        for name, group in bars.items()
    )
    panels = (
        f'<g transform="translate({place * (_WIDTH + 20)} 0)">{_panel(name, group)}</g>'
        for place, (name, group) in enumerate(bars.items())
    )
    style = (
        f"<style>svg{{{variables(False)}font:13px system-ui,sans-serif}}"
        f"@media(prefers-color-scheme:dark){{svg{{{variables(True)}}}}}</style>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="bars" role="img" '
        f'viewBox="0 0 {width} {height}"><title>{escape(said)}</title>'
        f"{style if alone else ''}{''.join(panels)}</svg>"
    )


def _panel(name: str, bars: Sequence[Bar]) -> str:
    parts = [f'<text y="15" fill="var(--ink)" font-weight="600">{escape(name)}</text>']
    for row, bar in enumerate(bars):
        y, x = _HEAD + row * _ROW + _ROW / 2, _LEFT + _SCALE * bar.value
        colour = {"published": "ink", "": "soft"}.get(bar.tone, bar.tone)
        broken = ' stroke-dasharray="3 3"' if bar.tone in ("refuted", "none", "vacuous") else ""
        mark = f'<rect x="{x - 3:.1f}" y="{y - 7}" width="6" height="14" fill="var(--{colour})"/>'
        if bar.tone not in ("published", ""):
            fill = "none" if broken else f"var(--{colour})"
            mark = (
                f'<circle cx="{x:.1f}" cy="{y}" r="6" fill="{fill}" stroke="var(--{colour})" '
                'stroke-width="2"/>'
            )
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end" fill="var(--ink)">'
            f"{escape(bar.label)}</text>"
            f'<line x1="{_LEFT}" x2="{x - 6:.1f}" y1="{y}" y2="{y}" stroke="var(--{colour})" '
            f'stroke-width="2"{broken}/>{mark}'
            f'<text x="{x + 10:.1f}" y="{y + 4}" fill="var(--ink)">{bar.value:.2f}</text>'
        )
    return "".join(parts)
