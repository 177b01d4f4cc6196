"""Attacks on trained models: their rows, one for every number, and what pages show of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from private_graphs.core.errors import UserError
from private_graphs.core.models import fields_of
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.methods import method_named
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.privacy.audits import most_of_gaussian
from private_graphs.report.link_leaks import (
    GUARANTEES,
    coin_rows,
    guarantee,
    link_blocks,
    proved,
    rate,
    shown,
    shown_tiny,
    wide,
)
from private_graphs.report.words import bound, budget, missing, number
from private_graphs.running.exhibit import Block, Chart, Column, Exhibit, Table
from private_graphs.running.jobs import Job
from private_graphs.running.run import settings_text
from private_graphs.tasks.tasks import SCENARIOS

LEAK_COLUMNS = ("leak", "left_out", "sees", "score", "measure", "who", "value", "low", "high",
                "accuracy", "n_shadows", "n_targets")  # fmt: skip
"""Columns of a leak beside ``store.RUN_COLUMNS``: the fields of ``attacks.leaks.Measurement``
and of ``jobs.LeakAttack``, and the accuracy of the model that is trained on all nodes."""


def leak_rows(job: Job, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a finished attack (``attacks.leaks.run_job``).

    Raises:
        UserError: the document lacks a field.
    """
    try:
        (epsilon,), leaks, guarantee = job.epsilons, job.leaks, document["guarantee"]
        settings = method_named(job.method).settings.model_validate(job.settings)
        common = {
            "source": "leaks", **fields_of(job, "study", "group"), "job": job.name,
            **fields_of(job, "dataset", "features", "method", "scenario", "protocol"),
            "settings": settings_text(settings, {}), "epsilon": epsilon, "delta": job.delta,
            "seed": leaks.seed, "seconds": document["seconds"] / max(1, len(document["measured"])),
            "leak": leaks.attack, "left_out": leaks.left_out, "n_shadows": leaks.shadows,
            "n_targets": leaks.targets,
            **{name: guarantee[name] for name in ("unit", "relation", "epsilon_claimed",
               "epsilon_proved", "noise_multiplier", "accuracy")},
        }  # fmt: skip
        fields = ("sees", "score", "measure", "who", "value", "low", "high")
        return [common | {name: row[name] for name in fields} for row in document["measured"]]
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{job.id}/leaks.json: an attack without {error}; expected what attacks write: delete "
            "its folder and run the job again"
        ) from None


# --- what pages show -----------------------------------------------------------------------------

NOTES = (
    "Attacks are evidence of what leaks from models like these: no upper bound on what another "
    "attacker sees, no measure of a proof, and no audit. They cannot show that a person is safe: "
    "averages hide the few who are most exposed (docs/leaks.md).",
    "Every model learns from a random half of the candidates, by independent coins. Models that "
    "learn from more of them leak more of each. Rates are pooled over models; intervals (95 %) "
    "resample models and records.",
    "found: the share of members, or of words that are there, which the attacker names when it is "
    "wrong about 1 % of the others; ruled out: the share of the others in the same way.",
    "allowed: the most that any attack reaches on average where the proved ε holds. found, ruled "
    "out: at 1 % false alarms. accuracy: of the model that learns from everybody; in brackets that "
    "of always guessing the largest class: an attack at chance on a model at chance shows nothing.",
)
_LIKELIHOOD = (
    "releases, likelihood: by somebody who knows everybody but a few people of long lists, which "
    "share nobody: nobody can do better from the same noisy sums. whole: what the model answers "
    "about a person from the noisy sums."
)
_CELL = ["dataset", "features", "method", "scenario", "protocol", "settings", "left_out", "epsilon"]
_RATE = "tpr_01"


def cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per attacked job: what identifies it, and the numbers of one score.

    The score is fixed in advance: the decoded release where there is one, else all views together,
    else the only view.
    """
    records = []
    rows = rows.dropna(axis=1, how="all")  # of a hundred columns attacks have a third
    for _, part in rows.groupby(["leak", "study", "group", "job"], sort=False):
        whole = part[part["who"] == "all"]
        numbers = {}
        kinds = list(zip(whole["sees"], whole["score"], strict=True))
        fixed = min(kinds, key=_rank)
        view = whole[[kind == fixed for kind in kinds]]
        for name, value, low, high in view[["measure", "value", "low", "high"]].itertuples(
            index=False, name=None
        ):
            numbers |= {name: value, f"{name}_low": low, f"{name}_high": high}
        numbers |= {
            name: value
            for name, value in whole.loc[whole["sees"] == "", ["measure", "value"]].itertuples(
                index=False, name=None
            )
        }
        records.append(part.iloc[0].to_dict() | numbers | {"sees": fixed[0], "score": fixed[1]})
    order = ["leak", "dataset", "method", "scenario", "protocol", "epsilon"]
    frame = pd.DataFrame(records).dropna(axis=1, how="all")
    return frame.sort_values(order, kind="stable", ignore_index=True)


def _rank(kind: tuple[str, str]) -> tuple[int, ...]:
    sees, score = kind
    order = ("decoding", "likelihood", "online")
    return (
        int(sees in ("", "published")),
        order.index(score) if score in order else len(order),
        int(sees != "together"),
    )


def blocks(results: Any) -> list[Block]:
    """Return what leaks: bars, a row per model, every view, who is exposed; last, curves."""
    sections: list[Block] = []
    curves: list[Block] = []
    for leak, noun in _NOUNS.items():
        rows = results.leaks[results.leaks["leak"] == leak]
        if rows.empty:
            continue
        if (rows["unit"] == "record").all():
            noun = "Which picture was learned from"
        if leak == "links":
            sections += link_blocks(rows, partial(_model, results=results), partial(_name, results))
            continue
        frame = cells(rows)
        frame["model"] = [_model(row, results) for row in frame.to_dict("records")]
        sections += [*_bars(noun, frame, results), _strength(noun, frame, results)]
        sections += [_views(noun, rows, results)]
        curves.append(_chart(noun, frame, results))
        parts = rows[(rows["who"] != "all")]
        if len(parts):
            sections.append(_exposed(noun, parts, results))
    return [*sections, *curves]


def numbers(results: Any) -> dict[str, str]:
    """Return what a finding may name, as text.

    ``leaking``, ``leaking printed``, ``leaking shown``, ``leaking edges``: of the model whose
    attack exceeds its printed ε most, if one does, and the largest share of the edges that an
    attack on models of its kind finds. ``closest``, ``closest printed``, ``closest proved``,
    ``closest auc``, ``closest allowed``: of the model whose attack comes closest to what its proved
    ε allows. ``within``: the number of models with a proved ε, if no attack exceeds one.
    ``without dp``: the largest share of the members that an attack finds of a model without DP;
    ``found``, ``found printed``: the largest share of one with an ε, and that ε, printed or
    asked for.
    """
    leaks = results.leaks[results.leaks["epsilon"] < math.inf]
    edges = coin_rows(leaks)
    attacks = leaks[leaks["leak"] != "links"]
    frame = pd.concat([edges, cells(attacks)] if len(attacks) else [edges], ignore_index=True)
    if frame.empty:
        return {}
    rows, known = frame.to_dict("records"), _found(results.leaks)
    # only what is shown at the δ of the claim contradicts it
    over = [row for row in rows if _above(row, "epsilon_shown", "epsilon_claimed")]
    if over:
        row = max(over, key=lambda row: row["epsilon_shown"] - row["epsilon_claimed"])
        known |= {"leaking": _model(row, results), "leaking printed": number(row["epsilon"]),
                  "leaking shown": bound(row["epsilon_shown"])}  # fmt: skip
        runs = edges[edges["job"].isin(edges.loc[edges["method"] == row["method"], "job"])]
        runs = runs[(runs["protocol"] == row["protocol"]) & (runs["epsilon"] == row["epsilon"])]
        known |= {"leaking edges": f"{100 * runs[_RATE].max():.0f} %"} if len(runs) else {}
    held = [row for row in rows if not missing(row.get("epsilon_proved"))]
    if held and not any(map(_exceeds, held)):
        row = max(held, key=lambda row: row["auc"] / row["allowed_auc"])
        known |= {
            "within": str(len(held)), "closest": _model(row, results),
            "closest printed": number(row["epsilon"]),
            "closest proved": budget(row["epsilon_proved"]), "closest auc": number(row["auc"], 3),
            "closest allowed": number(row["allowed_auc"], 3),
        }  # fmt: skip
    return known


def _found(leaks: pd.DataFrame) -> dict[str, str]:
    """Return the numbers of a finding about members."""
    members, known = leaks[leaks["leak"] == "membership"], {}
    if members.empty:
        return known
    frame = cells(members).sort_values(_RATE)
    free = frame["epsilon"] == math.inf
    if free.any():
        known["without dp"] = f"{100 * frame.loc[free, _RATE].iloc[-1]:.1f} %"
    if not free.all():
        most = frame[~free].iloc[-1]
        known |= {"found": f"{100 * most[_RATE]:.1f} %", "found printed": number(most["epsilon"])}
    return known


def _exceeds(row: Mapping[str, Any]) -> bool:
    """Return whether an attack exceeds what the proved ε of its model allows."""
    rates = any(_above(row, f"{name}_low", f"allowed_{name}") for name in ("auc", _RATE))
    columns = ("epsilon_shown", "epsilon_shown_tiny")  # each with what is proved at its own δ
    return rates or any(_above(row, name, f"{name}_proved") for name in columns)


def _above(row: Mapping[str, Any], measured: str, limit: str) -> bool:
    """Return whether a measured number of a row exceeds a limit; False where one is missing."""
    value, most = row.get(measured), row.get(limit)
    return not (missing(value) or missing(most)) and value > most


_NOUNS = {
    "membership": "Who was a training node",
    "links": "Which edges there are",
    "words": "Who used a rare word",
}


def _model(row: Mapping[str, Any], results: Any) -> str:
    """Return the attacked model in words: method, protocol, and what differs from the others."""
    settings = json.loads(row["settings"])
    words = [results.title(row["method"])]
    if len(method_named(row["method"]).protocols) > 1:
        words.append(PROTOCOLS[row["protocol"]].title)
    if row["scenario"] in ("text", "graph", "edges"):
        words.append(SCENARIOS[row["scenario"]].called)
    if settings.get("optimizer") == "sgd":
        words.append("SGD")
    if settings.get("sample") == 1:
        words.append("of all nodes")
    if row["left_out"] == "unlabelled":
        words.append("only labels left out")
    return ", ".join(words)


def _name(results: Any, dataset: str) -> str:
    titles = {entry["name"]: entry["title"].partition(" (")[0] for entry in results.statistics}
    return titles.get(dataset, dataset)


_BARS = ("found by an attack", "allowed by the printed ε", "allowed by the proved ε")


def _bars(noun: str, frame: pd.DataFrame, results: Any) -> Iterator[Chart]:
    """Yield, for every dataset, what an attack finds of the models with an ε, beside what their
    printed and their proved ε allow."""
    private = frame[frame["epsilon"] < math.inf]
    private = private.sort_values(["epsilon", _RATE], ascending=[True, False], kind="stable")
    for dataset, models in private.groupby("dataset"):
        points = []
        for row in models.to_dict("records"):
            proved_too = None if missing(row.get("epsilon_proved")) else row[f"allowed_{_RATE}"]
            status = "published_only" if proved_too is None else ""
            if _above(row, "epsilon_shown", "epsilon_claimed"):
                status = "refuted"
            common = {"dataset": dataset, "protocol": row["protocol"], "epsilon": row["epsilon"],
                      "model": row["model"], "column": f"ε = {number(row['epsilon'])}"}  # fmt: skip
            points += [
                {**common, "what": _BARS[0], "mean": row[_RATE], "status": status},
                {**common, "what": _BARS[1], "mean": _allowed(row), "status": ""},
                {**common, "what": _BARS[2], "mean": proved_too, "status": ""},
            ]
        most = f"{100 * models[_RATE].max():.1f} %"
        yield Chart(
            f"{noun}: where a model has an ε, an attack finds at most {most} of them at 1 % false "
            f"alarms, {_name(results, dataset)}",
            pd.DataFrame(points).assign(
                what=lambda rows: pd.Categorical(rows["what"], _BARS),
                percent=lambda rows: 100 * rows["mean"],
            ),
            x="model", y="percent", spread="", line="what", column="column", categories=True,
            bars=_BARS[0],
            y_label="found at 1 % false alarms, %", notes=(
                "ε: printed, or asked for. Allowed: by Gaussian noise of this ε. A model without a "
                "second mark has no finite ε that is proved. Who guesses blindly finds 1 %.",),
        )  # fmt: skip


def _allowed(row: Mapping[str, Any]) -> float:
    """Return the share that Gaussian noise of a row's printed ε lets anybody find."""
    return most_of_gaussian(gdp_mu(row["epsilon"], row["delta"]), {"01": 0.01})[_RATE]


