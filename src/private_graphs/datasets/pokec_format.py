"""The raw format of Pokec (Takac & Zabovsky, 2012): columns, classes, and text without HTML.

The file has no header, 59 columns separated by tabs with a tab after the last, and no quoting; an
empty cell is ``null`` or nothing.
"""

from __future__ import annotations

import html
import re

PROFILES_FILE, RELATIONSHIPS_FILE = "soc-pokec-profiles.txt.gz", "soc-pokec-relationships.txt.gz"

COLUMNS: tuple[str, ...] = (
    "user_id", "public", "completion_percentage", "gender", "region", "last_login",
    "registration", "AGE", "body", "I_am_working_in_field", "spoken_languages", "hobbies",
    "I_most_enjoy_good_food", "pets", "body_type", "my_eyesight", "eye_color", "hair_color",
    "hair_type", "completed_level_of_education", "favourite_color", "relation_to_smoking",
    "relation_to_alcohol", "sign_in_zodiac", "on_pokec_i_am_looking_for", "love_is_for_me",
    "relation_to_casual_sex", "my_partner_should_be", "marital_status", "children",
    "relation_to_children", "I_like_movies", "I_like_watching_movie", "I_like_music",
    "I_mostly_like_listening_to_music", "the_idea_of_good_evening",
    "I_like_specialties_from_kitchen", "fun", "I_am_going_to_concerts", "my_active_sports",
    "my_passive_sports", "profession", "I_like_books", "life_style", "music", "cars", "politics",
    "relationships", "art_culture", "hobbies_interests", "science_technologies",
    "computers_internet", "education", "sport", "movies", "travelling", "health",
    "companies_brands", "more",
)  # fmt: skip
"""The 59 columns in the order of the file."""

N_COLUMNS = len(COLUMNS)
USER, COMPLETION = COLUMNS.index("user_id"), COLUMNS.index("completion_percentage")
FIRST_TEXT, LAST_TEXT = COLUMNS.index("I_am_working_in_field"), COLUMNS.index("companies_brands")
TEXT_COLUMNS = COLUMNS[FIRST_TEXT : LAST_TEXT + 1]
"""The 49 text columns that become features; :data:`LABEL_COLUMN` is one of them."""

LABEL_COLUMN = "pets"
LABEL = COLUMNS.index(LABEL_COLUMN)
CLASSES = ("cat", "dog")
PETS: tuple[tuple[str, ...], ...] = (
    ("macka", "mam macku", "kocur"),
    ("pes", "mam psa", "mam psika", "mam psov"),
)
"""Values of ``pets``, up to white space at the ends, that mean each of :data:`CLASSES`."""
CLASS_OF = {answer: label for label, answers in enumerate(PETS) for answer in answers}

MISSING = ("", "null")

_COMMENT, _END_OF_COMMENT = "<!--", "-->"
_MARKUP = re.compile(
    r"""<!--|<!?/?([a-z][a-z0-9]*)(?:[\s/](?:[^<>"']|"[^"]*"|'[^']*')*)?>""",
    re.IGNORECASE | re.DOTALL,
)
_INLINE = {
    "abbr", "b", "big", "em", "font", "i", "mark", "s", "small", "span", "strike", "strong",
    "sub", "sup", "tt", "u", "wbr",
}  # fmt: skip
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_SOFT_HYPHEN = "\xad"


def _without_markup(raw: str) -> str:
    """Return the cell with each tag and complete comment replaced by a space or nothing.

    The time is linear in the length of the cell, however many comments begin and never end.
    """
    pieces, begin, position = [], 0, 0
    last_end = raw.rfind(_END_OF_COMMENT)
    while match := _MARKUP.search(raw, position):
        position = match.end()
        if match[0] == _COMMENT:
            if position > last_end:  # an unclosed comment is text
                continue
            position = raw.find(_END_OF_COMMENT, position) + len(_END_OF_COMMENT)
        pieces.append(raw[begin : match.start()])
        pieces.append("" if (match[1] or "").lower() in _INLINE else " ")
        begin = position
    return "".join([*pieces, raw[begin:]])


def clean_text(raw: str) -> str | None:
    """Return the text of a cell without HTML, or None for an empty cell.

    A tag becomes a space, or nothing where it only changes the type face. Then entities are
    decoded, soft hyphens removed and white space collapsed. Incomplete tags and entities are text:
    ``a < b :)``, ``<3`` and ``r&b`` stay. (``html.parser`` treats broken markup differently in
    different versions of Python; the texts must not depend on that.)
    """
    if raw in MISSING:
        return None
    if "<" in raw:
        raw = _without_markup(raw)
    if "&" in raw:
        raw = _ENTITY.sub(lambda entity: html.unescape(entity[0]), raw)
    return " ".join(raw.replace(_SOFT_HYPHEN, "").split()) or None
