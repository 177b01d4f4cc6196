"""The search over results and guides: one index, which a page reads without a network."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from private_graphs.site.guides import GUIDES

_TITLE = re.compile(r"<title>(.*?)</title>", re.S)
_MAIN = re.compile(r"<(main|article)\b.*?</\1>", re.S)
_LEAD = re.compile(r"<p\b[^>]*>(.*?)</p>", re.S)
_UNREAD = re.compile(r"<(script|style|svg)\b.*?</\1>|<[^>]*>", re.S)
_WORD = re.compile(r"[^\W_][\w-]*[^\W_]|ε|δ|σ")
_STATEMENTS = re.compile(r"site/[^/]+/[^/]+/[^/]+\.html")
"""Pages of statements, which are found by their titles alone."""
_API = "/api/"
"""Pages of functions, which follow the others where they match equally well."""
_SKIPPED = ("genindex.html", "search.html")


def search_index(root: Path, pages: Mapping[Path, str | dict[str, Any]]) -> str:
    """Return the index of the pages of results and of the guides below ``root`` as a script.

    ``INDEX.pages`` has (address, title, first sentence, kind) of every page, ``INDEX.words`` for
    each word the numbers of its pages, each as its distance from the one before.
    """
    entries, words = [], {}
    for address, text in sorted(_texts(root, pages), key=lambda page: (_API in page[0], page[0])):
        title = _plain(match[1]) if (match := _TITLE.search(text)) else address
        main = match[0] if (match := _MAIN.search(text)) else text
        statement = _STATEMENTS.fullmatch(address)
        read = title if statement else f"{title} {_plain(main)}"
        lead = "" if statement or not (match := _LEAD.search(main)) else _plain(match[1])
        kind = "documentation" if address.startswith(f"{GUIDES}/") else "results"
        title = title.removesuffix(" documentation").rpartition(" - private-graphs")[0] or title
        entries.append((address, title, lead[:160], kind))
        for word in set(_WORD.findall(read.lower())):
            if len(word) < 30 and any(map(str.isalpha, word)):
                words.setdefault(word, []).append(len(entries) - 1)
    steps = {word: [page - before for before, page in pairwise([0, *words[word]])]
             for word in sorted(words)}  # fmt: skip
    index = {"pages": entries, "words": steps}
    return f"const INDEX = {json.dumps(index, ensure_ascii=False, separators=(',', ':'))};\n"


def _texts(root: Path, pages: Mapping[Path, str | dict[str, Any]]) -> Iterable[tuple[str, str]]:
    for path, text in pages.items():
        if path.suffix == ".html" and isinstance(text, str) and path.name not in _SKIPPED:
            yield path.relative_to(root).as_posix(), text
    for path in (root / GUIDES).rglob("*.html"):
        if path.name not in _SKIPPED and "_static" not in path.parts:
            yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def _plain(text: str) -> str:
    return " ".join(html.unescape(_UNREAD.sub(" ", text)).split())
