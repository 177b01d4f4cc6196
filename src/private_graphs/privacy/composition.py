"""ε of mechanisms that somebody describes: noisy steps, Laplace noise, answers, event trees."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from private_graphs.core.bounded_files import parsed_json, read_bounded
from private_graphs.core.errors import UsageError, UserError, listed
from private_graphs.core.manifest import changed_file
from private_graphs.core.wrong_fields import wrong_fields
from private_graphs.privacy.accountants import gdp_epsilon, lattice_epsilon
from private_graphs.privacy.checks import MOST_STEPS, check, check_delta
from private_graphs.privacy.choices import undominated, ways
from private_graphs.privacy.dp_events import NUMBERS, DpEvents
from private_graphs.privacy.named_accountants import epsilon_for
from private_graphs.privacy.queries import LATTICE_RATIO, lattice_distance
from private_graphs.privacy.query_losses import LaplaceLoss, PureLoss, SampledTerms, composed
from private_graphs.privacy.rounding import at_most

if TYPE_CHECKING:
    from private_graphs.privacy.statements import PrivacyStatement

_RELEASES = 16
"""Fewest releases that ``together`` supposes."""


def default_relation(accountant: str) -> str:
    """Return replace, or add_remove for the published formula, which covers nothing else."""
    return "add_remove" if accountant in ("moments", "cancelling") else "replace"


def minibatches(epochs: int, batch_size: int, n: int) -> tuple[int, float, int]:
    """Return steps, sampling rate, and the steps that touch a record under shuffling."""
    if not (epochs >= 1 and 1 <= batch_size <= n <= MOST_STEPS):
        raise UsageError(
            f"epochs {epochs}, batch size {batch_size}, n {n}; expected at least one epoch and "
            f"1 <= batch size <= n <= {MOST_STEPS:,}"
        )
    return epochs * math.ceil(n / batch_size), batch_size / n, epochs


def priced(
    mechanism: str, noise: float, steps: int, *, accountant: str = "pld", rate: float = 1.0,
    group: int = 1, delta: float = 1e-5, relation: str | None = None, shuffled: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return ε of ``steps`` releases, what it is about and what each number supposes.

    ``group``: records of one person; ``shuffled``: epochs, if minibatches may have been shuffled.
    Their ε is None under add_remove: one record more changes the minibatches of the others.

    Raises:
        UsageError: numbers out of range, or a combination that no accountant covers.
    """
    both = relation is None and group == 1 and accountant in ("pld", "gdp")
    relation = relation or default_relation(accountant)
    check(steps=steps, delta=delta, relation=relation, rate=rate, noise=noise)
    about = {"delta": delta, "relation": relation, "steps": steps}
    if mechanism != "gaussian":
        if rate != 1 or accountant != "pld":
            raise UsageError(f"{mechanism} takes no sampling rate and no other accountant than pld")
        one = (1 / noise if mechanism == "laplace" else noise) * group
        value, name, _ = composed((_pure(mechanism, one, steps),), delta)
        pure = steps * one
        return {
            "epsilon": value, **about, "accountant": name, "sampling": "none", "bound": "upper",
            "pure_epsilon": pure, "supposes": _supposed_of_pure(mechanism, group),
        }  # fmt: skip
    if group > 1:
        value, name = _of_group(noise, steps, rate, group, delta, relation)
    else:
        value, name = epsilon_for(accountant, noise, steps, rate, delta, relation), accountant
    exact = name == "gdp"
    bound = "no bound" if name == "cancelling" else "exact" if exact else "upper"
    sampling = "none" if rate == 1 else f"poisson({rate:g})"
    fields = {"epsilon": value, **about, "accountant": name, "sampling": sampling, "bound": bound}
    if both:
        other = epsilon_for(accountant, noise, steps, rate, delta, "add_remove")
        fields["epsilon_add_remove"] = other
    if group > 1:
        fields["group"] = group
    supposes = supposed(relation, rate, group, shuffled is not None)
    if bound == "no bound":
        supposes.append("epsilon is what the authors' code prints, and bounds nothing")
    fields["supposes"] = supposes
    if shuffled is not None:
        twice = 2 if relation == "replace" else 1
        fields["if_shuffled"] = (
            None if relation == "add_remove"
            else gdp_epsilon(group * twice * math.sqrt(shuffled) / noise, delta)
        )  # fmt: skip
    return fields


