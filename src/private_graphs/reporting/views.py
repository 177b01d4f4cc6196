"""What the pages of the site show, as plain values for the templates: no markup here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from private_graphs.config import Study
from private_graphs.protocols import PROTOCOLS
from private_graphs.reporting.formats import NOTHING, Readable, is_missing, number, read_table
from private_graphs.reporting.published import published_table
from private_graphs.reporting.readable import (
    OPTIMIZER_TITLES,
    feature_title,
    lead_title,
    lead_words,
    limits,
    panel_words,
    printed_elsewhere,
    score,
    score_notes,
    setting_title,
    together,
    warnings,
)
from private_graphs.reporting.score_tables import (
    BASELINES,
    FEATURES,
    SCORE_TABLES,
    ScoreTable,
    rank,
)

Notes = tuple[tuple[str, str], ...]
"""How numbers were made, as (heading, text)."""


@dataclass(frozen=True)
class ScoreCell:
    """The place of one source of numbers in a row of scores."""

    score: str
    privacy: str
    tone: str
    """``proved``, ``none``, ``plain`` (no privacy is at stake) or ``absent`` (not run)."""
    warnings: tuple[str, ...] = ()
    together: str = ""
    """ε of all runs of the row, in words."""
    href: str | None = None
    """Address of the statement, from the folder of ``index.html``."""


@dataclass(frozen=True)
class ScoreRow:
    """A row of a table of scores."""

    setting: str
    optimizer: str
    epsilon: str
    lead: str
    """The published value, or a difference."""
    cells: tuple[ScoreCell, ...]
    """In the order of the table's sources."""


@dataclass(frozen=True)
class ScoreGroup:
    """The rows of a table of scores for one dataset, or for one kind of features of it."""

    title: str
    synthetic: bool
    rows: tuple[ScoreRow, ...]


@dataclass(frozen=True)
class Glance:
    """One source of numbers (published, or a protocol) in the summary of a table of scores."""

    name: str
    scores: tuple[tuple[str, str, str], ...]
    """(group, without DP, with DP) as ranges over the rows."""
    privacy: str
    tone: str


@dataclass(frozen=True)
class ScoreSection:
    """Everything that the site shows of one table of scores of a study at one scale."""

    table: ScoreTable
    datasets: tuple[str, ...]
    """Names of those in the table."""
    lead: str
    """Heading of the column before the sources."""
    words: tuple[str, ...]
    """What has to be said of this table and of no other."""
    picture: str | None
    glance: tuple[Glance, ...]
    groups: tuple[ScoreGroup, ...]
    elsewhere: Readable | None
    """What the paper prints for a dataset that is not in the table."""
    notes: Notes
    command: str


def score_section(
    results_root: Path,
    scale: str,
    study: Study,
    table: ScoreTable,
    statistics: Mapping[str, Mapping[str, Any]],
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
) -> ScoreSection | None:
    """Return the section of ``table``; None where it has not been written at this scale."""
    path = results_root / scale / "tables" / f"{study.id}_{table.name}.csv"
    if not path.exists():
        return None
    frame = read_table(path)
    datasets = sorted(frame["dataset"].unique())
    known = {name: each for name, each in statistics.items() if name in datasets}
    mine = pd.concat([source.runs(runs) for source in table.sources])
    picture = f"{scale}/figures/{study.id}_{table.name}.png"
    return ScoreSection(
        table=table,
        datasets=tuple(datasets),
        lead=lead_title(table),
        words=score_notes(table),
        picture=picture if (results_root / picture).exists() else None,
        glance=glance(frame, table, known),
        groups=score_groups(frame, table, known, f"{scale}/statements"),
        elsewhere=_elsewhere(study.id, table, datasets),
        notes=notes(mine, statements, known),
        command=command(
            study, scale, list(dict.fromkeys(each.experiment for each in table.sources)), datasets
        ),
    )


def _elsewhere(study: str, table: ScoreTable, datasets: Sequence[str]) -> Readable | None:
    if table.published_dataset is None or table.published_dataset in datasets:
        return None
    return printed_elsewhere(table, published_table(study, table.name))


