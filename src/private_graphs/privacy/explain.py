"""A privacy statement in the words of somebody who answers for the data, not for the proof.

Every number is computed from the statement: budgets are rounded up, lower bounds down, so that the
words never promise more than it does (``docs/privacy.md`` §11).
"""

from __future__ import annotations

import math
import textwrap
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from private_graphs.privacy.assumptions import NOISE_GENERATORS, ONLY_THIS_FILE, SECRET_SEED
from private_graphs.privacy.statements import (
    VACUOUS_EPSILON,
    Audit,
    PrivacyStatement,
)

_UNITS = {
    "graph": ("training graph as a whole", "training graphs as a whole", "a whole training graph"),
    "subgraph": (
        "part of the training graph",
        "parts of the training graph",
        "a part of the training graph, with all its nodes and the edges among them",
    ),
    "node": (
        "node", "nodes", "a node (such as one person or one document) with its features, its label "
        "and all its edges",
    ),
    "node_out_list": (
        "node", "nodes", "a node with its features, its label and the list of edges that it owns; "
        "edges that others own and that point to it are not covered",
    ),
    "edge_directed": (
        "directed edge", "directed edges",
        "the existence of one edge in one direction, not of all edges of a node together; "
        "features and labels are not covered",
    ),
    "edge_undirected": (
        "edge", "edges",
        "the existence of one edge between two nodes, not of all edges of a node together; "
        "features and labels are not covered",
    ),
    "record": ("record", "records", "one record"),
    "class": (
        "class", "classes", "all records of one class together, replaced by as many others of that "
        "class; a record that changes its class changes two units",
    ),
    "subclass": (
        "subclass", "subclasses", "all records of one subclass together, replaced by as many "
        "others of that subclass; a record that changes its subclass changes two units",
    ),
}  # fmt: skip
"""One, several, and what is meant by it, for each unit."""

_CHANGES = {
    "add_remove": "it is in the data or not",
    "zero_out": "it contributes what it does or nothing at all",
    "replace": "it is what it is or anything else in its place",
}
"""What an attacker cannot tell apart: 'whether ...'."""

RELEASES = {
    "params_only": "Released are the trained parameters and whatever is computed from them without "
    "the private data; predictions that read the private data are not covered",
    "joint_dp_predictions": "Released are the trained parameters and each node's own prediction, "
    "which is covered towards everybody but the node itself",
    "inductive_disjoint": "Released are the trained parameters and predictions that read no "
    "training node, so that both are covered alike",
    "noisy_rows": "Released are noisy rows, parameters and predictions; every prediction is "
    "computed from noisy releases and public data, so that all of it is covered alike",
    "leaks": "Released are the trained parameters and predictions that read private nodes or "
    "edges; at most the parameters are covered: the predictions are a further query and leak",
}
"""What is released and how far it is covered, by ``inference``."""

_PLAIN = {
    ONLY_THIS_FILE: "no other file of results from the same private data is released",
}

_OF_NOISE = {
    *(words for sources in NOISE_GENERATORS.values() for words in sources.values()),
    SECRET_SEED,
    ONLY_THIS_FILE,
}
"""Assumptions that only noise needs."""

_NOT_COVERED = (
    "other files of results, and publications, from the same data",
    "how the dataset was put together, and its sizes",
    "what follows about somebody from the data of others",
)
_FINGERPRINT = "the fingerprint of the dataset, which confirms a guess of the whole data"


def _rounded(value: float | Decimal, rounding: str) -> str:
    """Four significant digits, rounded to one side; without exponent from 0.0001 to a million."""
    number = Context(prec=4, rounding=rounding).create_decimal(Decimal(str(value)))
    if number and not Decimal("1e-4") <= abs(number) < Decimal("1e6"):
        return f"{number:.4g}"
    plain = f"{number:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def at_most(epsilon: float | Decimal) -> str:
    """Return a budget with four significant digits, rounded up."""
    return _rounded(epsilon, ROUND_CEILING)


def at_least(epsilon: float) -> str:
    """Return a lower bound with four significant digits, rounded down."""
    return _rounded(epsilon, ROUND_FLOOR)


def belief(epsilon: float) -> float:
    """Return the most that a belief of ½ can become: e^ε / (1 + e^ε), of ε-indistinguishability."""
    return 1 / (1 + math.exp(-epsilon))


