"""README's picture: scores by dataset as bars with an axis.

Colours follow dark mode, and every score is next to its bar with its ε in words, so that the
picture can be read aloud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from private_graphs.report.picture import variables
from private_graphs.running.exhibit import NOTHING, StudyAnswer
from private_graphs.studies.lrec2022.useful import AT, OURS

_WIDTH, _LEFT, _SCALE, _ROW, _HEAD, _FOOT = 372, 116, 110, 24, 26, 42
AXIS = "test micro-F1"
SOURCES = (
    ("the paper prints", "published", f"ε = {AT:g} printed"),
    ("their network", "e3", f"ε = {AT:g} proved"),
    ("largest class", "", "nothing private"),
    (OURS, "e3", f"ε = {AT:g} proved, no public label"),
    ("public data only", "", "no label"),
)
"""Name, tone and ε in words of the lines that the first page compares, in its order."""


class Bar(NamedTuple):
    """A score of the picture."""

    label: str
    value: float
    tone: str
    """As ``Cell.tone``; empty if no private data are read."""
    words: str
    """Its ε in words."""


def overview(answer: StudyAnswer) -> str:
    """Return the picture of the scores that the first page compares."""
    lines = [*answer.printed.lines, *answer.instead.lines[:2]]
    bars = {name: [Bar(label, float(cells[place].text), tone, words)
                   for (label, tone, words), (_, cells) in zip(SOURCES, lines, strict=True)
                   if cells[place].text != NOTHING]
            for place, name in enumerate(answer.printed.datasets)}  # fmt: skip
    return picture(bars, AXIS) + "\n"


def picture(bars: Mapping[str, Sequence[Bar]], axis: str) -> str:
    """Return an SVG with the bars of all datasets side by side; ``axis`` names their score."""
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
        f"{style}{''.join(panels)}</svg>"
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