def command(study: Study, scale: str, experiments: Sequence[str], datasets: Sequence[str]) -> str:
    """Return the command that makes the numbers of ``experiments`` on ``datasets``."""
    known = study.scales[scale].experiments
    if scale == "demo" and all(known[each].default for each in experiments if each in known):
        return "snakemake"
    return (
        f"snakemake --config scale={scale} datasets={','.join(datasets)} "
        f"experiments={','.join(experiments)}"
    )


def score_groups(
    frame: pd.DataFrame,
    table: ScoreTable,
    statistics: Mapping[str, Mapping[str, Any]],
    statements: str,
) -> tuple[ScoreGroup, ...]:
    """Return the rows of ``table`` by group; ``statements`` is the address of their folder."""
    return tuple(
        ScoreGroup(
            title=_group_title(names, table, statistics),
            synthetic=bool(statistics.get(names["dataset"], {}).get("synthetic", False)),
            rows=tuple(_score_row(row, table, statements) for row in rows.to_dict("records")),
        )
        for names, rows in table.groups(frame)
    )


def _group_title(
    names: Mapping[str, str], table: ScoreTable, statistics: Mapping[str, Mapping[str, Any]]
) -> str:
    title = statistics.get(names["dataset"], {}).get("title", names["dataset"])
    return ", ".join([title, *(panel_words(names, each) for each in table.panel[1:])])


def _score_row(row: Mapping[str, Any], table: ScoreTable, statements: str) -> ScoreRow:
    return ScoreRow(
        setting=setting_title(row),
        optimizer=OPTIMIZER_TITLES[row["optimizer"]],
        epsilon=number(row["epsilon"]),
        lead=lead_words(row, table),
        cells=tuple(_score_cell(row, source.prefix, statements) for source in table.sources),
    )


def _score_cell(row: Mapping[str, Any], source: str, statements: str) -> ScoreCell:
    if is_missing(row[f"{source}_mean"]):
        return ScoreCell("not run", "", "absent")
    text = score(row, source)
    status = row[f"{source}_status"]
    if is_missing(status):
        return ScoreCell(text, "", "plain")
    href = f"{statements}/{row[f'{source}_statement_id']}.html"
    if status == "not_private":
        return ScoreCell(text, "no privacy claimed", "plain", href=href)
    said = tuple(warnings(row, source))
    proved = row[f"{source}_epsilon_proved"]
    if is_missing(proved):
        return ScoreCell(text, "none proved", "none", said, href=href)
    unit = row[f"{source}_unit"].replace("_", " ")
    words = f"proved ε {number(proved, 2)} per {unit}"
    return ScoreCell(text, words, "proved", said, together(row, source), href)


_PRIVATE = ("dp_full", "dp_split")


def glance(
    frame: pd.DataFrame, table: ScoreTable, statistics: Mapping[str, Mapping[str, Any]]
) -> tuple[Glance, ...]:
    """Return the summary of ``table``: published or difference, then each source that was run."""
    groups = [(_group_title(names, table, statistics), rows) for names, rows in table.groups(frame)]
    private = frame[frame["setting"].isin(_PRIVATE)]
    found = []
    if frame[table.lead].notna().any():
        claimed = private.loc[private[table.lead].notna(), "epsilon"]
        words, form = NOTHING, "{:+.1f}"
        if not table.difference:
            words = f"claimed: ε {_range(claimed, '{:g}')}" if len(claimed) else NOTHING
            form = "{:.2f}"
        scores = _ranges(groups, table.lead, form)
        found.append(Glance(lead_title(table), scores, words, "plain"))
    for source in table.sources:
        if frame[f"{source.prefix}_mean"].isna().all():
            continue
        scores = _ranges(groups, f"{source.prefix}_mean", "{:.2f}")
        found.append(Glance(source.heading, scores, *_privacy_summary(private, source.prefix)))
    return tuple(found)


def _ranges(
    groups: Sequence[tuple[str, pd.DataFrame]], column: str, form: str
) -> tuple[tuple[str, str, str], ...]:
    found = []
    for title, rows in groups:
        private = rows["setting"].isin(_PRIVATE)
        free = ~private & ~rows["setting"].isin(BASELINES)
        without, within = (_range(rows.loc[kind, column], form) for kind in (free, private))
        found.append((title, without, within))
    return tuple(found)