def paragraph(
    noise: float, steps: int, rate: float, delta: float, shuffled: int | None = None
) -> str:
    """Return a paragraph for a paper on ``steps`` Gaussian steps: ε under both relations."""
    accountant = "gdp" if rate == 1 else "pld"
    prices = {name: priced("gaussian", noise, steps, accountant=accountant, rate=rate, delta=delta,
                       relation=name, shuffled=shuffled)
          for name in ("replace", "add_remove")}  # fmt: skip
    five = priced("gaussian", noise, steps, rate=rate, delta=delta, group=5)["epsilon"]
    who = "each step reads all records"
    if rate < 1:
        who = (f"each record joins each step by a secret coin of its own with probability "
                f"{rate:.4g} (Poisson sampling), and who joined is never published")  # fmt: skip
    replaced, joined = (at_most(prices[name]["epsilon"], 2) for name in prices)
    words = (
        f"Training makes {steps:,} steps; each adds Gaussian noise of {noise:g} clip norms to the "
        f"sum of gradients that are clipped record by record; {who}. The unit is one record. "
        f"With delta = {delta:g}, epsilon is {replaced} where a record is replaced, and {joined} "
        "where one is added or removed while the number of records that steps, rate and divisors "
        "are computed from is public. A group of five records has epsilon "
        f"{at_most(five, 2)} where they are replaced. This supposes that the number of steps is "
        "fixed in advance, that the noise is exactly Gaussian, secret and fresh in each step, and "
        "that nothing else is published that reads the records, such as scores, settings chosen by "
        "them, or sizes of batches."
    )
    if shuffled is not None:
        value = at_most(prices["replace"]["if_shuffled"], 2)
        words += (
            f" Minibatches that are shuffled in place of this sampling have epsilon {value} where "
            "a record is replaced."
        )
    return words


_MOVES = {
    "replace": "its term, of norm at most the clip norm, becomes any other such term",
    "zero_out": "its term, of norm at most the clip norm, becomes zero, and its place stays",
    "add_remove": "its term, of norm at most the clip norm, appears or vanishes",
}
"""Relation -> what a neighbour's record does to a noisy sum."""


def supposed(relation: str, rate: float, group: int = 1, minibatches: bool = False) -> list[str]:
    """Return what the ε of noisy Gaussian steps supposes, in sentences.

    ``minibatches``: rate and steps follow from a number of records.
    """
    who = "a record" if group == 1 else f"each of {group} records of one person"
    listed = [
        f"{who} changes: {_MOVES[relation]}",
        "the number of steps and the divisor of the sums are public, fixed in advance, and the "
        "same for neighbours",
        "the noise is exactly Gaussian, secret, and independent in each step",
    ]
    if rate < 1:
        listed.append(
            "each record joins each step by a secret coin of its own (Poisson sampling), at a rate "
            "that is the same for neighbours; who joined, and how many, is never published"
        )
    else:
        listed.append("each step reads all records")
    if minibatches:
        listed += _SUPPOSED_OF_MINIBATCHES[relation == "add_remove"]
    return listed


_SUPPOSED_OF_MINIBATCHES = (
    ["if_shuffled: minibatches have a fixed size and each record is in one of each epoch, in any "
     "order; the number of records is the same for neighbours"],
    ["the number of records, from which rate and steps were computed, is public, and both stay as "
     "they are for a neighbour with one record more or fewer",
     "if_shuffled is null: with one record more or fewer there are other minibatches, or more of "
     "them, so that nothing is proved; --relation replace or zero_out have a price"],
)  # fmt: skip
"""Whether a record appears or vanishes -> what the numbers of minibatches suppose."""


