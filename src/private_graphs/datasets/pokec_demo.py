"""Embedded stand-in for Pokec: a small synthetic dump in the raw format, without real people.

Profiles answer in made-up and common dictionary words. Every user is a cat or a dog person, whether
or not ``pets`` says so, and likes a few topics; more cat than dog people like some of these. An
answer is about one topic and mixes its words with common ones. So texts reveal well what a user
likes, which reveals the class only weakly, while ``pets`` reveals it at once. Friendships are drawn
by propensity (Pareto, larger for fuller profiles), a share of them within the class. The constants
below are the parameters.

Every draw uses the legacy ``RandomState``, whose streams NumPy keeps unchanged (NEP 19), on integer
weights or uniform numbers compared with constants.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np

from private_graphs.core.files import atomic_path
from private_graphs.datasets import pokec_format

DEMO_PER_CLASS = 600
"""Users selected per class for the demo's text graph."""

SEED = 20223
N_PROFILES = 6000
LARGEST_USER_ID = 100_000
"""Largest user id; ids are sparse, as the selected users' ids in the real dump are."""
DOG_SHARE = 0.55
FULL_SHARE = 0.62
"""Share of users who fill in text columns."""
N_FRIENDSHIPS = 18_000
WITHIN_CLASS = 0.36
"""Share of friendships whose second end is drawn within the class of the first."""
MUTUAL = 0.55
"""Share of friendships that both ends declare."""
N_TOPICS = 12
TOPIC_WORDS = 20
"""Words specific to each topic."""
N_LIKES = 4
"""Topics that a user likes; one may be drawn more than once."""
TASTE = (4, 2, 1)
"""Relative weights with which cat people like the first, second and last third of the topics;
reversed for dog people."""
LIKED = 0.85
"""Share of answers about a liked topic; the others are about any topic."""
TOPICAL = 0.55
"""Share of an answer's words that are drawn from its topic."""
N_MADE_UP = 300
STOCK_ANSWERS = 12
"""Standard answers per column."""
STOCK_SHARE = 0.2
"""Share of answers that are standard answers."""

_WORDS = """
a aj ale alebo ani asi az bez bol bola byt cas casto cely chcem chodim cista clovek co cokolada
dake dakujem dalej deti dievca divadlo dlho dnes dobra dobre dom doma domov dovolenka druhy farba
film filmy futbol hlavne hokej hora hory hra hrat hudba huby internet ist jazyk jedlo jeden jej
jeho jesen ju ked kde kino kniha knihy kolo koncert kto kupalisko kvety laska lebo leto len les
lietat ludia lyze mam mama maly masaz mesto mily mlady mne moj moja more mozno mne muz na nad najma
nakupy nas nasa ne nebo nechcem niekedy nic nie noc novy o obcas obed ocko oheň oko okrem on ona
osoba otec pani pekny plavanie po pocasie pocitac pod pokoj pohar politika pomoc ponuka posedenie
praca prave pre pri priatel priatelia prirode prosim rad rada rano reka rodina rok rola ryba sa
sam sama skola slnko smiech sneh so som spanie spev spolu sport srdce stare stastie svet ta tak
tam tanec tazko te telo ten tenis teraz to toto tu turistika ty uz u v vam varenie vecer velmi
vela viac vlak voda volno von vsetko vtip vylet vzdy za zahrada zajtra zato zelena zena zima zivot
zo znamy zvuk
""".replace("oheň", "ohen")
_ONSETS = ("b", "c", "d", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "st", "pr", "kr")
_VOWELS = ("a", "e", "i", "o", "u", "ie", "ou")
_ENDINGS = ("", "", "k", "n", "t", "vat", "nost", "ka", "ny", "sky", "ik", "ovanie")
_REGIONS = ("zilinsky kraj, zilina", "kosicky kraj, kosice", "bratislavsky kraj, bratislava")
_ODD = (
    '"{}"',
    "{} a < b :)",
    "{} &amp; {}",
    "<b>{}</b>, {}",
    "{}&#43;",
    "&quot;{}&quot; :)",
    "{} <3",
)
_PETS_WEIGHTS = ((45, 30, 25), (35, 30, 20, 15))
_OTHER_PETS = ("nemam ziadne", "mam rybky", "mam skrecka", "mam psa, mam macku", "mam papagaja")
_CLUB = '<a title="vstup do klubu" href="/klub/{}">{}</a>'