def _chart(noun: str, frame: pd.DataFrame, results: Any) -> Chart:
    """Return attack strength and accuracy against ε, with chance and what the ε would allow."""
    points = []
    for row in frame.to_dict("records"):
        common = {"dataset": _name(results, row["dataset"]), "epsilon": row["epsilon"],
                  "line": row["model"], "protocol": row["protocol"]}  # fmt: skip
        allowed = 1.0 if math.isinf(row["epsilon"]) else _allowed(row)
        points.append(common | {"what": "found at 1 % false alarms", "mean": row[_RATE],
                                "chance": 0.01, "allowed": allowed})  # fmt: skip
        points.append(common | {"what": "accuracy of the model", "mean": row["accuracy"],
                                "chance": row.get("majority"), "allowed": None})  # fmt: skip
    return Chart(
        f"{noun}: what an attack finds against the printed ε, and what the model is worth",
        pd.DataFrame(points), x="epsilon", spread="", line="line", row="what", column="dataset",
        references={"chance": "chance", "allowed by Gaussian noise of this ε": "allowed"},
        log_x=True, x_label="ε printed or asked; ∞: without DP", y_label="share",
    )  # fmt: skip


def _strength(noun: str, frame: pd.DataFrame, results: Any) -> Table:
    frame = frame.assign(guarantee=[guarantee(row) for row in frame.to_dict("records")])
    frame["guarantee"] = pd.Categorical(frame["guarantee"], GUARANTEES)
    frame = frame.sort_values(["guarantee", _RATE], ascending=[True, False], kind="stable",
                              ignore_index=True)  # fmt: skip
    columns = [
        Column("guarantee", lambda row: row["guarantee"]),
        Column("model", lambda row: row["model"]),
        Column("dataset", lambda row: _name(results, row["dataset"]), under=True),
        Column("attacker", lambda row: f"{row['sees']}, {row['score']}", under=True),
        Column("ε printed", lambda row: f"{_printed(row):.3g}".replace("inf", "∞")),
        Column("ε proved", proved),
        Column("ε shown", shown),
        Column("(at δ)", shown_tiny, under=True),
        Column("accuracy", lambda row: number(row["accuracy"], 3)),
        Column("of guessing", lambda row: f"[{number(row.get('majority'), 3)}]", under=True),
        *rate("AUC", "auc"),
        Column("allowed", lambda row: number(row.get("allowed_auc"), 3), under=True),
        *rate("found", "tpr_01"),
        Column("allowed", lambda row: number(row.get("allowed_tpr_01"), 3), under=True),
        *rate("ruled out", "tnr_01"),
    ]
    notes = (*NOTES, "ε shown: a lower bound at 95 % from guesses about fresh models, by a design "
             "that was fixed on other models: at the δ of the printed ε, and at the δ in brackets. "
             "Both together hold at 90 %, for one record that is present or absent.")  # fmt: skip
    return Table(f"{noun}: one attack on every model, fixed in advance", frame, columns, notes,
                 panel="guarantee", unfolded=1)  # fmt: skip