def _supposed_of_pure(mechanism: str, group: int) -> list[str]:
    """Return what the ε of Laplace noise or of answers supposes, in sentences."""
    of_whom = "a record" if group == 1 else f"each of {group} records of one person"
    one = {
        "laplace": "each step releases one number with exact Laplace noise, which "
        f"{of_whom} moves by the sensitivity at most; of several numbers at once, "
        "pure_epsilon alone holds",
    }.get(mechanism, f"each step is an answer with the given epsilon for {of_whom}")
    return [one, "the number of steps is public, fixed in advance, and the same for neighbours"]


def _pure(mechanism: str, epsilon: float, steps: int) -> LaplaceLoss | PureLoss:
    if mechanism == "laplace":
        return LaplaceLoss(1 / epsilon, steps)
    return PureLoss(epsilon, steps, epsilon**2 / 2)


def _of_group(
    noise: float, steps: int, rate: float, group: int, delta: float, relation: str
) -> tuple[float, str]:
    """Return ε of ``group`` records together: k μ, or J ~ Bin(k, q) sampled terms (§0.2)."""
    if rate == 1:
        twice = 2 if relation == "replace" else 1
        return gdp_epsilon(group * twice * math.sqrt(steps) / noise, delta), "gdp"
    if relation != "replace":
        raise UsageError("--group with a sampling rate covers replace; leave --relation out")
    value, name, _ = composed((SampledTerms(noise, steps, rate, group, relation),), delta)
    return value, name


def together(
    statements: Sequence[PrivacyStatement], for_link: bool = False
) -> tuple[float | None, float]:
    """Return (ε, δ) of all runs for a unit that is in each of them.

    ε is None if one proves nothing, or if they are about different units or relations. A run costs
    the largest of its parts, which are about different units. Gaussian releases compose exactly,
    with the distance of lattice noise (docs/privacy.md §0.6); of others ε and δ add up.
    ``for_link``: the unit is a link, which may be there or not. Runs that protect a document with
    its links protect each of them as much.
    """
    square = total = spent = numbers = 0.0
    delta = min(statement.delta for statement in statements)
    reading = [statement for statement in statements if not statement.reads_nothing]
    if len({(statement.unit, statement.relation) for statement in reading}) > 1 and not for_link:
        return None, delta
    for statement in reading:
        if statement.epsilon_proved is None or statement.epsilon_all_runs is None:
            return None, delta
        mus = [_mu(part.event, part.neighboring_relation) for part in statement.dp_events]
        known = [mu for mu in mus if mu is not None]
        if mus and len(known) == len(mus) and statement.n_runs_released == 1:
            square += max(known) * max(known)  # infinite, where a power would raise
            numbers += sum(map(_numbers, statement.dp_events))
        else:
            total += statement.epsilon_all_runs
            spent += statement.delta
    if not square:
        return total, spent or delta
    distance = lattice_distance(LATTICE_RATIO, max(numbers, NUMBERS * _RELEASES))
    return total + lattice_epsilon(square**0.5, distance, delta)[0], spent + delta


def _mu(event: Mapping[str, Any] | None, relation: str) -> float | None:
    """Return μ of an event of Gaussian releases; None for any other one."""
    if event is None:
        return None
    if event["class"] == "GaussianDpEvent":
        return (2 if relation == "REPLACE_ONE" else 1) / event["noise_multiplier"]
    if event["class"] == "SelfComposedDpEvent":
        inner = _mu(event["event"], relation)
        return None if inner is None else inner * event["count"] ** 0.5
    if event["class"] == "ComposedDpEvent":
        parts = [_mu(part, relation) for part in event["events"]]
        return None if None in parts else sum(mu * mu for mu in parts) ** 0.5  # type: ignore
    return None


