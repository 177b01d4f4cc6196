"""Why a release is not charged: words for its method, key, budget or ledger."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from private_graphs.core.errors import UsageError, UserError, counted, suggest
from private_graphs.documents.accounts import Account, People, RecordedRelease, units_on
from private_graphs.documents.allowance import allowance_words
from private_graphs.documents.noise import NoiseKey
from private_graphs.privacy.rounding import at_most


def refuse_lost_key(noise: NoiseKey, name: str, method: str, epsilon: float, folder: Path) -> None:
    """Raise UsageError where an interrupted release that may be this one has no noise key.

    ``folder`` is that of the ledger.
    """
    asked = (name, method, epsilon)
    for line in noise.lost:
        if (line["graph"], line["method"], line["epsilon"]) == asked:
            raise UsageError(
                f"the release of {line['date']} is charged and was interrupted, and its key "
                f"{folder / 'noise' / line['release']} is gone or damaged: without it this "
                "command cannot continue it. Nothing more was spent. Restore the file from a copy, "
                "or make another release, which is charged as well, with --force"
            )


def other_method(method: str, methods: Sequence[str]) -> UsageError:
    """Return the error about a method that is none of those for declared documents."""
    from private_graphs.methods import all_methods

    studies = f": {method} is for published datasets, which 'private-graphs train' trains on"
    why = studies if method in all_methods() else suggest(method, methods)
    return UsageError(
        f"--method is {method!r}; expected {', '.join(methods)} for declared documents{why}"
    )


def unfit_method(method: str, fitting: Sequence[str], fewest: int) -> UsageError:
    """Return the error about a method that does not fit the texts of a declaration."""
    return UsageError(
        f"--method is {method!r}; expected {' or '.join(fitting)} for these documents: word_sums "
        f"reads words; class_sums is for texts that a model reads, and beside {fewest} public "
        "texts without a class"
    )


def over_budget_words(
    graph: str, epsilon: float, budget: float, delta: float, before: Account, after: Account,
    people: People, entries: list[RecordedRelease],
) -> str:  # fmt: skip
    """Return why a release is over the budget of some unit, and what is left of it.

    ``before`` and ``after`` are the accounts without and with it, ``entries`` the earlier releases.
    """
    lines = (line for line in entries if units_on(line, tuple(line.costs), people).any())
    graphs = sorted({repr(line.graph) for line in lines} - {repr(graph)})
    named = f" (releases of {', '.join(graphs)} had some of these ids)" if graphs else ""
    return (
        f"{graph}: epsilon {epsilon:g} is over the budget: "
        f"{allowance_words(before, budget, delta)}{named}; with this one it would be "
        f"{at_most(after.spent)}. Nothing was drawn or spent. Ask for less, or use a release that "
        f"is paid for: 'private-graphs ledger {graph}'"
    )


def raised_budget(promised: float, budget: float | None) -> str:
    """Return the warning about a larger budget than that of earlier releases."""
    limit = f"{budget:g}" if budget else "without a limit"
    return (
        f"earlier releases of some of these ids had a budget of {promised:g}, the new one is "
        f"{limit}: more may be spent than was promised; declare again with --budget {promised:g} "
        "to keep the promise"
    )


def undeclared(name: str, data: Path) -> UsageError:
    """Return the error about a name under which no documents are declared."""
    from private_graphs.datasets.registry import OWN_FOLDER, dataset_names
    from private_graphs.documents.declaration import folder_of, known_names

    if name in dataset_names([name], data.parent / OWN_FOLDER.name):
        return UsageError(
            f"{name!r} is a dataset, no declared documents: 'private-graphs train --dataset "
            f"{name} --method class_sums --epsilon 2' trains on it"
        )
    return UsageError(
        f"{name!r} is not declared in {folder_of(data)}{suggest(name, known_names(data))}; declare "
        "it first: private-graphs declare NAME --nodes FILE --text COLUMN --label COLUMN"
    )


def other_ledger(folder: Path, lines: int, seen: int, witness: str) -> UserError:
    """Return the error about a ledger whose line number ``seen`` is not what a witness has seen."""
    size = f"found a ledger of {counted(lines, 'line')}"
    if lines < seen:
        why = f"{size}, expected the {seen} that {witness} has seen, or more: the ledger was lost"
    else:
        why = (f"{size}, of which line {seen} is not the one that {witness} has seen: it is "
               "another ledger, or one that was begun anew after it was lost")  # fmt: skip
    return UserError(
        f"{folder}: {why}, exchanged or taken from an old copy, and what was spent is not known "
        "any more. Restore the folder from its newest copy. Where there is none, the budget counts "
        "as spent, and these documents get no further release. (A declaration that was copied here "
        "from another data folder: remove its file, and declare again. A release of another "
        "ledger: choose another --out.)"
    )