class _Draws:
    """The random draws of the demo, in a fixed order."""

    def __init__(self) -> None:
        self.rng = np.random.RandomState(SEED)
        self.words = self._vocabulary()
        size = len(self.words)
        self._common = np.cumsum(10_000_000 // (np.arange(size, dtype=np.int64) + 15))
        self._topical = np.cumsum(10_000_000 // (np.arange(TOPIC_WORDS, dtype=np.int64) + 8))
        shuffled = self.rng.permutation(np.arange(80, size))  # words 0 to 79 are particles
        self.topics = shuffled[: N_TOPICS * TOPIC_WORDS].reshape(N_TOPICS, TOPIC_WORDS)

    def _vocabulary(self) -> list[str]:
        rng, made_up = self.rng, []
        for _ in range(N_MADE_UP):
            syllables = [
                _ONSETS[rng.randint(len(_ONSETS))] + _VOWELS[rng.randint(len(_VOWELS))]
                for _ in range(rng.randint(2, 4))
            ]
            made_up.append("".join(syllables) + _ENDINGS[rng.randint(len(_ENDINGS))])
        taken = {
            word
            for answers in (*pokec_format.PETS, _OTHER_PETS)
            for reply in answers
            for word in reply.split()
        }
        known = [word for word in _WORDS.split() if word == "mam" or word not in taken]
        return list(dict.fromkeys([*known, *(word for word in made_up if word not in taken)]))

    def word_ids(self, topics: np.ndarray) -> np.ndarray:
        """Draw one word for each entry of ``topics`` (words,), -1 being no topic."""
        size = len(topics)
        ids = _draw_cumulative(self.rng, self._common, size)
        topic_ids = self.topics[topics, _draw_cumulative(self.rng, self._topical, size)]
        return np.where((self.rng.random_sample(size) < TOPICAL) & (topics >= 0), topic_ids, ids)

    def texts(self, topics: np.ndarray, lengths: np.ndarray) -> list[str]:
        """Draw texts of ``lengths`` (texts,) words about ``topics`` (texts,)."""
        ids = self.word_ids(np.repeat(topics, lengths)).tolist()
        ends = np.cumsum(lengths).tolist()
        return [
            " ".join([self.words[word_id] for word_id in ids[end - length : end]])
            for end, length in zip(ends, lengths.tolist(), strict=True)
        ]


def _draw_cumulative(rng: np.random.RandomState, ends: np.ndarray, size: int) -> np.ndarray:
    """Draw ``size`` positions by weights with the cumulative sums ``ends``."""
    return np.searchsorted(ends, rng.randint(0, ends[-1], size), side="right")


def _topics_of(draws: _Draws, classes: np.ndarray, users: np.ndarray) -> np.ndarray:
    """Draw what each user likes, then the topic of each answer by ``users`` (answers,)."""
    rng = draws.rng
    likes = np.empty((len(classes), N_LIKES), dtype=np.int64)
    for label, taste in enumerate((TASTE, TASTE[::-1])):
        rows = np.flatnonzero(classes == label)
        ends = np.cumsum(np.repeat(taste, N_TOPICS // len(TASTE)))
        likes[rows] = _draw_cumulative(rng, ends, len(rows) * N_LIKES).reshape(-1, N_LIKES)
    liked = likes[users, rng.randint(0, N_LIKES, len(users))]
    anything = rng.randint(0, N_TOPICS, len(users))
    return np.where(rng.random_sample(len(users)) < LIKED, liked, anything)


def _filled(draws: _Draws, fullness: np.ndarray) -> np.ndarray:
    """Draw which text columns each user fills in, (users, text columns) bool."""
    n_columns = pokec_format.LAST_TEXT - pokec_format.FIRST_TEXT + 1
    # Later columns hold links to clubs, which few users have.
    popularity = np.where(np.arange(n_columns) < 34, 1.0, 0.25)
    popularity[-8:] = 0.1
    chance = fullness[:, None] * popularity * 1.25
    return draws.rng.random_sample(chance.shape) < chance


def _club_links(draws: _Draws, count: int) -> list[str]:
    """Draw cells with links to one to three clubs; popular clubs recur."""
    rng = draws.rng
    names = draws.texts(np.full(400, -1), rng.randint(1, 6, 400))
    links = [
        _CLUB.format(name.replace(" ", "-"), name[:9] + "&shy;" + name[9:] if name[9:] else name)
        for name in names
    ]
    chosen = (400 * rng.random_sample((count, 3)) ** 2).astype(np.int64).tolist()
    sizes = rng.randint(1, 4, count).tolist()
    return [
        f"<div> {' &bull;  '.join(links[club] for club in clubs[:size])} </div>"
        for clubs, size in zip(chosen, sizes, strict=True)
    ]


def _answers(draws: _Draws, classes: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """Return the cells of the text columns except ``pets``, (users, text columns) of str."""
    rng = draws.rng
    users, columns = np.nonzero(filled)
    size = len(users)
    # Most answers have few words, some up to 100.
    lengths = 1 + np.floor(6.5 * -np.log(1.0 - rng.random_sample(size))).astype(np.int64)
    long = rng.random_sample(size) < 0.004
    lengths[long] = rng.randint(40, 101, size=int(long.sum()))
    topics = _topics_of(draws, classes, users)
    answers = np.array(draws.texts(topics, lengths), dtype=object)
    n_columns = filled.shape[1]
    n_stock = n_columns * STOCK_ANSWERS
    stock = np.array(
        draws.texts(np.full(n_stock, -1), rng.randint(1, 5, n_stock)), dtype=object
    ).reshape(n_columns, STOCK_ANSWERS)
    usual = rng.random_sample(size) < STOCK_SHARE
    answers[usual] = stock[columns[usual], rng.randint(0, STOCK_ANSWERS, int(usual.sum()))]
    odd = np.flatnonzero(rng.random_sample(size) < 0.01)
    for row, form in zip(odd.tolist(), rng.randint(0, len(_ODD), len(odd)).tolist(), strict=True):
        answers[row] = _ODD[form].format(answers[row], answers[row - 1])
    links = np.flatnonzero((columns >= 28) & (rng.random_sample(size) < 0.6))
    answers[links] = _club_links(draws, len(links))
    cells = np.full(filled.shape, "null", dtype=object)
    cells[users, columns] = answers
    return cells


def _pets(draws: _Draws, classes: np.ndarray, answered: np.ndarray) -> np.ndarray:
    """Return the column ``pets``, (users,) of str; it names the class of most who answered."""
    rng = draws.rng
    cells = np.full(len(classes), "null", dtype=object)
    for label, (answers, weights) in enumerate(zip(pokec_format.PETS, _PETS_WEIGHTS, strict=True)):
        rows = np.flatnonzero(answered & (classes == label))
        chosen = _draw_cumulative(rng, np.cumsum(weights), len(rows))
        cells[rows] = np.array(answers, dtype=object)[chosen]
    vague = np.flatnonzero(answered & (rng.random_sample(len(classes)) < 0.2))
    cells[vague] = np.array(_OTHER_PETS, dtype=object)[rng.randint(0, len(_OTHER_PETS), len(vague))]
    spaced = np.flatnonzero(answered & (rng.random_sample(len(classes)) < 0.02))
    cells[spaced] = [f" {cell} " for cell in cells[spaced]]
    return cells


def _head(draws: _Draws, user: np.ndarray, completion: np.ndarray) -> list[list[str]]:
    """Return the nine columns before the texts, one list of cells per user."""
    rng, size = draws.rng, len(user)
    numbers = {
        key: rng.randint(low, high, size).tolist()
        for key, low, high in (
            ("public", 0, 2), ("gender", 0, 2), ("region", 0, len(_REGIONS)), ("day", 1, 29),
            ("year", 2002, 2012), ("age", 0, 60), ("height", 150, 200), ("weight", 45, 110),
        )
    }  # fmt: skip
    body = (rng.random_sample(size) < 0.5).tolist()
    return [
        [
            str(user[k]), str(numbers["public"][k]), str(completion[k]), str(numbers["gender"][k]),
            _REGIONS[numbers["region"][k]], f"2012-05-{numbers['day'][k]:02d} 11:20:00.0",
            f"{numbers['year'][k]}-04-{numbers['day'][k]:02d} 00:00:00.0",
            str(numbers["age"][k] if numbers["age"][k] > 14 else 0),
            f"{numbers['height'][k]} cm, {numbers['weight'][k]} kg" if body[k] else "null",
        ]
        for k in range(size)
    ]  # fmt: skip


def _friendships(draws: _Draws, classes: np.ndarray, fullness: np.ndarray) -> np.ndarray:
    """Return directed friendships, (2, rows) positions of users, each row once and no loop."""
    rng, size = draws.rng, len(classes)
    tail = np.minimum((1.0 - rng.random_sample(size)) ** (-1.0 / 2.5), 30.0)
    propensity = np.rint(1000 * tail * (0.15 + 2 * fullness)).astype(np.int64)
    ends = np.cumsum(propensity)
    first = _draw_cumulative(rng, ends, N_FRIENDSHIPS)
    second = _draw_cumulative(rng, ends, N_FRIENDSHIPS)
    inside = rng.random_sample(N_FRIENDSHIPS) < WITHIN_CLASS
    for label in range(len(pokec_format.CLASSES)):
        chosen = np.flatnonzero(inside & (classes[first] == label))
        members = np.flatnonzero(classes == label)
        second[chosen] = members[_draw_cumulative(rng, np.cumsum(propensity[members]), len(chosen))]
    mutual = rng.random_sample(N_FRIENDSHIPS) < MUTUAL
    rows = np.concatenate(
        [np.stack([first, second]), np.stack([second[mutual], first[mutual]])], axis=1
    )
    return np.unique(rows[:, rows[0] != rows[1]], axis=1)


def demo_tables() -> tuple[list[str], np.ndarray]:
    """Return the rows of profiles (without newlines) and the friendships (rows, 2) of user ids."""
    draws = _Draws()
    rng = draws.rng
    user = rng.permutation(LARGEST_USER_ID)[:N_PROFILES] + 1
    classes = (rng.random_sample(N_PROFILES) < DOG_SHARE).astype(np.int64)
    fullness = np.where(
        rng.random_sample(N_PROFILES) < FULL_SHARE,
        0.35 + 0.6 * rng.random_sample(N_PROFILES),
        0.03,
    )
    filled = _filled(draws, fullness)
    label = pokec_format.LABEL - pokec_format.FIRST_TEXT
    answered = filled[:, label] | ((fullness > 0.1) & (rng.random_sample(N_PROFILES) < 0.5))
    filled[:, label] = False
    cells = _answers(draws, classes, filled)
    cells[:, label] = _pets(draws, classes, answered)
    remarks = np.where(rng.random_sample(N_PROFILES) < 0.15, "pridem :)", "null")
    share = (cells != "null").mean(axis=1)
    completion = np.clip(10 + 85 * share + 6 * rng.random_sample(N_PROFILES), 12, 100)
    heads = _head(draws, user, completion.astype(np.int64))
    rows = [
        "\t".join([*head, *text, last, ""])
        for head, text, last in zip(heads, cells.tolist(), remarks.tolist(), strict=True)
    ]
    return rows, user[_friendships(draws, classes, fullness)].T


def _write_gzip(path: Path, text: str) -> Path:
    packed = io.BytesIO()
    # No file name and no time in the header: equal text gives equal bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=6, mtime=0) as stream:
        stream.write(text.encode("utf-8"))
    if not path.is_file() or path.read_bytes() != packed.getvalue():
        with atomic_path(path) as temporary:
            temporary.write_bytes(packed.getvalue())
    return path


def write_demo(folder: Path) -> list[Path]:
    """Write the dump into ``folder``; return the paths of profiles and relationships.

    The bytes are deterministic; an unchanged file is not touched.
    """
    rows, friendships = demo_tables()
    edges = "".join(f"{first}\t{second}\n" for first, second in friendships.tolist())
    return [
        _write_gzip(Path(folder) / pokec_format.PROFILES_FILE, "\n".join(rows) + "\n"),
        _write_gzip(Path(folder) / pokec_format.RELATIONSHIPS_FILE, edges),
    ]