def _numbers(part: DpEvents) -> float:
    """Return at least the count of numbers with lattice noise in a part of a run."""
    return max(part.lattice_numbers or 0, NUMBERS * _count(part.event or {}))


def _count(event: Mapping[str, Any]) -> float:
    """Return the number of releases in an event of Gaussian releases."""
    inner = event.get("events") or ([event["event"]] if "event" in event else [])
    return float(event.get("count", 1)) * (sum(map(_count, inner)) if inner else 1)


def of_file(path: Path, delta: float | None = None) -> dict[str, Any]:
    """Return ε of the event trees in a JSON file, composed by dp-accounting.

    The file has ``dp_events`` of one or several statements, events of dp-accounting (``class`` and
    the parameters of that class), or the ``state_dict()`` of an accountant of Opacus. Parts of one
    statement are about different units: of all ways in which one unit can stand in them, the
    costliest counts. ``delta`` is by default that of the statements, and 1e-5 without one.

    Raises:
        UserError: a file that cannot be read, an event that dp-accounting has no price for, or
            parts of too many statements.
    """
    # a manifest of something else may lie beside events of one's own
    if (reason := changed_file(path.parent, only=path.name)) and reason.startswith(str(path)):
        raise UserError(f"{reason}; take the folder anew from who made it")
    try:
        content = parsed_json(read_bounded(path))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as JSON ({error}); expected dp_events") from error
    values = list(content.values()) if isinstance(content, Mapping) and all(
        isinstance(entry, Mapping) and "dp_events" in entry for entry in content.values()
    ) else content if isinstance(content, list) else [content]  # fmt: skip
    if not values:
        raise UserError(f"{path}: has no event; {_FORMS}")
    if delta is None:
        delta = _delta_of(values, path)
    check_delta(delta)
    runs = [_parts(entry, path) for entry in values]
    relation = _one({part["neighboring_relation"] for parts in runs for part in parts}, path)
    # a statement's trees move by the unit of its own relation, whatever the accountant calls it
    named = _RELATIONS.get(relation, relation)
    stated = _one({str(entry.get("relation", named)) for entry in values}, path)
    units = {
        str(entry["unit"]) for entry in values if isinstance(entry, Mapping) and "unit" in entry
    }
    if len(units) > 1:
        raise UserError(
            f"{path}: statements about units {', '.join(sorted(units))}, of which one may hold "
            "several of another; expected one unit"
        )
    counts = Counter(
        tuple(sorted({json.dumps(part["event"], sort_keys=True) for part in parts}))
        for parts in runs
    )
    histories = all(isinstance(entry, Mapping) and "history" in entry for entry in values)
    try:
        for texts in counts:
            for text in texts if len(texts) > 1 else ():  # one that another covers is none unread
                _price([(json.loads(text), 1)], relation, delta)
        options = ways([
            (undominated(list(map(json.loads, texts)), _covers), number)
            for texts, number in counts.items()
        ])  # fmt: skip
        value = max(_price(way, relation, delta) for way in options)
        replaced = [_price(way, "REPLACE_ONE", delta) for way in options if histories]
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return {
        "epsilon": value, **({"epsilon_replace": max(replaced)} if replaced else {}),
        "delta": delta, "relation": stated, "runs": len(runs),
        "accountant": "PLDAccountant of dp-accounting", "bound": "upper",
        "supposes": [
            "one unit is in every run, and in one part of each",
            "each run makes the events that the file names, whose number and rates are public, "
            "fixed in advance, and the same for neighbours",
            "where an event is Poisson sampled, who joined is never published",
        ],
    }  # fmt: skip


