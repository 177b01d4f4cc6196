"""HTML with the tags that it implies, and what is in the cells of its tables."""

from __future__ import annotations

import re
from html.parser import HTMLParser

CELL = re.compile(r"<(t[dh])\b[^>]*>((?!</\1>).)*?(?=<t[dhr]\b|</t(?:head|body|able)>)", re.S)
ROW = re.compile(r"<tr\b((?!</tr>).)*?(?=<tr\b|</t(?:head|body|able)>)", re.S)


def whole(text: str) -> str:
    """Return HTML with the ends of cells and rows, for a parser that knows no implied tags."""
    return ROW.sub(r"\g<0></tr>", CELL.sub(r"\g<0></\1>", text))


class Tags(HTMLParser):
    """The tags of HTML, each of which has its end."""

    VOID = ("meta", "link", "br", "img", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(whole(text))
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open += [] if tag in self.VOID else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


class Cells(Tags):
    """The names of all tags, and the cells of a table's body: their texts, and what is struck."""

    def __init__(self, text: str) -> None:
        self.texts: list[str] = []
        self.struck: list[str] = []
        self.tags: set[str] = set()
        super().__init__(text)

    def handle_starttag(self, tag, attrs):
        super().handle_starttag(tag, attrs)
        self.tags.add(tag)
        if "tbody" in self.open and tag in ("th", "td"):
            self.texts.append("")

    def handle_data(self, data):
        if "tbody" in self.open and {"th", "td"} & {*self.open}:
            self.texts[-1] += data
            self.struck += [data] if self.open[-1] == "s" else []
