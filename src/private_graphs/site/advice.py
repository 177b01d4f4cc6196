"""The page "Which method?": a method for what is private and public, its scores and rivals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from private_graphs.methods import method_named
from private_graphs.report.words import budget, enumeration
from private_graphs.running.exhibit import NOTHING
from private_graphs.running.study import Advice
from private_graphs.site.shelf import Shelf


@dataclass(frozen=True)
class Advised:
    """An end of the page, with scores from the rows of a set of results."""

    advice: Advice
    proved: str
    """ε proved for one run, at its largest."""
    datasets: tuple[str, ...]
    units: tuple[str, ...]
    """Number of private units, by dataset."""
    lines: tuple[tuple[str, tuple[str, ...], bool], ...]
    """(source, scores by dataset, whether it is the advised method); that first, then the best."""
    loses: str
    """Where another line is at least as good without private data, in a sentence."""


def advised(shelf: Shelf) -> list[Advised]:
    """Return the ends that a study gives, of those whose rows are there."""
    ends = (_end(shelf, advice) for advice in shelf.results.study.advice)
    return [] if shelf.synthetic else [end for end in ends if end is not None]


def _end(shelf: Shelf, advice: Advice) -> Advised | None:
    advised_means = _scores(shelf, advice.where)
    if advised_means.empty:
        return None
    rivals = {label: _scores(shelf, {**advice.where, **where})
              for label, where in advice.others.items()}  # fmt: skip
    label = advice.method
    if advice.where.get("validation_labels") == 0:
        label += ", no public label"
    lines = [(label, advised_means, True), *((name, means, False) for name, means in rivals.items()
                                    if not means.empty)]  # fmt: skip
    names = shelf.called(advised_means.index)
    lines.sort(key=lambda line: (not line[2], -line[1].reindex(advised_means.index).mean()))
    held = shelf.statements_of(shelf.results.runs[shelf.results.mask(**advice.where)])
    sizes = {doc.dataset: doc.n_units for doc in held}
    lost = []
    for name, means in rivals.items():
        if _reads_nothing(advice, name):
            equal_labels = _means_with_labels(advice, advised_means, rivals, name)
            better = [
                names[dataset] for dataset in means.index if means[dataset] >= equal_labels[dataset]
            ]
            if better:
                lost.append(f"On {enumeration(better)} {name}, score as much or more")
    return Advised(
        advice, budget(max(doc.epsilon_proved for doc in held)), tuple(names.values()),
        tuple(f"{sizes[name]:,}" for name in advised_means.index),
        tuple((name, tuple(_text(means, dataset) for dataset in advised_means.index), is_advised)
              for name, means, is_advised in lines),
        ". ".join(lost),
    )  # fmt: skip


def _reads_nothing(advice: Advice, name: str) -> bool:
    """Return whether a line reads nothing private."""
    where = {**advice.where, **advice.others[name]}
    return not method_named(where["method"]).reads_private


def _means_with_labels(
    advice: Advice, advised_means: pd.Series, rivals: Mapping[str, pd.Series], name: str
) -> pd.Series:
    """Return the method's scores with as many public labels as another line has."""
    labels = advice.others[name].get("validation_labels", advice.where.get("validation_labels"))
    for label, where in advice.others.items():
        if where.get("method", advice.method) == advice.method and (
            where.get("validation_labels") == labels
        ):
            return rivals[label]
    return advised_means


def _text(means: pd.Series, dataset: str) -> str:
    return f"{means[dataset]:.2f}".removeprefix("0") if dataset in means else NOTHING


def _scores(shelf: Shelf, where: Mapping[str, Any]) -> pd.Series:
    """Return mean test scores by dataset."""
    rows = shelf.results.runs[shelf.results.mask(**where)]
    return rows.groupby("dataset", sort=True)["test_accuracy"].mean().dropna()


def grouped(methods: Mapping[str, Any], shelves: Iterable[Shelf]) -> dict[str, dict[str, Any]]:
    """Return methods in groups: those that a study advises, those of papers, and baselines."""
    names = {advice.method for shelf in shelves for advice in shelf.results.study.advice}
    heads = ("Recommended", "Methods of the papers", "Also proved", "Baselines")
    groups: dict[str, dict[str, Any]] = {head: {} for head in heads}
    for name, method in methods.items():
        if name in names:
            head = heads[0]
        elif not method.reads_private:
            head = heads[3]
        elif {"released", "paper"} & {*method.protocols}:
            head = heads[1]
        else:
            head = heads[2]
        groups[head][name] = method
    return {head: group for head, group in groups.items() if group}