def _printed(row: Mapping[str, Any]) -> Any:
    return math.inf if math.isinf(row["epsilon"]) else row["epsilon_claimed"]


def _views(noun: str, rows: pd.DataFrame, results: Any) -> Table:
    """Return every view and score of every model."""
    views = rows[(rows["who"] == "all") & (rows["sees"] != "")]
    views = views[views["measure"].isin(_MEASURES)]  # a shown ε is of one score, as _strength says
    keys = [*_CELL, "sees", "score", "delta", "study", "group", "job"]
    frame = wide(views, keys)
    frame["of"] = _of(frame, results)
    columns = [
        Column("of", lambda row: row["of"]),
        Column("attacker sees", lambda row: row["sees"]),
        Column("score", lambda row: row["score"]),
        *(Column(head, lambda row, name=name: number(row.get(name), 3 if name == "auc" else 4))
          for name, head in _MEASURES.items() if name in frame),
    ]  # fmt: skip
    notes = (
        "features: the node alone; public: the node with its edges to public nodes; whole: the "
        "whole graph; together: the three at once; published: the predicted classes of the test "
        "nodes. online, offline: likelihood ratios with shadows that learned from the record and, "
        "online, that did not; plain: confidence without shadows; decoding: the noisy sums solved "
        "for the coins. All are reported, not the best.",
        *((_LIKELIHOOD,) if (frame["score"] == "likelihood").any() else ()),
    )
    return Table(f"{noun}: every view and score", frame, columns, notes, panel="of", unfolded=0)


