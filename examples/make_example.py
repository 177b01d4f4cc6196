"""Write the example of docs/your-own-graph.md: invented posts of a repair forum, and who answers.

    python examples/make_example.py            # writes examples/my_graph/{nodes,edges}.csv

Every sentence is put together from the word lists below; no real person, post or forum is behind
it. The same file is written every time. Licence of the two tables: CC0 1.0.

A post has a topic. Most of its nouns and verbs come from the words of that topic, some from those
of another, and every topic has rare words beside common ones. Links join posts of the same topic
more often than not. Nothing is separated cleanly, as in real forums.
"""

from __future__ import annotations

import csv
import sys
from bisect import bisect
from itertools import accumulate
from pathlib import Path
from random import Random

SEED = 20220
N_POSTS = 1200
OWN_TOPIC = 0.62
"""Probability that a word slot takes a word of the post's own topic; else of any topic."""
SAME_TOPIC = 0.75
"""Probability that a link leads to a post of the same topic; else to any post."""

# Words that come earlier in a list are drawn more often (weight 1 / (position + 2)).
TOPICS = {
    "bicycles": (
        "wheel chain brake saddle pedal tyre gear frame pump spoke bell rack fork hub lever "
        "crank cable handlebar basket valve sprocket mudguard derailleur panniers",
        "pedal brake climb steer coast wobble squeak shift pump roll skid rattle",
    ),
    "gardens": (
        "soil tomato hedge rose compost seed lawn pot root spade bean slug apple fence bed "
        "mulch shed onion greenhouse herb pruner trellis wheelbarrow dandelion",
        "grow plant water wilt prune dig bloom sprout weed rot harvest mow",
    ),
    "radios": (
        "antenna battery speaker dial signal wire receiver knob fuse plug band switch case noise "
        "transistor solder coil tuner headphone amplifier capacitor socket shortwave oscillator",
        "hum tune crackle buzz receive solder amplify fade hiss broadcast plug charge",
    ),
}
ADJECTIVES = "old new small loose cheap rusty broken heavy blue spare wet dry strange good long"
TIMES = "yesterday today again twice since_spring all_week this_morning last_year sometimes never"
PEOPLE = "my_neighbour my_sister a_friend the_shop nobody everyone my_uncle someone_here"

TITLES = (
    "{noun} and {noun}",
    "help with my {adjective} {noun}",
    "how to {verb} a {noun}",
    "{adjective} {noun}, any idea?",
    'what is a "{adjective} {noun}"?',
)
SENTENCES = (
    "the {adjective} {noun} started to {verb} {time}.",
    "{person} says the {noun} should not {verb}, but it did {time}.",
    "should I {verb} the {noun} or buy a {adjective} one?",
    "I looked at the {noun}, the {noun} and the {adjective} {noun}.",
    "{person} told me to {verb} it {time}, with a {noun}.",
    "it will not {verb} when the {noun} is {adjective}.",
    "is a {adjective} {noun} worth the money?",
    "thank you, {person} found the {noun} {time}.",
)


class Words:
    """Draws words; only ``Random.random`` is used, whose sequence no version changes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed).random

    def below(self, count: int) -> int:
        return int(self.random() * count)

    def ranked(self, words: str) -> str:
        listed = words.split()
        totals = list(accumulate(1 / (position + 2) for position in range(len(listed))))
        return listed[bisect(totals, self.random() * totals[-1])].replace("_", " ")

    def plain(self, words: str) -> str:
        listed = words.split()
        return listed[self.below(len(listed))].replace("_", " ")

    def fill(self, template: str, topic: str) -> str:
        """Put words into the slots of a template, one slot at a time."""
        while "{" in template:
            slot = template[template.index("{") : template.index("}") + 1]
            if slot in ("{noun}", "{verb}"):
                own = self.random() < OWN_TOPIC
                chosen = topic if own else list(TOPICS)[self.below(len(TOPICS))]
                word = self.ranked(TOPICS[chosen][slot == "{verb}"])
            else:
                lists = {"{adjective}": ADJECTIVES, "{time}": TIMES, "{person}": PEOPLE}
                word = self.plain(lists[slot])
            template = template.replace(slot, word, 1)
        return template


def posts(words: Words) -> list[list[str]]:
    """Return rows of id, title, body, topic."""
    rows = []
    for number in range(N_POSTS):
        topic = list(TOPICS)[words.below(len(TOPICS))]
        title = words.fill(TITLES[words.below(len(TITLES))], topic)
        chosen = [SENTENCES[words.below(len(SENTENCES))] for _ in range(3 + words.below(4))]
        sentences = [words.fill(each, topic) for each in chosen]
        body = " ".join(each[0].upper() + each[1:] for each in sentences)
        rows.append([f"post{number:04d}", title, body, topic])
    return rows


def links(words: Words, rows: list[list[str]]) -> list[list[str]]:
    """Return rows of source, target: each post answers up to four others."""
    by_topic = {topic: [row[0] for row in rows if row[3] == topic] for topic in TOPICS}
    everything = [row[0] for row in rows]
    pairs = []
    for name, _, _, topic in rows:
        for _ in range(words.below(5)):
            pool = by_topic[topic] if words.random() < SAME_TOPIC else everything
            pairs.append([name, pool[words.below(len(pool))]])
    return pairs


def write(folder: Path) -> None:
    """Write both tables into ``folder``."""
    words = Words(SEED)
    rows = posts(words)
    tables = {
        "nodes.csv": (["id", "title", "body", "topic"], rows),
        "edges.csv": (["source", "target"], links(words, rows)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, (header, body) in tables.items():
        with open(folder / name, "w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows([header, *body])


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "my_graph")