def belief_percent(epsilon: float) -> str:
    """Return :func:`belief` in percent, rounded up, with as many decimals as it has nines."""
    rest = 100 / (1 + Decimal(epsilon).exp())
    decimals = max(1, -rest.adjusted())
    kept = rest.quantize(Decimal(1).scaleb(-decimals), ROUND_FLOOR)
    return f"{100 - kept:f} %"


def _odds(epsilon: float) -> str:
    if epsilon > VACUOUS_EPSILON:
        return "an attacker's even guess may become as good as certain: next to no promise"
    return f"an attacker who is 50 % sure becomes at most {belief_percent(epsilon)} sure"


def _odds_after(epsilon: float, before: float | None) -> str:
    """What a larger ε allows, in short where the one before it has said it already."""
    vacuous = before is not None and before > VACUOUS_EPSILON
    return ": next to no promise" if vacuous else f": {_odds(epsilon)}"


def _delta(statement: PrivacyStatement) -> str:
    """δ in words; the chance is rounded up."""
    delta, count = at_most(statement.delta), statement.n_units
    share = math.floor(1 / statement.delta * (1 + 1e-12))
    chance = f"1 in {share:,}" if share <= 1e15 else "less than 1 in 1,000,000,000,000,000"
    many = _UNITS[statement.unit][0 if count == 1 else 1]
    expected = at_most(Decimal(repr(statement.delta)) * count)
    bound = "at most " if statement.unit.startswith("edge") else ""
    return (
        f"The promise may fail altogether with a probability of at most δ = {delta}, that is "
        f"{chance}, for each; over {bound}{count:,} {many} this adds up to at most "
        f"{expected}."
    )


def _choice_inside(statement: PrivacyStatement) -> str:
    """How a choice that is part of one run is paid for: ``free``, ``charged``, or no such choice.

    ``selection.cost`` says so, as ``build_statement`` wrote it.
    """
    if statement.selection.n_configs == 1:
        return ""
    word = statement.selection.cost.partition(":")[0]
    return {"none": "free", "charged": "charged"}.get(word, "")


def _chooses_apart(statement: PrivacyStatement) -> bool:
    """Whether private validation labels choose beside a release about training nodes (§12)."""
    types = {each.type for each in statement.mechanisms}
    return statement.unit == "node" and "exponential" in types and len(types) > 1


def _counted(statement: PrivacyStatement) -> str:
    """The units, with their number; at edge level that is a declared bound."""
    one, many, _ = _UNITS[statement.unit]
    count = statement.n_units
    if statement.unit.startswith("edge"):
        return f"the {many} of the graph (declared: at most {count:,})"
    return f"the {one}" if count == 1 else f"the {count:,} {many}"


def _who(statement: PrivacyStatement) -> str:
    meant = _UNITS[statement.unit][2]
    count = statement.n_units
    if statement.reads_nothing:
        return (
            f"No private data were used: nothing was read of {_counted(statement)} that "
            f"{'is' if count == 1 else 'are'} to be protected; the unit is {meant}."
        )
    trained = _counted(statement) + ("" if count == 1 else ", each by itself,")
    if not statement.unit.startswith("edge"):
        trained += " that the model was trained on"
    trained = trained.rstrip(",")
    if statement.status == "not_private":
        return (
            f"Nobody is protected: neither {trained}, nor anything else. (What a private run "
            f"protects here is {meant}.)"
        )
    subject = "Meant to be protected" if statement.epsilon_proved is None else "Protected"
    if statement.status == "proved_if_seed_secret":
        subject = "Protected, from whoever does not know the seed,"
    verb = "is" if count == 1 else "are"
    text = f"{subject} {verb} {trained}; the unit is {meant}."
    if _chooses_apart(statement):
        text += (
            " Of a validation node its label alone is protected: not its text, not which node it is"
            " and not that it has a label."
        )
    return text


def _against(statement: PrivacyStatement) -> str:
    if statement.status == "not_private":
        return f"{RELEASES[statement.inference]}."
    if statement.reads_nothing:
        return (
            "What is released is the same whatever the private data are, so that it tells an "
            f"attacker nothing about whether {_CHANGES[statement.relation]}."
        )
    asked = f"whether {_CHANGES[statement.relation]}"
    edges = statement.unit.startswith("edge")
    if statement.relation == "add_remove" and statement.n_units > 1 and not edges:
        asked += f"; an exception is the number of {_UNITS[statement.unit][1]}, which is public"
    return (
        "The attacker is supposed to know everything else (all other units, the method, its "
        f"settings) and to ask of one unit {asked}. {RELEASES[statement.inference]}."
    )