def _of(rows: pd.DataFrame, results: Any) -> list[str]:
    """Return the attacked model of every row, with its ε and dataset."""
    return [
        f"{_model(row, results)}, ε = {number(row['epsilon'])}, {_name(results, row['dataset'])}"
        for row in rows.to_dict("records")
    ]


_MEASURES = {
    "auc": "AUC", "tpr_01": "found at 1 %", "tpr_001": "found at .1 %",
    "tnr_01": "ruled out at 1 %", "tnr_001": "ruled out at .1 %", "precision": "precision",
}  # fmt: skip


def _exposed(noun: str, parts: pd.DataFrame, results: Any) -> Table:
    """Return who is exposed, with the cross-check."""
    frame = parts.dropna(axis=1, how="all").assign(of=_of(parts, results))
    counts = frame[frame["measure"] == "nodes"].set_index(["job", "group", "who"])["value"]
    frame = frame[frame["measure"] != "nodes"]
    keys = list(zip(frame["job"], frame["group"], frame["who"], strict=True))
    frame = frame.assign(nodes=[counts.get(key) for key in keys]).reset_index(drop=True)
    columns = [
        Column("of", lambda row: row["of"]),
        Column("who", lambda row: row["who"]),
        Column("nodes", lambda row: number(row["nodes"])),
        Column("measure", lambda row: _MEASURES.get(row["measure"], row["measure"])),
        Column("value", lambda row: number(row["value"], 3)),
    ]
    notes = ("One threshold for all nodes. Single nodes are chosen on the even-numbered models and "
             "measured on the odd ones.",)  # fmt: skip
    return Table(f"{noun}: who is exposed", frame, columns, notes, panel="of", unfolded=0)


def leak_exhibit(name: str, groups: Sequence[str], meaning: str) -> Exhibit:
    """Return the exhibit of a study on what its models leak, by the attacks of ``groups``."""
    return Exhibit(
        name,
        "What leaks in practice",
        groups=groups,
        build=blocks,
        numbers=numbers,
        meaning=f"{meaning} These are examples of attacks; stronger ones may exist.",
    )
