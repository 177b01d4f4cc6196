"""Text in markup: on one line, with the marks of the format escaped."""

from __future__ import annotations

import html
import re

_MARKDOWN = {mark: f"\\{mark}" for mark in "\\`*_[]|"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def markdown_text(text: str) -> str:
    """Return ``text`` escaped for Markdown, on one line."""
    return "".join(_MARKDOWN.get(mark, mark) for mark in on_one_line(text))


def on_one_line(text: str) -> str:
    """Return ``text`` with every run of white space and control characters as one space."""
    return " ".join(_CONTROLS.sub(" ", str(text)).split())


def plain_text(text: str) -> str:
    """Return Markdown without the escapes of :func:`markdown_text`; line breaks stay."""
    return html.unescape(re.sub(r"\\(.)", r"\1", text))
