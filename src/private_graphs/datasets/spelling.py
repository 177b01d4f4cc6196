"""Names that people take for one and the same: what is not seen, other ways to write a thing."""

from __future__ import annotations

import math
import re
import unicodedata

_CONTROLS = "".join(chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)))
_BLANKS = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
_FORMATS = "\u00ad\u061c\u180e\ufeff" + "".join(
    chr(code) for code in (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070))
)
NOT_SEEN = "".join(dict.fromkeys(_BLANKS + _CONTROLS + _FORMATS))
"""White space, controls, and format characters such as a zero-width space or a byte order mark."""
_IGNORED = re.compile(
    f"[{re.escape(_CONTROLS + _FORMATS)}"
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufffb]"
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")
MISSING = frozenset(
    ("nan", "null", "none", "nil", "na", "n/a", "n.a.", "#n/a", "<na>", "nat", "?", "-", "--", "-1")
)
"""What programs write where they have no value, in lower case."""


def seen(name: str) -> str:
    """Return a name as people see it: in compatibility form, without what is not seen."""
    return _IGNORED.sub("", unicodedata.normalize("NFKC", _IGNORED.sub("", name))).strip()


def looks(name: str) -> str:
    """Return what two names share that look alike or mean the same.

    Without case, blanks at the ends and repeated ones, and what is not seen; letters in their
    compatibility form (NFKC: composed accents, full-width digits, ligatures); numbers by value.
    """
    text = " ".join(unicodedata.normalize("NFKC", seen(name).casefold()).split())
    if _NUMBER.fullmatch(text.replace("\u2212", "-")):
        value = float(text.replace("\u2212", "-"))
        return repr(value + 0.0) if math.isfinite(value) else text
    return text


def is_missing(name: str) -> bool:
    """Whether a name is what programs write where they have no value."""
    return unicodedata.normalize("NFKC", name).strip(NOT_SEEN).casefold() in MISSING
