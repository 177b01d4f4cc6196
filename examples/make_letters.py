"""Write invented hospital letters for docs/your-own-graph.md: clean tables, and odd ones.

    python examples/make_letters.py DIR [--size 5000] [--odd]

DIR gets letters.csv (id, patient, title, text, department), links.csv (source, target) and
truth.csv (id, department: the department of every letter, to check predictions with). ``--odd``
writes what archives export: fields between semicolons, four of five letters without a department,
one of a hundred without text, line breaks, semicolons and tabs inside quoted texts, links given
twice, reversed and to ids that are in no table. Every sentence is put together from the lists
below; the same size gives the same files. Licence of the tables: CC0 1.0.
"""

from __future__ import annotations

import argparse
import csv
from bisect import bisect
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random

SEED = 20260
OWN_WORDS = 0.45
"""Probability that a word slot takes a word of the letter's own department."""
DEPARTMENTS = {
    "surgery": "suture incision hernia drain wound appendix graft scar bandage theatre",
    "cardiology": "valve rhythm stent pressure pulse infarct aorta murmur pacemaker angina",
    "neurology": "seizure tremor migraine reflex stroke nerve memory gait paralysis vertigo",
    "paediatrics": "vaccine fever growth infant measles cough rash weaning croup otitis",
    "oncology": "biopsy tumour staging cycle remission lymph marker nodule port melanoma",
    "orthopaedics": "fracture knee cast hip splint tendon meniscus spine crutch cartilage",
    "psychiatry": "sleep mood anxiety session panic therapy insomnia relapse trauma grief",
}
"""Departments with their words; earlier ones are more frequent."""
COMMON = (
    "patient letter visit doctor history week report ward discharge mild severe chronic dose "
    "tablet control morning night family advice finding normal repeat urgent stable left right"
)
OPENINGS = ("Dear colleague,", "Thank you for the referral.", "Follow-up visit.", "Re: Müller-Test")
SENTENCES = (
    "The {} and the {} were seen with {}.",
    "{} since the last visit; {} and {} are to be watched.",
    "We found {}, no {}, and {} as before.",
    "Please check {} and {} after the {}.",
)


@cache
def _weights(size: int) -> list[float]:
    return list(accumulate(1 / (place + 2) for place in range(size)))


class Draws:
    """Random choices made of ``Random.random`` alone, whose sequence no version changes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed).random

    def below(self, count: int) -> int:
        return int(self.random() * count)

    def ranked(self, things: list[str]) -> str:
        """Return one of the things; earlier ones are drawn more often."""
        weights = _weights(len(things))
        return things[bisect(weights, self.random() * weights[-1])]


def letter(draw: Draws, department: str) -> tuple[str, str]:
    """Return title and text of a letter."""
    own, common = DEPARTMENTS[department].split(), COMMON.split()
    every = [word for words in DEPARTMENTS.values() for word in words.split()]

    def word() -> str:
        if draw.random() < OWN_WORDS:
            return draw.ranked(own)
        return draw.ranked(common) if draw.random() < 0.7 else every[draw.below(len(every))]

    lines = [OPENINGS[draw.below(len(OPENINGS))]]
    for _ in range(3 + draw.below(5)):
        lines.append(SENTENCES[draw.below(len(SENTENCES))].format(word(), word(), word()))
    return f"{word()} {word()}", " ".join(lines)


def tables(size: int, odd: bool) -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    """Return the rows of letters, links and truth."""
    draw = Draws(SEED + size)
    names = list(DEPARTMENTS)
    letters, links, truth = [], [], []
    patient = home = -1
    left = 0
    for number in range(size):
        if not left:  # the next patient, with one to four letters, now and then with nine
            patient, left = patient + 1, 9 if draw.random() < 0.01 else 1 + draw.below(4)
            home = names.index(draw.ranked(names))
        left -= 1
        department = names[home] if draw.random() < 0.8 else draw.ranked(names)
        title, text = letter(draw, department)
        truth.append([f"L{number:06}", department])
        if odd:
            department = department if draw.random() < 0.2 else ""
            kind = draw.random()
            if kind < 0.01:
                title = text = ""
            elif kind < 0.1:
                text = text.replace(". ", ".\n", 1).replace(" and ", "; and\t", 1)
        letters.append([f"L{number:06}", f"P{patient:06}", title, text, department])
        for _ in range(draw.below(3)):
            links.append([f"L{number:06}", f"L{draw.below(size):06}"])
            if odd and draw.random() < 0.2:
                links.append(links[-1] if draw.random() < 0.5 else links[-1][::-1])
            if odd and draw.random() < 0.02:
                links.append([f"L{number:06}", f"X{draw.below(size):06}"])
    return letters, links, truth


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=5000)
    parser.add_argument("--odd", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    heads = ("id,patient,title,text,department", "source,target", "id,department")
    files = ("letters", "links", "truth")
    for name, head, rows in zip(files, heads, tables(given.size, given.odd), strict=True):
        with open(given.folder / f"{name}.csv", "w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, delimiter=";" if given.odd else ",")
            writer.writerows([head.split(","), *rows])


if __name__ == "__main__":
    main()
