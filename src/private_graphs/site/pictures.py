"""Pictures inside a page: they share styles, and a phone shows the parts of each."""

from __future__ import annotations

import re
from itertools import product
from string import ascii_lowercase

from markupsafe import Markup

from private_graphs.report.table import Link

_NAMES = ["".join(pair) for pair in product(ascii_lowercase, repeat=2)]
"""Names of the pictures of a page, with which their identifiers begin."""
_STATEMENT = re.compile(r' data-statement="([^"]*)"')
_BOXES = re.compile(r'data-boxes="([^"]*)"')
_IDENTIFIER = re.compile(r"""(?<=\s)id="|url\(#|href="#""")
_XLINK = ' xmlns:xlink="http://www.w3.org/1999/xlink"'
_STYLE = re.compile(r'<style type="text/css">(.*?)</style>', re.DOTALL)
_DARK = "@media(prefers-color-scheme:dark){"
_RULE = re.compile(r"((?:\.s\d+,?)+)\{([^}]*)\}")
_CLASS = re.compile(r' class="s(\d+)"')
_MARKS = re.compile(
    r'<g((?: clip-path="[^"]*")?)>((?:<use [^>]*?(?:/>|>(?:<title>[^<]*</title>)?</use>))+)</g>'
)


class PagePictures:
    """The pictures of one page: identifiers of each are its own, and a style is written once."""

    def __init__(self) -> None:
        self._classes: dict[tuple[str, str], str] = {}
        self._names = iter(_NAMES)

    def add(self, svg: str, statements: Link | None = None) -> Markup:
        """Return an SVG without its XML head, and its parts again for a narrow window.

        Its marks lead to their ``statements``, by the number of a page among the picture's: most
        marks have the same page.
        """
        pages: dict[str, int] = {}

        def linked(match: re.Match[str]) -> str:
            page, _, anchor = (statements(match[1]) if statements else "").partition("#")
            return (
                f' data-statement="{pages.setdefault(page, len(pages))}#{anchor}"' if page else ""
            )

        name = next(self._names)
        whole = self._styled(_STATEMENT.sub(linked, svg[svg.index("<svg") :]))
        whole = _MARKS.sub(_once, _IDENTIFIER.sub(rf"\g<0>{name}", whole))
        whole = whole.replace("<svg ", f'<svg data-pages="{" ".join(pages)}" ', 1)
        whole = whole.replace(_XLINK, "").replace("xlink:href=", "href=")
        boxes = _BOXES.search(whole)
        parts = [box.split() for box in boxes[1].split(";")] if boxes and boxes[1] else []
        if len(parts) < 2:
            return Markup(whole)
        images = "".join(
            f'<svg aria-hidden="true" viewBox="{" ".join(box)}" '
            f'style="width:{float(box[2]) / 2.5:.0f}%"><use href="#{name}figure_1"/></svg>'
            for box in parts
        )
        return Markup(f'<div class="facets"><div class="whole">{whole}</div>'
                      f'<div class="narrow">{images}</div></div>')  # fmt: skip

    def _styled(self, svg: str) -> str:
        """Return an SVG with the classes of the page, and the rules of those that are new."""
        style = _STYLE.findall(svg)[0]
        light, _, dark = style.partition(_DARK)
        dimmed: dict[str, str] = {}
        for names, rule in _RULE.findall(dark):
            for name in names.split(","):
                dimmed[name] = f"{dimmed.get(name, '')}{rule};"
        classes, rules, shades = {}, "", ""
        for name, rule in _RULE.findall(light):
            key = rule, dimmed.get(name, "")
            if key not in self._classes:
                self._classes[key] = f"s{len(self._classes)}"
                rules += f".{self._classes[key]}{{{rule}}}"
                shades += f".{self._classes[key]}{{{key[1]}}}" if key[1] else ""
            classes[name] = self._classes[key]
        held = f"{light.partition('.s')[0]}{rules}{_DARK}{shades}}}"
        svg = svg.replace(style, held, 1)
        return _CLASS.sub(lambda match: f' class="{classes[f".s{match[1]}"]}"', svg)


def _once(match: re.Match[str]) -> str:
    """Return a group of marks, which has their class instead of each of them."""
    classes = _CLASS.findall(match[2])
    if len(classes) < match[2].count("<use") or len(set(classes)) > 1:
        return match[0]
    return f'<g{match[1]} class="s{classes[0]}">{_CLASS.sub("", match[2])}</g>'
