"""Names that people take for the same: invisible characters and other spellings."""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from decimal import Decimal, InvalidOperation

_CONTROLS = "".join(chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)))
_BLANKS = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
_FORMATS = "\u00ad\u061c\u180e\ufeff" + "".join(
    chr(code) for code in (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070))
)
NOT_SEEN = "".join(dict.fromkeys(_BLANKS + _CONTROLS + _FORMATS))
"""Invisible characters: white space, controls, and format characters such as a zero-width space or
a byte order mark."""
_IGNORED = re.compile(
    f"[{re.escape(_CONTROLS + _FORMATS)}"
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Controls, Default_Ignorable_Code_Point of Unicode, and what is a blank in most fonts."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")
MISSING = frozenset(
    ("nan", "null", "none", "nil", "na", "n/a", "n.a.", "#n/a", "<na>", "nat", "?", "-", "--", "-1")
)
"""Spellings of a missing value in common programs, in lower case."""


def seen(name: str) -> str:
    """Return the visible form of a name: compatibility form without invisible characters."""
    if name.isascii() and name.isprintable():
        return name.strip()
    return _IGNORED.sub("", unicodedata.normalize("NFKC", _IGNORED.sub("", name))).strip()


def shown(name: str) -> str:
    """Return a name in quotes: letters as they are, control and invisible characters escaped."""
    return _IGNORED.sub(lambda match: ascii(match[0])[1:-1], repr(name))


def looks(name: str) -> str:
    """Return the key that two names share if they look alike or mean the same.

    The key ignores case, blanks at the ends, repeated blanks and invisible characters; letters are
    in their compatibility form (NFKC: composed accents, full-width digits, ligatures); numbers
    compare by value.
    """
    text = " ".join(unicodedata.normalize("NFKC", seen(name).casefold()).split())
    if _NUMBER.fullmatch(number := text.replace("\u2212", "-")):
        with suppress(InvalidOperation):  # an exponent beyond all use
            sign, digits, exponent = Decimal(number).as_tuple()  # exact, as doubles are not
            number = "".join(map(str, digits)).lstrip("0")
            short = number.rstrip("0")
            zeros = len(number) - len(short)
            return f"{'-' * sign}{short}e{int(exponent) + zeros}" if short else "0"
    return text


def is_missing(name: str) -> bool:
    """Return whether a name is a common spelling of a missing value."""
    return unicodedata.normalize("NFKC", name).strip(NOT_SEEN).casefold() in MISSING