def _claimed(statement: PrivacyStatement) -> str:
    """What a published formula gives, set apart from what is proved."""
    if statement.epsilon_published is None:
        return ""
    formula = f", {statement.published_formula}," if statement.published_formula else ""
    text = f" The publication's formula{formula} gives ε = {at_most(statement.epsilon_published)}"
    if statement.authors_accountant_epsilon is not None:
        text += f", its authors' program prints {statement.authors_accountant_epsilon:.4g}"
    if statement.status == "refuted":
        text += "; an attack has refuted this number"
    elif statement.epsilon_proved is None and statement.vacuous:
        text += ": a number without a proof, which would promise next to nothing even if it held"
    else:
        text += ": a claim, not a proof"
    return f"{text}."


def _strength(statement: PrivacyStatement) -> str:
    if statement.status == "not_private":
        return (
            "No noise was added, so nothing is promised: what is released may reveal any unit "
            "completely."
        )
    if statement.reads_nothing:
        return "That needs no noise: ε = 0, and δ = 0 as well."
    if statement.epsilon_proved is None:
        reason = _reason(statement.proof)
        text = f"Nothing is proved: {reason}. The data must be treated as if unprotected."
    else:
        epsilon = at_most(statement.epsilon_proved)
        inside = _choice_inside(statement)
        settings = (
            ", with the choice of its settings,"
            if inside
            else " with its settings fixed in advance"
        )
        text = (
            f"One run{settings} is proved to keep ε = {epsilon}: {_odds(statement.epsilon_proved)}."
            f"{_moved(statement)}"
        )
    return text + _claimed(statement)


def _moved(statement: PrivacyStatement) -> str:
    """What holds where a unit is moved, so that an attacker who knows their number learns less."""
    return "".join(
        f" Towards an attacker who also knows how many {_UNITS[statement.unit][1]} there are, and "
        f"asks whether one {_CHANGES[each.relation].removeprefix('it ')}, that run keeps "
        f"ε = {at_most(each.epsilon)}."
        for each in statement.also_proved
    )


def _of_file(statement: PrivacyStatement) -> str:
    """All private rows of the file together, and the rows that none of this holds for."""
    counted, others = statement.n_rows_counted, statement.n_rows_not_counted
    text = ""
    if counted > statement.n_runs_released:
        epsilon = statement.epsilon_of_file
        text = f" The file holds {counted} such rows, of this and other budgets; "
        text += (
            f"for all of them together nothing is proved: {_reason(statement.proof_of_file)}."
            if epsilon is None
            else f"all of them together keep ε = {at_most(epsilon)}"
            f"{_odds_after(epsilon, statement.epsilon_all_runs)}."
        )
    if others:
        rows = "1 row" if others == 1 else f"{others} rows"
        text += f" The file also holds {rows} without DP: these reveal the data."
    return text


def _reason(proof: str) -> str:
    return (proof.partition("none: ")[2] or proof).rstrip(" .")


def _inside(statement: PrivacyStatement, paid: str) -> str:
    """A choice that is part of every run."""
    selection = statement.selection
    text = (
        f" The settings of a run are chosen among {selection.n_configs} configurations by "
        f"{selection.data}"
    )
    if statement.reads_nothing:
        return f"{text}: all of this is public."
    if statement.epsilon_proved is None:
        return f"{text}; nothing is proved for the chosen ones either."
    if paid == "free":
        return (
            f"{text}: this reads public data and what the run released, and costs nothing; no "
            "further run reads private data."
        )
    text += ": this choice is one of the noisy steps of the run, and the ε of the run covers it."
    if statement.n_runs_released > 1 and _chooses_apart(statement):
        text += (
            " Runs that take validation labels to be public show them as they are: where there are "
            "such runs, the ε of all runs covers training nodes alone."
        )
    return text


def _all_runs(statement: PrivacyStatement) -> str:
    count, everything = statement.n_runs_released, statement.epsilon_all_runs
    if statement.reads_nothing:
        return (
            "One run was made."
            if count == 1
            else f"{count} runs were made; none of them read private data."
        )
    if count == 1:
        return "One run was made with this budget."
    if everything is None:
        return f"{count} runs were made; for all of them together nothing is proved."
    return (
        f"{count} runs were made; all of them together keep ε = {at_most(everything)}"
        f"{_odds_after(everything, statement.epsilon_proved)}."
    )


