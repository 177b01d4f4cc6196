"""Invented letters of a hospital, a quarter of them in English: 900 patients, of whom six have 60
letters each. Departments have few words of their own among much that all letters share, 7 % of the
letters are of another department than their patient's, and 18 % have no department."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DEPARTMENTS, SHARES = ("medicine", "surgery", "neurology", "psychiatry"), (0.70, 0.20, 0.08, 0.02)
WORDS = {
    "medicine": "Hypertonie Blutdruck Diabetes Insulin Herzinsuffizienz Vorhofflimmern Marcumar "
    "Kreatinin Nierenfunktion Pneumonie Antibiotikum Leberwerte Übelkeit Ödeme Echokardiographie "
    "Thrombose Anämie Gastroskopie pneumonia insulin hypertension dyspnoea",
    "surgery": "Fraktur Naht Wunde Drainage Appendektomie Hernie Narkose Operation Hüftprothese "
    "Schraube Gips Röntgen Wundheilung Abszess Cholezystektomie fracture suture wound appendix "
    "drain",
    "neurology": "Schlaganfall Epilepsie Migräne Lähmung Parkinson Tremor Liquor EEG Hirninfarkt "
    "Schwindel Sehstörung MRT Krampfanfall stroke seizure migraine tremor",
    "psychiatry": "Depression Antrieb Suizidalität Psychose Angststörung Schlafstörung Sertralin "
    "Lithium Gespräch Stimmung depression anxiety mood",
}
COMMON = (
    "Sehr geehrte Frau Kollegin wir berichten über den Patienten der sich am vorstellte Befund "
    "unauffällig Medikation wie bisher Verlauf stabil Kontrolle in vier Wochen mit freundlichen "
    "Grüßen Aufnahme Entlassung Anamnese Größe Gewicht Mäßig Empfehlung weiterhin täglich Tablette "
    "morgens abends Station Oberärztin Übergabe Dear colleague we report on the patient who "
    "presented with findings normal discharge home follow up weeks therapy continued daily"
)
SIZE, PATIENTS, MANY, NAMES = 3000, 900, 60, 1500
"""Letters and patients; letters of each of six patients; further words, with Zipf's law."""


@dataclass(frozen=True, eq=False)
class Letters:
    """Letters, with the number of their patient, and their department; -1 where none is given."""

    texts: list[str]
    departments: np.ndarray
    given: np.ndarray
    patients: np.ndarray


def letters(sizes: np.ndarray, draws: np.random.Generator, first: int = 0) -> Letters:
    """Return letters of ``len(sizes)`` patients, whose numbers begin at ``first``."""
    zipf = 1 / np.arange(1, NAMES + 1)
    main = draws.choice(len(SHARES), len(sizes), p=SHARES)
    texts, found = [], []
    for own in np.repeat(main, sizes):
        other = draws.choice(len(SHARES), p=SHARES)
        department = own if draws.random() < 0.93 else other
        words = list(draws.choice(_words(department), max(2, draws.poisson(4))))
        if draws.random() < 0.35:
            words += list(draws.choice(_words(draws.integers(4)), draws.integers(1, 3)))
        words += list(draws.choice(COMMON.split(), draws.integers(15, 50)))
        more = draws.choice(NAMES, draws.integers(5, 25), p=zipf / zipf.sum())
        words += [f"wort{number}" for number in more]
        draws.shuffle(words)
        title = draws.choice(_words(department))
        texts.append(f"Arztbrief {title}\n{' '.join(words)}")
        found.append(department)
    departments = np.array(found)
    given = np.where(draws.random(len(texts)) < 0.18, -1, departments)
    return Letters(texts, departments, given, first + np.repeat(np.arange(len(sizes)), sizes))


def patients(draws: np.random.Generator) -> np.ndarray:
    """Return the numbers of letters of the patients."""
    rest = np.bincount(draws.integers(0, PATIENTS - 6, SIZE - 6 * MANY - PATIENTS + 6))
    return np.r_[np.full(6, MANY), 1 + np.pad(rest, (0, PATIENTS - 6 - len(rest)))]


def _words(department: int) -> list[str]:
    return WORDS[DEPARTMENTS[department]].split()