def _range(values: pd.Series, form: str) -> str:
    known = values.dropna()
    if known.empty:
        return NOTHING
    low, high = form.format(known.min()), form.format(known.max())
    return low if low == high else f"{low}{' to ' if '+' in form else '–'}{high}"


def _privacy_summary(private: pd.DataFrame, source: str) -> tuple[str, str]:
    ran = private[private[f"{source}_mean"].notna()]
    proved = ran[ran[f"{source}_epsilon_proved"].notna()]
    if ran.empty:
        return "no DP row was run", "plain"
    if proved.empty:
        words = f"none proved, for any of {len(ran)} DP settings"
        return words + _refuted_words(ran, source), "none"
    units = " or ".join(sorted(proved[f"{source}_unit"].unique())).replace("_", " ")
    words = f"proved: ε {_range(proved[f'{source}_epsilon_proved'], '{:.2f}')} per {units}"
    words += " and run"
    if len(proved) < len(ran):
        words += f", for {len(proved)} of {len(ran)} DP settings"
    together = proved[f"{source}_epsilon_all_runs"].max()
    if not is_missing(together):
        words += f"; all runs of a row together: up to {together:.2f}"
    found = {each for row in proved.to_dict("records") for each in limits(row, source)}
    return "; ".join([words + _refuted_words(ran, source), *sorted(found)]), "proved"


def _refuted_words(ran: pd.DataFrame, source: str) -> str:
    """Say for how many of the settings that ran an attack has refuted the claim."""
    count = int((ran[f"{source}_status"] == "refuted").sum())
    return f"; the claim refuted by an attack for {count} of {len(ran)}" if count else ""


NOISE_SOURCES = {
    "seeded": "from seeds, so that a run can be repeated; every proved ε supposes that the seeds "
    "were secret",
    "os_entropy": "from the operating system",
}
"""Words for where the noise comes from."""


def notes(
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
    statistics: Mapping[str, Mapping[str, Any]] | None = None,
) -> Notes:
    """Return how the numbers of ``runs`` were made, on datasets with these ``statistics``."""
    if runs.empty:
        return ()
    finite = runs["epsilon"].map(math.isfinite)
    private = runs[finite]
    rates = (_per_optimizer(runs[~finite], "lr"), _per_optimizer(private, "lr"))
    kinds = [NOISE_SOURCES.get(each, each) for each in sorted(runs["noise_source"].unique())]
    machines = runs[["dtype", "device"]].drop_duplicates().itertuples()
    found = [
        *_data(runs, statements, statistics or {}),
        ("Seeds", _seeds(runs)),
        ("Epochs", f"{_per_optimizer(runs, 'max_epochs')} at most; ε is charged for all of them."),
        ("Learning rate", f"without DP: {rates[0] or NOTHING}. With DP: {rates[1] or NOTHING}."),
        *(("Selection", line) for line in _selections(private, statements)),
        ("δ", _joined(number(each) for each in sorted(private["delta"].unique()))),
        ("Noise", f"{'; '.join(kinds)}."),
        ("Arithmetic", _joined(f"{each.dtype} on {each.device}" for each in machines)),
        ("Code fingerprint", _joined(sorted(runs["code_fingerprint"].unique()))),
    ]
    return tuple((name, text) for name, text in found if text)


