"""A synthetic dump of Pokec at its real size, in the raw format, for timing only.

1,632,803 profiles of about 1,000 bytes and 30,622,564 friendships at scale 1, with about 15,600
candidates for cats and 134,500 for dogs. A profile is put together from a pool of random pieces;
friendships are drawn by propensity. Memory stays bounded; gzip level 1.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from private_graphs.core.files import atomic_path
from private_graphs.datasets.pokec_format import (
    LABEL,
    N_COLUMNS,
    PETS,
    PROFILES_FILE,
    RELATIONSHIPS_FILE,
)

N_PROFILES, N_FRIENDSHIPS = 1_632_803, 30_622_564
CANDIDATES = (15_597, 134_465)
N_PIECES = 20_000
N_WORDS = 30_000
PROFILES_AT_ONCE, FRIENDSHIPS_AT_ONCE = 50_000, 2_000_000
_FIRST_FREE = 8
"""Columns before this one are a user's own: id, completion, age and so on."""
_CLUB = '<a title="vstup do klubu" href="/klub/{0}">{0}</a>'


@dataclass(frozen=True)
class _Pieces:
    """Random runs of columns, and how many columns of each run are filled."""

    texts: list[str]
    filled: np.ndarray


def _words(rng: np.random.Generator) -> np.ndarray:
    letters = rng.choice(np.array(list("aaaeeiioouuybcdhjklmnprstvz")), size=(N_WORDS, 9))
    lengths = rng.integers(1, 10, N_WORDS)
    joined = ("".join(row[:length]) for row, length in zip(letters, lengths, strict=True))
    return np.array(list(joined), dtype=object)


def _pieces(
    rng: np.random.Generator, words: np.ndarray, first: int, last: int, count: int
) -> _Pieces:
    """Draw columns ``first`` to ``last`` (excluded): a third of the users fill in nothing."""
    n_columns = last - first
    fullness = np.where(rng.random(count) < 0.35, 0.02, rng.random(count))
    later = np.arange(first, last) >= 38
    chance = fullness[:, None] * np.where(later, 0.35, 1.0)
    filled = rng.random((count, n_columns)) < chance
    size = int(filled.sum())
    lengths = 1 + rng.geometric(1 / 5, size)
    ranks = (N_WORDS * rng.random(int(lengths.sum())) ** 3).astype(np.int64)
    drawn, ends = words[ranks].tolist(), np.cumsum(lengths).tolist()
    answers = [
        " ".join(drawn[end - length : end])
        for end, length in zip(ends, lengths.tolist(), strict=True)
    ]
    in_links = later[np.nonzero(filled)[1]] & (rng.random(size) < 0.6)
    for place in np.flatnonzero(in_links).tolist():
        link = _CLUB.format(answers[place].replace(" ", "-"))
        answers[place] = f"<div> {link} &bull;  {link} </div>"
    cells = np.full(filled.shape, "null", dtype=object)
    cells[filled] = answers
    return _Pieces(["\t".join(row) for row in cells.tolist()], filled.sum(axis=1))


def _pets(rng: np.random.Generator, size: int) -> np.ndarray:
    """Draw the labelling column, (size,) of str, with the shares of the real file."""
    cells = np.where(rng.random(size) < 0.55, "null", "mam rybky a ine zvierata").astype(object)
    kind = rng.random(size)
    low = 0.0
    for answers, candidates in zip(PETS, CANDIDATES, strict=True):
        high = low + candidates / N_PROFILES
        mine = np.flatnonzero((low <= kind) & (kind < high))
        cells[mine] = np.array(answers, dtype=object)[rng.integers(0, len(answers), len(mine))]
        low = high
    return cells


def _write_profiles(path: Path, rng: np.random.Generator, n_profiles: int) -> np.ndarray:
    """Write profiles; return how many columns each user, by id - 1, filled in."""
    words, count = _words(rng), min(N_PIECES, n_profiles)
    before = _pieces(rng, words, _FIRST_FREE, LABEL, count)
    after = _pieces(rng, words, LABEL + 1, N_COLUMNS, count)
    user = rng.permutation(n_profiles) + 1
    fullness = np.zeros(n_profiles, dtype=np.int64)
    with atomic_path(path) as temporary, gzip.open(temporary, "wb", compresslevel=1) as stream:
        for start in range(0, n_profiles, PROFILES_AT_ONCE):
            users = user[start : start + PROFILES_AT_ONCE]
            size = len(users)
            left, right = rng.integers(0, count, (2, size))
            pets, age = _pets(rng, size), rng.integers(0, 60, size)
            filled = before.filled[left] + after.filled[right]
            fullness[users - 1] = filled
            completion = np.minimum(12 + 88 * filled // (N_COLUMNS - _FIRST_FREE), 100)
            values = (users, completion, age, left, pets, right)
            stream.write(
                "".join(
                    f"{number}\t1\t{percent}\t{years % 2}\tzilinsky kraj, zilina\t"
                    f"2012-05-25 11:20:00.0\t2005-04-03 00:00:00.0\t{years}\t"
                    f"{before.texts[first]}\t{pet}\t{after.texts[second]}\t\n"
                    for number, percent, years, first, pet, second in zip(
                        *(each.tolist() for each in values), strict=True
                    )
                ).encode()
            )
    return fullness


def _write_friendships(
    path: Path, rng: np.random.Generator, fullness: np.ndarray, n_friendships: int
) -> None:
    """Write directed friendships, first ends ascending as in the real file."""
    import pyarrow as pa
    import pyarrow.csv

    propensity = np.minimum((1 - rng.random(len(fullness))) ** (-1 / 1.8), 500) * (4 + fullness)
    cumulative = np.cumsum(propensity)
    degrees = rng.multinomial(n_friendships, propensity / cumulative[-1])
    first = np.repeat(np.arange(1, len(fullness) + 1, dtype=np.int32), degrees)
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t")
    with atomic_path(path) as temporary, gzip.open(temporary, "wb", compresslevel=1) as stream:
        for start in range(0, n_friendships, FRIENDSHIPS_AT_ONCE):
            ends = first[start : start + FRIENDSHIPS_AT_ONCE]
            second = np.searchsorted(cumulative, rng.random(len(ends)) * cumulative[-1]) + 1
            table = pa.table({"from": ends, "to": second})
            pyarrow.csv.write_csv(table, stream, write_options=options)


def write_dump(folder: Path, scale: float = 1.0, seed: int = 0) -> tuple[Path, Path]:
    """Write a dump of ``scale`` times the real size; return the paths of the two files."""
    rng = np.random.default_rng(seed)
    profiles, friendships = folder / PROFILES_FILE, folder / RELATIONSHIPS_FILE
    fullness = _write_profiles(profiles, rng, round(scale * N_PROFILES))
    _write_friendships(friendships, rng, fullness, round(scale * N_FRIENDSHIPS))
    return profiles, friendships