def _together(statement: PrivacyStatement) -> str:
    """All runs, and the choice among them or inside each; then the file."""
    if statement.status == "not_private":
        return ""
    return _runs_and_choice(statement) + _of_file(statement)


def _runs_and_choice(statement: PrivacyStatement) -> str:
    selection, everything = statement.selection, statement.epsilon_all_runs
    text = _all_runs(statement)
    if selection.n_configs == 1:
        return f"{text} The settings were fixed in advance."
    paid = _choice_inside(statement)
    if paid:
        return text + _inside(statement, paid)
    chosen = f"{text} The released one was chosen among {selection.n_configs} configurations"
    if not selection.public:
        return (
            f"{chosen} by {selection.data}: a further query of the private data, which no number "
            "here accounts for."
        )
    if everything is None:
        return f"{chosen} by {selection.data}; nothing is proved for the chosen one."
    return (
        f"{chosen} by {selection.data}; as the chosen one it keeps the ε of all runs together, "
        f"{at_most(everything)}, not that of one run."
    )


def _audited(audit: Audit | None) -> str:
    if audit is None:
        return ""
    return (
        f" An attack on {audit.runs:,} runs of this kind ({audit.design}) shows that ε is at least "
        f"{at_least(audit.epsilon_lower)}, at {at_least(100 * audit.confidence)} % confidence."
    )


def _listed(items: tuple[str, ...]) -> str:
    return "; ".join(item.rstrip(" .") for item in items)


def _supposing(statement: PrivacyStatement) -> str:
    prepared = f"Preparation of the data before training: {_listed((statement.preprocessing,))}."
    public = (
        f"Treated as public, hence unprotected: {_listed(statement.public_facts)}."
        if statement.public_facts
        else "Nothing is treated as public."
    )
    if statement.status == "not_private":
        return f"{prepared} {public}"
    if statement.reads_nothing:
        needed = tuple(each for each in statement.assumptions if each not in _OF_NOISE)
        return f"{f'This supposes: {_listed(needed)}. ' if needed else ''}{public} {prepared}"
    source = (
        "The random numbers come from a seed that is kept: whoever knows it can take the noise off "
        "again, and nothing is protected towards them."
        if statement.noise_source == "seeded"
        else "The random numbers depend on bytes of the operating system that are not kept."
    )
    supposed = _listed(
        tuple(_PLAIN.get(each, each) for each in statement.assumptions if each != SECRET_SEED)
    )
    supposed = supposed or "nothing further"
    return f"{source} This supposes: {supposed}. {public} {prepared}"


def _excluded(statement: PrivacyStatement) -> str:
    if statement.status == "not_private":
        return ""
    gaps = list(_NOT_COVERED)
    if statement.noise_source == "seeded":
        gaps.insert(1, _FINGERPRINT)
    if statement.inference == "leaks":
        gaps.insert(0, "the predictions, which read private nodes or edges")
    selection = statement.selection
    unpaid = selection.n_configs > 1 and not selection.public and not _choice_inside(statement)
    if unpaid:
        gaps.insert(0, "the choice of the configuration")
    return f"Not covered: {_listed(tuple(gaps))}."


def explain(statement: PrivacyStatement) -> dict[str, Any]:
    """Return the statement in plain words: numbers, and one text for each question.

    Keys: ``statement_id``, ``status``, ``epsilon`` (proved, of one run, or None),
    ``belief_at_most`` (what an attacker's 50 % can become, or None), ``epsilon_all_runs``,
    ``epsilon_of_file``, ``n_rows_not_counted``, ``delta``, and the texts ``who``, ``against``,
    ``strength``, ``delta_in_words``,
    ``all_runs_and_selection``, ``assumptions``, ``not_covered``; a text that has nothing to say is
    empty. Where no private data were used the texts say so and speak of no noise.
    """
    private = statement.status != "not_private"
    proved = statement.epsilon_proved if private else None
    return {
        "statement_id": statement.statement_id,
        "status": statement.status,
        "epsilon": proved,
        "belief_at_most": None if proved is None else belief(proved),
        "epsilon_all_runs": statement.epsilon_all_runs,
        "epsilon_of_file": statement.epsilon_of_file,
        "n_rows_not_counted": statement.n_rows_not_counted,
        "delta": statement.delta,
        "who": _who(statement),
        "against": _against(statement),
        "strength": _strength(statement) + (_audited(statement.audit) if private else ""),
        "delta_in_words": "" if proved is None or statement.reads_nothing else _delta(statement),
        "all_runs_and_selection": _together(statement),
        "assumptions": _supposing(statement),
        "not_covered": _excluded(statement),
    }