def _delta_of(values: Sequence[Any], path: Path) -> float:
    """Return the δ that all statements have in common; 1e-5 where none tells one."""
    stated = [entry["delta"] for entry in values if isinstance(entry, Mapping) and "delta" in entry]
    deltas = set(map(str, stated))
    if len(deltas) > 1:
        raise UserError(
            f"{path}: statements with delta {', '.join(sorted(deltas))}; expected one: give --delta"
        )
    delta = stated[0] if stated else _DELTA
    if not isinstance(delta, int | float):
        raise UserError(f"{path}: delta is {delta!r}; expected a number")
    return float(delta)


_DELTA = 1e-5
"""δ where neither the user nor a statement tells one."""


def _of_opacus(state: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Return the event of the steps that an accountant of Opacus counted."""
    history = state["history"]
    steps = history if isinstance(history, list) else []
    if not steps or not all(
        isinstance(entry, list) and len(entry) == 3
        and all(isinstance(number, int | float) for number in entry) for entry in steps
    ):  # fmt: skip
        raise UserError(
            f"{path}: history is {str(history)[:60]}; expected [noise multiplier, sampling rate, "
            "steps] of every part, as accountant.state_dict() of Opacus has them"
        )
    events = [
        {"class": "SelfComposedDpEvent", "count": count, "event": {
            "class": "PoissonSampledDpEvent", "sampling_probability": rate, "event": {
                "class": "GaussianDpEvent", "noise_multiplier": noise}}}
        for noise, rate, count in steps
    ]  # fmt: skip
    return {"class": "ComposedDpEvent", "events": events}


_RELATIONS = {"ADD_OR_REMOVE_ONE": "add_remove", "REPLACE_ONE": "replace"}
"""Names in this project of the relations of dp-accounting."""


def _one(relations: set[str], path: Path) -> str:
    """Return the relation that all events have in common."""
    if len(relations) != 1:
        raise UserError(f"{path}: events under {' and '.join(sorted(relations))}; expected one")
    return relations.pop()


_FORMS = (
    "expected dp_events of statements, each with an event and no secret sample, events of "
    'dp-accounting ({"class": "GaussianDpEvent", ...}), or the state_dict() of an accountant of '
    "Opacus"
)


def _parts(value: Any, path: Path) -> list[dict[str, Any]]:
    forms = ("history", "class", "dp_events")
    if isinstance(value, Mapping) and len(keys := [key for key in forms if key in value]) > 1:
        raise UserError(f"{path}: has {listed(keys)} in one object, expected one of them; write "
                        "a list of objects, which compose")  # fmt: skip
    if isinstance(value, Mapping) and "history" in value:
        value = {"event": _of_opacus(value, path)}
    elif isinstance(value, Mapping) and "class" in value:
        value = {"event": value}
    parts = value.get("dp_events", [value]) if isinstance(value, Mapping) else None
    if not isinstance(parts, list) or not parts or not all(
        isinstance(part, Mapping) and part.get("event") and not part.get("secret_sample")
        for part in parts
    ):  # fmt: skip
        raise UserError(f"{path}: {_FORMS}")
    try:
        return [DpEvents.model_validate(part).model_dump() for part in parts]
    except ValidationError as error:
        key, message = wrong_fields(error.errors(), DpEvents.model_fields)[0]
        raise UserError(f"{path}: {key}: {message}; correct the events") from error


def _covers(tree: Mapping[str, Any], rival: Mapping[str, Any]) -> bool:
    """Return whether a tree costs at least as much as another, whatever follows (§0.1)."""
    try:
        one, two = (_mu(event, "ADD_OR_REMOVE_ONE") for event in (tree, rival))
        return one is not None and two is not None and one >= two
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError):
        return False  # no tree of events; its price is refused


def _price(runs: Sequence[tuple[Mapping[str, Any], int]], relation: str, delta: float) -> float:
    """Return ε of event trees, each as often as its number says, by dp-accounting."""
    from dp_accounting import pld, privacy_accountant

    trees = [
        tree if number == 1 else {"class": "SelfComposedDpEvent", "event": tree, "count": number}
        for tree, number in runs
    ]
    try:
        grid = max(_GRID, _largest_loss(trees) / _POINTS)
        accountant = pld.PLDAccountant(privacy_accountant.NeighboringRelation[relation], grid)
        for tree in trees:
            accountant.compose(_event(tree))
        if math.isinf(epsilon := float(accountant.get_epsilon(delta))):
            raise ValueError("without noise no epsilon holds")
        return epsilon
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError,
            privacy_accountant.UnsupportedEventError) as error:  # fmt: skip
        why = "its losses are no finite numbers" if isinstance(error, ArithmeticError) else error
        raise UserError(
            f"dp-accounting cannot price the event {json.dumps(trees)[:200]} ({why}); expected "
            "a tree of Gaussian, Laplace, sampled or composed events"
        ) from error


_GRID, _POINTS = 1e-4, 500_000
"""Step of dp-accounting's tables of losses, and most points: larger losses take larger steps."""


def _largest_loss(trees: Sequence[Mapping[str, Any]]) -> float:
    """Return about the largest loss in the tables of events; ValueError where it is infinite."""
    mu = math.sqrt(sum(map(_square, trees)))
    if not math.isfinite(mu):
        raise ValueError("noise too small to hide anything")
    return mu**2 / 2 + 10 * mu


def _square(tree: Mapping[str, Any]) -> float:
    """Return at least μ² of an event, under any relation."""
    inner = [*tree.get("events", ()), *([tree["event"]] if "event" in tree else ())]
    if inner:
        return tree.get("count", 1) * sum(map(_square, inner))
    noise = tree.get("noise_multiplier") or tree.get("standard_deviation")
    most = max(tree.get("sensitivities", (1,)))
    return (2 * most / noise) ** 2 if noise else 0.0


_EVENTS = frozenset(
    ("GaussianDpEvent", "LaplaceDpEvent", "RandomizedResponseDpEvent", "PoissonSampledDpEvent",
     "SelfComposedDpEvent", "ComposedDpEvent", "MixtureOfGaussiansDpEvent", "NoOpDpEvent",
     "NonPrivateDpEvent")
)  # fmt: skip
"""Classes of dp-accounting that a file may name."""


def _event(tree: Mapping[str, Any]) -> Any:
    """Return the event of a tree, ValueError where it names no event.

    dp-accounting 0.6 counts a randomised response that is composed with itself once: copies of it
    are listed.
    """
    from dp_accounting import dp_event

    fields = dict(tree)
    name = fields.pop("class")
    if name not in _EVENTS:
        raise ValueError(f"no event {name!r}")
    kind = getattr(dp_event, name)
    if fields.keys() != (wanted := signature(kind).parameters.keys()):
        raise ValueError(f"{name} has {listed(fields) or 'nothing'}, expected {listed(wanted)}")
    count = fields.get("count", 1)
    if type(count) is not int or count < 1:
        raise ValueError(f"count {count!r}; expected a whole number from 1 on")
    if name == "SelfComposedDpEvent" and _answers(tree["event"]):
        if not 1 <= tree["count"] <= _MOST_ANSWERS:
            raise ValueError(f"{tree['count']} answers; expected 1 to {_MOST_ANSWERS}")
        return dp_event.ComposedDpEvent([_event(tree["event"])] * tree["count"])
    for key in ("event", "events"):
        if key in fields:
            value = fields[key]
            fields[key] = list(map(_event, value)) if key == "events" else _event(value)
    return kind(**fields)


_MOST_ANSWERS = 1000
"""Most copies of a randomised response, which compose one by one."""


def _answers(tree: Mapping[str, Any]) -> bool:
    """Return whether a tree has a randomised response."""
    inner = [*tree.get("events", ()), *([tree["event"]] if "event" in tree else ())]
    return tree["class"] == "RandomizedResponseDpEvent" or any(map(_answers, inner))
