"""Replay of anybody's training: does anything but noisy values depend on one record?

``train(data)`` runs once with seeded generators; then on neighbours of ``data``, whose noisy sums
are those of the first run. Sums may move by what is priced, and all else has to be equal to the
bit. The claim is that of docs/privacy.md §10: sufficient if it held for all neighbours, tapes and
coins, of which some are tried.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from private_graphs.attacks.record_neighbours import Change, far_data, record_neighbours
from private_graphs.attacks.training_findings import TrainingFindings, findings
from private_graphs.attacks.training_price import accounting, priced
from private_graphs.attacks.training_runs import Coins, TrainingRun, execute
from private_graphs.mechanisms.reads import TURNS, other_numbers, private_places
from private_graphs.mechanisms.replay import first_verdict

_ABSENT = 4
"""One in so many neighbours is tried as a record that never joins, too."""


@dataclass
class TrainingReport:
    """What the replays of a training showed."""

    relation: str
    neighbours: int = 0
    steps: int = 0
    largest: float = 0.0
    """Farthest that one record moved a sum, as a share of what is priced."""
    not_repeatable: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    accounting: list[str] = field(default_factory=list)
    inconclusive: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """Return NOT REPEATABLE, LEAKS, WRONG EPSILON, INCONCLUSIVE or no leak found."""
        return first_verdict({
            "NOT REPEATABLE": self.not_repeatable, "LEAKS": self.leaks,
            "WRONG EPSILON": self.accounting, "INCONCLUSIVE": self.inconclusive,
        })  # fmt: skip

    @property
    def passed(self) -> bool:
        """Return whether no leak was found, in replays that could have found one."""
        return self.verdict == "no leak found"

    def document(self) -> dict[str, Any]:
        """Return JSON-able fields."""
        largest = self.largest if math.isfinite(self.largest) else None
        return {"verdict": self.verdict, "passed": self.passed, **vars(self), "largest": largest}

    def add(self, kind: list[str], part: TrainingFindings) -> None:
        """Add the findings from a replay; of those that begin alike, the first."""
        self.largest = max(self.largest, part.largest)
        _extend(kind, part.lines)
        _extend(self.notes, part.notes)
        if part.incomparable:
            _extend(self.inconclusive, [part.incomparable])

    def __str__(self) -> str:
        """Return the verdict in a sentence, findings and notes a line each."""
        sentence = {
            "NOT REPEATABLE": "two runs on the same data with the same noise differ, so "
                              "nothing is said about "
                              "privacy; seed every generator and leave clocks out",
            "LEAKS": "something besides the noisy values depends on one record",
            "WRONG EPSILON": "no leak was found, but what ran is not what was accounted",
            "INCONCLUSIVE": "no leak was found, and none could have been",
            "no leak found": f"{self.neighbours} neighbours ({self.relation}), {self.steps} "
                             "noisy values each; "
                             f"one record moved a sum by at most {self.largest:.3f} of the "
                             "sensitivity that its epsilon assumes; all else is equal to the bit",
        }[self.verdict]  # fmt: skip
        lines = (*self.not_repeatable, *self.leaks, *self.accounting, *self.inconclusive)
        return "\n".join([f"{self.verdict}: {sentence}.", *(f"  - {line}" for line in lines),
                          *(f"  note: {line}" for line in self.notes)])  # fmt: skip


def _extend(kind: list[str], lines: Iterable[str]) -> None:
    for line in lines:
        if line.partition(":")[0] not in {known.partition(":")[0] for known in kind}:
            kind.append(line)


def replay_training(
    train: Callable[[Any], Any], data: Any, neighbours: int | Iterable[Change] = 20, *,
    relation: str = "replace", delta: float | None = None, claim: float | None = None,
    ignore: Sequence[str] = (), seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> TrainingReport:  # fmt: skip
    """Replay ``train`` on neighbours of ``data``; it returns all that would be published.

    Scripts of Opacus run unchanged; other code marks its noise (``training_runs.gaussian``).

    Args:
        neighbours: how many, drawn with ``seed`` (``record_neighbours``), or ``Change``s of one's
            own: extremes of the data at hand find most.
        relation: ``replace``, ``zero_out`` (a record never joins, n is public) or ``add_remove``.
        delta: δ of ``claim``; by default that which the script asks its accountant for.
        claim: an ε that is stated elsewhere.
        ignore: parts of names of returned values that are not published, such as ``seconds``.

    Errors that ``train`` raises on its own data are raised.
    """
    report, memory = TrainingReport(relation), Counter[Any]()
    changes = list(record_neighbours(data, neighbours, relation, seed)
                   if isinstance(neighbours, int) else neighbours)  # fmt: skip
    joining = Coins([change.place for change in changes], True, seed)
    first = execute(train, data, TrainingRun(joining, memory=memory))
    report.steps, compare = len(first.sums), partial(findings, relation=relation, ignored=ignore)

    def replayed(tape: TrainingRun, own: Any = data, **options: Any) -> TrainingRun:
        return execute(train, own, TrainingRun(tape.coins, tape, memory=memory, **options))

    second = replayed(first)
    first.files = [line for line in first.files if line in second.files]  # caches are written once
    first.lines = second.lines
    report.add(report.not_repeatable, compare(first, second))
    if report.not_repeatable:
        return report
    if first.held:
        report.notes.append(f"{', '.join(first.held[:2])}: of the last batch, without noise, and "
                            "pickled with the model that is returned: publish its state_dict() "
                            "alone")  # fmt: skip
    if isinstance(neighbours, int) and relation == "add_remove" and first.samplers:
        whole = compare(first, replayed(first, changes[0].data, change=changes[0])).lines
        lines = [line for line in whole if "depends on the data" in line]
        if any(line.startswith("expected_batch_size") for line in lines):
            _extend(report.leaks, lines)
            report.notes.append("the divisor tells n, and hides what else moves: from here n "
                                "counts as public (zero_out)")  # fmt: skip
            compare = partial(findings, relation="zero_out", ignored=ignore)
            changes = list(record_neighbours(data, neighbours, "zero_out", seed))
    runs = [first]
    for number, change in enumerate(changes, 1):
        runs.append(replayed(first, change.data, change=change))
        report.add(report.leaks, compare(first, runs[-1]))
        if progress is not None:
            progress(number, len(changes))
    report.neighbours = len(changes)
    if isinstance(neighbours, int):
        runs.append(replayed(first, far_data(data, seed), far=True))
        lines = [] if report.leaks or runs[-1].error else compare(first, runs[-1]).lines
        _extend(report.leaks, [f"with many records replaced, {line}" for line in lines])
    _add_reads(report, runs, replayed, compare)
    if first.samplers and not report.leaks:
        report.add(report.leaks, compare(first, replayed(first, redrawn=1)))
    absent = _absent(report, first, partial(execute, train, data)) if first.samplers else None
    for change in changes[::_ABSENT] if absent else ():
        assert absent is not None
        report.add(report.leaks, compare(absent, replayed(absent, change.data, change=change)))
    if not (report.largest or report.leaks):
        report.inconclusive.append("no neighbour moved any sum: does train read its argument?")
    _add_prices(report, first, absent, delta, claim)
    return report


def _add_reads(
    report: TrainingReport, runs: Sequence[TrainingRun], replayed: Callable[..., TrainingRun],
    compare: Callable[..., TrainingFindings],
) -> None:  # fmt: skip
    """Find whether private numbers that the script reads decide anything that is released."""
    first, reads = runs[0], [run.reads for run in runs]
    places = set().union(*(private_places(reads[0], other) for other in reads[1:]))
    if not places:
        return
    names = ", ".join(sorted(places))
    report.notes.append(f"{names} reads a private number into Python: publish nothing of it")
    others, lines = other_numbers(reads, places), list[str]()
    for turn in TURNS:
        changed = replayed(first, others=others, turn=turn)
        lines += [] if changed.error else compare(first, changed).lines  # others may not fit
    if lines:
        report.leaks.append(f"{names} reads a private number that decides what is released: "
                            "with another "
                            f"number, {lines[0]}")  # fmt: skip


def _absent(
    report: TrainingReport, first: TrainingRun, recorded: Callable[[TrainingRun], TrainingRun]
) -> TrainingRun:
    """Record a run that no tested record joins, with a step of nobody if the script can have
    one."""
    coins = Coins(first.coins.tested, False, first.coins.seed, empty=True)
    try:
        return recorded(TrainingRun(coins, memory=first.memory))
    except Exception as error:
        n, rate, steps = first.samplers[0]
        if steps * (1 - rate) ** n > 1e-6:
            report.notes.append(
                f"a batch of nobody, which Poisson sampling can draw, raises {type(error).__name__}"
            )
        coins = Coins(first.coins.tested, False, first.coins.seed)
        return recorded(TrainingRun(coins, memory=first.memory))


def _add_prices(
    report: TrainingReport, first: TrainingRun, absent: TrainingRun | None, delta: float | None,
    claim: float | None,
) -> None:  # fmt: skip
    if first.poisson is not None and not any(not entry.marked for entry in first.sums):
        steps = f" ({', '.join(first.outside)} did)" if first.outside else ""
        report.leaks.insert(
            0, f"no noise was added: the optimizer that make_private returned never stepped{steps}"
        )
        return
    _extend(report.accounting, accounting(first))
    if absent is not None:
        _extend(report.accounting, accounting(absent))
    wrong, notes = priced(first, report.relation, delta, claim)
    report.accounting += wrong
    report.notes += notes
    if first.seeds:
        seeds = ", ".join(map(str, dict.fromkeys(first.seeds)))
        report.notes.append(f"the noise comes from a seed that the script sets ({seeds}): who "
                            "knows it takes the noise off")  # fmt: skip