TEXTS = (
    "who",
    "against",
    "strength",
    "delta_in_words",
    "all_runs_and_selection",
    "assumptions",
    "not_covered",
)
"""The texts of :func:`explain` in the order in which they are read."""


BRIEF = {
    "What is protected": 3, "From whom": 4, "How strongly": 5, "What it rests on": 4,
    "What is not covered": 3,
}  # fmt: skip
"""Headings of :func:`brief`, with the most lines below each."""
_MORE = " … (all of it: --json)"


def brief(statement: PrivacyStatement, width: int = 80) -> list[str]:
    """Return the statement as five short headed lists for a terminal: lines of ``width``.

    What does not fit is cut, and says so; ``explain`` has all of it. The strength and what limits
    it come first, so that a cut never leaves a promise larger than it is.
    """
    private = statement.status != "not_private"
    reads = private and not statement.reads_nothing
    gaps = _excluded(statement).removeprefix("Not covered: ")
    others = statement.n_rows_not_counted
    items = (
        [_who(statement)],
        [
            f"from whoever knows all else and asks whether {_CHANGES[statement.relation]}" * reads,
            RELEASES[statement.inference],
        ],
        _brief_strength(statement) if reads else [_strength(statement)],
        [
            f"proof: {_reason(statement.proof)}" * (reads and statement.epsilon_proved is not None),
            f"supposed: {_listed(statement.assumptions)}" * bool(private and statement.assumptions),
            f"public, hence unprotected: {_listed(statement.public_facts) or 'nothing'}",
        ],
        [
            f"{others} rows without DP in the same file: they reveal the data" * bool(others),
            gaps if private else "anything",
        ],
    )
    lines = []
    for (heading, most), texts in zip(BRIEF.items(), items, strict=True):
        texts = [text[:1].upper() + text[1:] for text in texts if text]
        lines += [heading, *_bullets(texts, most, width)]
    return lines


def _brief_strength(statement: PrivacyStatement) -> list[str]:
    proved = statement.epsilon_proved
    audit, counted = statement.audit, statement.n_rows_counted
    odds = "" if proved is None else (
        ": next to no promise" if statement.vacuous
        else f": a guess of 50 % becomes at most {belief_percent(proved)}"
    )  # fmt: skip
    one = "nothing is proved" if proved is None else f"one run: ε = {at_most(proved)}{odds}"
    claim = statement.epsilon_published
    refuted = "" if audit is None else f"; an attack shows ε ≥ {at_least(audit.epsilon_lower)}"
    chosen = statement.selection
    unpaid = chosen.n_configs > 1 and not chosen.public and not _choice_inside(statement)
    runs = statement.n_runs_released
    together = [
        f"all {runs} runs: {_budget(statement.epsilon_all_runs)}" * (runs > 1),
        f"all {counted} private rows of the file: {_budget(statement.epsilon_of_file)}"
        * (counted > runs),
    ]
    return [
        one,
        "; ".join(filter(None, together)),
        "the settings were chosen on private data: no ε here pays for that" * unpaid,
        "" if claim is None else f"published: ε = {at_most(claim)}, a claim{refuted}",
        f"fails with probability δ = {at_most(statement.delta)} at most, each"
        * (proved is not None),
    ]


def _budget(epsilon: float | None) -> str:
    return "nothing is proved" if epsilon is None else f"ε = {at_most(epsilon)}"


def _bullets(texts: list[str], most: int, width: int) -> list[str]:
    """Return texts as items of ``most`` lines together; the longest are cut first."""
    form = {"width": width, "initial_indent": "- ", "subsequent_indent": "  ",
            "break_long_words": True, "break_on_hyphens": False}  # fmt: skip
    wrapped = [textwrap.wrap(text, **form) for text in texts]
    spare = most
    for rank, lines in enumerate(wrapped):
        share = max(1, spare - sum(min(len(each), 2) for each in wrapped[rank + 1 :]))
        if len(lines) > share:
            wrapped[rank] = textwrap.wrap(
                texts[rank], **form, max_lines=share, placeholder=_MORE
            )  # fmt: skip
        spare -= len(wrapped[rank])
    return [line for lines in wrapped for line in lines][:most]