def _data(
    runs: pd.DataFrame,
    statements: Mapping[str, Mapping[str, Any]],
    statistics: Mapping[str, Mapping[str, Any]],
) -> Iterable[tuple[str, str]]:
    """Say how nodes and features were made of raw files that leave a choice."""
    viewed = runs[runs["view"].notna()]
    texts: list[str] = []
    for kind, members in sorted(
        viewed.groupby("features"), key=lambda each: rank(FEATURES, each[0])
    ):
        readers: dict[str, list[str]] = {}
        cells = sorted(
            members.groupby(["protocol", "view"]), key=lambda each: rank([*PROTOCOLS], each[0][0])
        )
        for (protocol, view), group in cells:
            name = protocol if protocol == view else f"{protocol} on {view}"
            said = {statements[each]["preprocessing"] for each in group["statement_id"]}
            for text in sorted(said):
                readers.setdefault(text, []).append(name)
        texts += readers
        words = (f"{_joined(names)}: {text}" for text, names in readers.items())
        yield f"Data, {feature_title(kind)}", "; ".join(words)
    for name, each in statistics.items():
        sentences = each.get("preprocessing") or []
        if sentences and not any(all(part in text for part in sentences) for text in texts):
            yield f"Data, {name}", " ".join(sentences)


def _seeds(runs: pd.DataFrame) -> str:
    seeds = sorted(map(int, runs["seed"].unique()))
    listed = f"{seeds[0]} to {seeds[-1]}" if seeds == list(range(len(seeds))) else _joined(seeds)
    per_cell = runs.groupby("cell")["seed"].nunique()
    uneven = "" if per_cell.nunique() == 1 else f"; a cell has {per_cell.min()} to {per_cell.max()}"
    spread = "means and standard deviations (n - 1) are over the seeds"
    return f"{len(seeds)} ({listed}){uneven}; {spread}."


def _per_optimizer(runs: pd.DataFrame, column: str) -> str:
    values = runs.groupby("optimizer")[column].unique()
    order = [each for each in OPTIMIZER_TITLES if each in values.index]
    return _joined(
        f"{OPTIMIZER_TITLES[each]} {' or '.join(number(value) for value in sorted(values[each]))}"
        for each in order
    )


def _selections(
    private: pd.DataFrame, statements: Mapping[str, Mapping[str, Any]]
) -> Iterable[str]:
    chosen = private[private["selected"].astype(bool)]
    protocols: dict[str, list[str]] = {}
    for protocol in PROTOCOLS:
        identifiers = chosen.loc[chosen["protocol"] == protocol, "statement_id"]
        for text in sorted({_selection(statements[each]["selection"]) for each in identifiers}):
            protocols.setdefault(text, []).append(protocol)
    return (f"{_joined(names)}: {text}" for text, names in protocols.items())


def _selection(selection: Mapping[str, Any]) -> str:
    count = selection["n_configs"]
    if count == 1:
        return "one configuration, fixed in advance"
    return f"{count} configurations by {selection['data']}. Cost: {selection['cost']}."


def record_text(value: Any) -> str:
    """Return a small record as text: ``n configs: 6; data: …``; other values as they are."""
    if isinstance(value, Mapping):
        return "; ".join(
            f"{name.replace('_', ' ')}: {record_text(each)}" for name, each in value.items()
        )
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    return NOTHING if is_missing(value) else str(value)


def _joined(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in values)


def downloads(
    results_root: Path, scale: str, study: str, names: Sequence[str]
) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return (what, ((format, address), …)) for every table, or points of a figure, that exists."""
    forms = {"csv": "CSV", "md": "Markdown", "tex": "LaTeX"}
    found = []
    for name in names:
        base = f"{scale}/tables/{study}_{name}"
        files = {form: f"{base}.{suffix}" for suffix, form in forms.items()}
        if (study, name) in SCORE_TABLES:
            pictures = f"{scale}/figures/{study}_{name}"
            files |= {"figure, PNG": f"{pictures}.png", "figure, PDF": f"{pictures}.pdf"}
        there = tuple(each for each in files.items() if (results_root / each[1]).exists())
        if there:
            found.append((exhibit_title(study, name), there))
    return tuple(found)


_TITLES = {
    "audit": "Audits",
    "frontier": "Private and useful: frontier",
    "labels": "Private and useful: fewer public labels",
    "useful": "Private and useful: beside Table 1",
}


def exhibit_title(study: str, name: str) -> str:
    """Return the words for a table or figure: ``Table 1``."""
    if (study, name) in SCORE_TABLES:
        return SCORE_TABLES[study, name].label
    if name in _TITLES:
        return _TITLES[name]
    return name.replace("table", "Table ").replace("figure", "Figure ")
