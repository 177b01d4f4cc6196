"""The generated parts of docs/ and workflow/schemas: every table there is printed by this script,
which also writes ``recorded/<study>/claims.csv``, the verdicts on the claims of recorded papers.

    python docs/tables.py [--mirror DIR]

writes them anew between their markers; the counts of datasets need their raw files, hence a mirror.
A test keeps pages and code in step.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import typer
from scipy.optimize import brentq
from scipy.special import log_ndtr
from typer.testing import CliRunner

from private_graphs.attacks.replay_cover import REPLAYS
from private_graphs.cli import COMMANDS, application
from private_graphs.core.errors import UserError
from private_graphs.core.files import write_text
from private_graphs.datasets import registry
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.datasets.sources import DatasetSources, load_models, load_sources, supply
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.calibration import gdp_noise, pld_noise
from private_graphs.privacy.fourier import fourier_epsilon
from private_graphs.privacy.gradient_prices import pld_epsilon
from private_graphs.privacy.moments import (
    moments_noise,
)
from private_graphs.privacy.rounding import at_most
from private_graphs.report.claims import (
    VERDICTS,
    claims_of,
    write_claims,
)
from private_graphs.running.catalog import exhibits_by_name
from private_graphs.running.plan import Plan
from private_graphs.running.study import Run, load_study, study_ids, write_schemas
from private_graphs.site.record import CLAIMS
from private_graphs.site.site import StudyEntry
from private_graphs.studies.dpdgc.tables import WORDS as DPDGC_DEGREES
from private_graphs.studies.dpdgc.tables import counts as dpdgc_counts
from private_graphs.workflow.cost import Costs, duration_on, recorded_times

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import bars  # noqa: E402
import lines  # noqa: E402  # beside this script, which tests load by its path
import newer_papers  # noqa: E402
import prose  # noqa: E402
import screenshot  # noqa: E402

DELTA = 1e-5
EPOCHS = 500


def _markdown(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [list(map(str, header))]
    lines.append(["---"] * len(lines[0]))
    lines += [[str(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def odds_table() -> str:
    """How sure of the true one of two equally likely datasets an attacker can become."""
    budgets = (0.1, 0.5, 1, 2, 4, 8, 20)
    sure = (at_most(100 / (1 + math.exp(-epsilon))) for epsilon in budgets)
    return _markdown(("ε", *budgets), [("at most, %", *sure)])


def several_table() -> str:
    """ε of somebody with several units, of which each is promised ε: k μ, exact (§16)."""
    counts = (2, 5, 10, 20)
    rows = [
        (
            epsilon,
            *(at_most(gdp_epsilon(count * gdp_mu(epsilon, DELTA), DELTA)) for count in counts),
        )
        for epsilon in (1, 2)
    ]
    return _markdown(("documents", *counts), [(f"ε = {row[0]} each", *row[1:]) for row in rows])


def routes_table() -> str:
    """§0.3: Poisson-sampled Gaussians by two routes that share no code."""
    rows = []
    for rate, noise, steps in ((0.1, 4, 5000), (0.25, 20, 8000)):
        for relation in ("add_remove", "replace"):
            pessimistic = pld_epsilon(noise, steps, rate, DELTA, relation)
            estimate = fourier_epsilon(noise, steps, rate, DELTA, relation)
            rows.append((rate, noise, steps, relation, f"{pessimistic:.4f}", f"{estimate:.4f}"))
    return _markdown(("q", "σ", "T", "relation", "ε, PLD", "ε, Fourier inversion"), rows)


def splits_table() -> str:
    """§3: noise for 500 epochs by schedule and unit, rounded up to three decimals."""
    rows = []
    for epsilon in (1, 2, 5, 10):
        for splits in (2, 10):
            steps, rate = splits * EPOCHS, 1 / splits
            rows.append(
                (
                    epsilon,
                    splits,
                    f"{moments_noise(epsilon, steps, rate, DELTA):.3f}",
                    f"{gdp_noise(epsilon, EPOCHS, DELTA, 'replace'):.3f}",
                    f"{gdp_noise(epsilon, EPOCHS, DELTA, 'zero_out'):.3f}",
                    f"{pld_noise(epsilon, steps, rate, DELTA, 'replace'):.3f}",
                    f"{pld_noise(epsilon, steps, rate, DELTA, 'zero_out'):.3f}",
                )
            )
    header = ("ε", "s", "paper's formula", "A, node", "A, subgraph", "B, node", "B, subgraph")
    return _markdown(header, rows)


def published_table() -> str:
    """LREC 2022, §4: what the paper's shuffled splits prove, s = 10, 500 epochs."""
    rows = []
    for epsilon in (1, 2):
        noise = moments_noise(epsilon, 10 * EPOCHS, 0.1, DELTA)
        mu = 2 * math.sqrt(EPOCHS) / noise
        rows.append(
            (
                epsilon,
                f"{noise:.3f}",
                f"{gdp_epsilon(mu, DELTA):.3f}",
                f"{gdp_epsilon(mu / 2, DELTA):.3f}",
            )
        )
    return _markdown(("ε published", "σ", "ε proved, node", "ε proved, subgraph"), rows)


def edge_table() -> str:
    """§3: edge-level ε of schedule A at σ = 89.166, 500 epochs."""
    mu = 2 * math.sqrt(EPOCHS) / 89.166
    parts = (1, 2, 4, 6, 8, 10, 100)
    return _markdown(
        ("s", *parts),
        [("ε, edge", *(f"{gdp_epsilon(mu, part * DELTA):.4f}" for part in parts))],
    )


def selected_delta(mu: float, epsilon: float, n_runs: int) -> float:
    """Return δ(ε), the worse direction, of the largest of ``n_runs`` μ-GDP outputs.

    One-dimensional: every run releases N(0, 1) on one dataset and N(μ, 1) on its neighbour, and
    the largest value is selected. Its likelihood ratio increases, so half-lines are optimal.
    """

    def log_ratio(x: float) -> float:
        others = (n_runs - 1) * float(log_ndtr(x - mu) - log_ndtr(x))
        return mu * x - mu * mu / 2 + others

    def tail(x: float, shift: float) -> float:
        return float(-np.expm1(n_runs * log_ndtr(x - shift)))

    reach = 40 + epsilon / mu + mu
    upper = brentq(lambda x: log_ratio(x) - epsilon, -reach, reach)
    lower = brentq(lambda x: log_ratio(x) + epsilon, -reach, reach)
    above = tail(upper, mu) - math.exp(epsilon) * tail(upper, 0.0)
    below = math.exp(n_runs * log_ndtr(lower)) - math.exp(epsilon + n_runs * log_ndtr(lower - mu))
    return max(above, below)


def selection_table() -> str:
    """docs/epsilon.md: the largest of k runs against the budget of one and of all."""
    rows = []
    for epsilon in (1, 2):
        mu = gdp_mu(epsilon, DELTA)
        for n_runs in (1, 6, 30):
            together = gdp_epsilon(math.sqrt(n_runs) * mu, DELTA)
            selected = brentq(
                lambda e, mu=mu, k=n_runs: math.log(selected_delta(mu, e, k) / DELTA),
                epsilon / 2,
                1.01 * together,
            )
            rows.append(
                (
                    epsilon,
                    n_runs,
                    f"{selected_delta(mu, epsilon, n_runs):.2e}",
                    f"{selected:.4f}",
                    f"{together:.4f}",
                )
            )
    header = (
        "ε of one run",
        "k",
        "δ of the selected run at that ε",
        "ε of the selected run at δ = 1e-5",
        "ε of all k runs at δ = 1e-5",
    )
    return _markdown(header, rows)


def replay_text() -> str:
    """docs/audits.md: what `audit --replay --json` wrote, in a paragraph."""
    rows = pd.DataFrame(json.loads(REPLAYS.read_text(encoding="utf-8")))
    proved, rest = rows[rows["proves"]], rows[~rows["rest_equal"]]
    differs = dict.fromkeys(
        f"`{method}` ({scenario}, {protocol})"
        for method, scenario, protocol in rest[["method", "scenario", "protocol"]].values
    )
    return (
        f"{len(rows)} settings of {rows['method'].nunique()} methods were replayed on at least "
        f"{rows['neighbours'].min()} neighbours each, with {rows['calls'].sum():,} values at the "
        f"door. In the {len(proved)} settings that claim an ε an exact value moved by at most "
        f"{proved['largest_ratio'].max():.6g} times its sensitivity. Something else differs in "
        f"{len(rest)} settings, for which nothing is claimed: {', '.join(differs)}. "
        f"[The file](../{REPLAYS.relative_to(ROOT).as_posix()}) has every setting."
    )


def rerun_table() -> str:
    """docs/expected.md: what `rerun --json` wrote to docs/rerun.json, by method."""
    told = json.loads((ROOT / "docs" / "rerun.json").read_text(encoding="utf-8"))
    jobs = pd.DataFrame(told["jobs"])
    sums = {"jobs": ("job", "size"), "rows": ("rows", "sum"), "equal": ("equal", "sum"),
            "largest": ("test_difference", "max"), "others": ("predictions", "max"),
            "devices": ("recorded_on", lambda values: ", ".join(sorted(set(values))))}  # fmt: skip
    header = (
        "method", "recorded on", "jobs", "rows", "equal to the bit",
        "largest difference of a test micro-F1", "most predictions that differ in a row",
    )  # fmt: skip
    rows = [
        (f"`{each.Index}`", each.devices, each.jobs, each.rows, each.equal,
         f"{each.largest:.4f}".rstrip("0").rstrip("."), each.others)
        for each in jobs.groupby("method").agg(**sums).itertuples()
    ]  # fmt: skip
    machines = f"Computed again on: {told['machine']}. Recorded on: "
    return f"{machines}{'; '.join(told['recorded_machines'])}.\n\n{_markdown(header, rows)}"


JUDGED = ("citeseer", "cora-ml", "ms-academic", "facebook-harvard1", "facebook-berkeley13",
          "facebook-wisconsin87", "facebook-rutgers89")  # fmt: skip
"""Graphs on which no constant of a method was set."""
READ_LISTS = {
    "facebook-cornell5": 0.828, "facebook-harvard1": 0.868, "facebook-berkeley13": 0.707,
    "facebook-wisconsin87": 0.679, "facebook-rutgers89": 0.661,
}  # fmt: skip
"""Scores of ``list_means`` at ε = 1 in the trial that fixed its constants."""
COUNTED = {"citeseer": 0.803, "cora-ml": 0.851, "cora": 0.813}
"""The same of ``label_counts``."""


class Rows:
    """Recorded runs of the proved methods on the graphs' own masks."""

    def __init__(self) -> None:
        found = [prose.shelf(study).results.runs for study in ("lrec2022", "progap")]
        runs = pd.concat([each[each["selected"].fillna(True).astype(bool)] for each in found])
        self.runs = runs[runs["mask_seed"].isna()]  # on the graphs' own masks

    def score(self, **where: Any) -> tuple[float, float] | None:
        """Return mean and standard error over the draws of the best job; None: no run."""
        scores = self.at(**where).groupby("job")["test_micro_f1"].agg(["mean", "std", "size"])
        if scores.empty:
            return None
        best = scores.loc[scores["mean"].idxmax()]
        return best["mean"], 0.0 if best["size"] < 2 else best["std"] / math.sqrt(best["size"])

    def at(self, **where: Any) -> pd.DataFrame:
        """Return the runs with these values in their columns."""
        found = self.runs
        for column, value in where.items():
            found = found[found[column] == value]
        return found

    def gains(self, scenario: str, labels: int, graphs: Iterable[str]) -> dict[str, tuple]:
        """Return graph → gain of class sums at ε = 1 over public data alone, and its error."""
        found = {}
        for graph in graphs:
            place = {"dataset": graph, "scenario": scenario, "validation_labels": labels}
            ours = self.score(method="class_sums", epsilon=1, **place)
            alone = self.score(method="public_only", epsilon=0, **place)
            if ours and alone:
                found[graph] = ours[0] - alone[0], math.hypot(ours[1], alone[1])
        return found


def bars_text() -> str:
    """docs/methods.md: bars that a trial set for the methods, and what the rows say."""
    rows, lines = Rows(), []

    def line(bar: str, found: str, holds: bool) -> None:
        lines.append((bar, found, "yes" if holds else "no"))

    for scenario, labels, graphs, least, errors in (
        ("graph", 0, JUDGED, 0.15, 8), ("graph", 20, JUDGED, 0.15, 8),
        ("graph", 100, JUDGED, 0.02, 4), ("text", 20, JUDGED[:3], 0.2, 0),
    ):  # fmt: skip
        gains = rows.gains(scenario, labels, graphs)
        gain, where = min((gain, graph) for graph, (gain, _) in gains.items())
        sure, there = min((gain / error, graph) for graph, (gain, error) in gains.items())
        absent = [graph for graph in graphs if graph not in gains]
        line(
            f"`{scenario}`, {labels} public labels: above public data alone by {least:g}"
            + (f" and {errors} standard errors" if errors else "")
            + (" on every judged graph" if graphs == JUDGED else f" on {', '.join(graphs)}"),
            f"at least {gain:.3f} ({where}), {sure:.1f} standard errors ({there})"
            + (f"; not recorded: {', '.join(absent)}" if absent else ""),
            gain >= least and sure >= errors and not absent,
        )  # fmt: skip
    lists, counts = (
        {graph: rows.score(dataset=graph, method=method, scenario=scenario, epsilon=1)
         for graph in trial}
        for method, scenario, trial in (
            ("list_means", "lists", READ_LISTS), ("label_counts", "edges", COUNTED),
        )
    )  # fmt: skip
    for scenario, found, trial in (("lists", lists, READ_LISTS), ("edges", counts, COUNTED)):
        lacking = {graph: (trial[graph] - each[0]) / each[1] for graph, each in found.items()}
        most = max(lacking, key=lambda graph: lacking[graph])
        line(f"`{scenario}`: not below the trial that fixed the constants by more than two "
             "standard errors", f"{lacking[most]:.1f} standard errors below on {most} "
             f"({found[most][0]:.3f}, trial {trial[most]:.3f})", lacking[most] <= 2)  # fmt: skip
    below = {}
    for (graph, epsilon), runs in rows.at(method="label_counts", scenario="edges").groupby(
        ["dataset", "epsilon"]
    ):
        alone = rows.score(dataset=graph, method="text_only", scenario="edges", epsilon=0)
        if epsilon >= 0.5 and alone:
            below[graph, epsilon] = round(alone[0] - runs["test_micro_f1"].mean(), 4)
    graph, epsilon = max(below, key=lambda key: below[key])
    line("`edges`, ε ≥ 0.5: label counts below texts alone by 0.001 at most",
         f"{below[graph, epsilon]:+.4f} at most ({graph}, ε = {epsilon:g})",
         below[graph, epsilon] <= 0.001)  # fmt: skip
    for method, protocol in (("label_sums", "sound"), ("progap", "released")):
        theirs = {"method": method, "protocol": protocol, "scenario": "lists", "epsilon": 8}
        others = {graph: rows.score(dataset=graph, **theirs) for graph in READ_LISTS}
        over = {graph: lists[graph][0] - other[0] for graph, other in others.items() if other}
        least = min(over, key=lambda graph: over[graph])
        line(f"`lists` at ε = 1 above {method}, {protocol}, at 8 on {', '.join(over)}",
             f"{over[least]:+.3f} at least ({least})", over[least] > 0)  # fmt: skip
    replays = json.loads(REPLAYS.read_text(encoding="utf-8"))
    ratios = {
        method: max(each["largest_ratio"] for each in replays if each["method"] == method)
        for method in ("class_sums", "list_means", "label_counts")
    }
    line("replay attains the proved sensitivity, and never exceeds it",
         ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()),
         all(0.995 <= ratio <= 1 + 1e-9 for ratio in ratios.values()))  # fmt: skip
    for bar, limit, jobs in (
        ("a campus, all draws, budgets and labels of one method", 60,
         rows.runs[rows.runs["dataset"].str.startswith("facebook-")
                   & rows.runs["method"].isin(["class_sums", "public_only", "list_means"])]),
        ("PubMed, class sums under `graph`", 30,
         rows.at(dataset="pubmed", method="class_sums", scenario="graph")),
    ):  # fmt: skip
        seconds = jobs.groupby(["dataset", "method"])["seconds"].sum()
        graph, method = seconds.idxmax()
        line(f"{bar}: {limit} seconds", f"{seconds.max():.0f} ({method}, {graph})",
             seconds.max() <= limit)  # fmt: skip
    missed = [f"- {bar}: {found}" for bar, found, holds in lines if holds != "yes"]
    held = len(lines) - len(missed)
    return f"{held} of {len(lines)} bars at ε = 1 hold. These do not:\n\n" + "\n".join(missed)


# --- datasets --------------------------------------------------------------------------------


def sources_text(listed: Mapping[str, DatasetSources]) -> str:
    """Return how many files of the datasets or models ``listed`` are known by their sha256."""
    files = [file for each in listed.values() for file in each.files]
    known = sum(file.sha256 is not None for file in files)
    names = [name for name, each in listed.items() if any(not file.sha256 for file in each.files)]
    return (
        f"It lists {len(files)} files of {len(listed)} datasets and models; {known} have a known "
        f"sha256. The others are trusted on first use: {_names(names)}."
    )


_COLUMNS = {
    "nodes": "nodes",
    "edges": "edges",
    "loops_dropped": "loops dropped",
    "duplicates_dropped": "duplicates dropped",
    "one_way_edges": "one-way edges",
    "isolated_nodes": "isolated nodes",
    "components": "components",
    "largest_component": "largest",
    "nodes_without_features": "without words",
    "features": "words",
    "classes": "classes",
}


def counts_csv(statistics: Iterable[Mapping[str, Any]]) -> str:
    """Return a table with one row per entry of ``GraphDataset.statistics()``.

    ``missing`` is the number of classes without a labelled node in train, validation and test.
    """
    rows = [
        {
            "dataset": each["name"],
            **{title: each[key] for key, title in _COLUMNS.items()},
            "train / validation / test": " / ".join(map(str, each["masks"].values())),
            "missing": " / ".join(str(len(names)) for names in each["classes_missing"].values()),
        }
        for each in statistics
    ]
    return str(pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))


def sources() -> str:
    """docs/data.md: the raw files and their checksums."""
    return sources_text({**load_sources(), **load_models()})


def sizes_text() -> str:
    """README: megabytes of raw files whose sizes are known before they are fetched."""
    sizes = {
        name: sum(file.bytes or 0 for file in each.files) / 1e6
        for name, each in load_sources().items()
        if all(file.bytes for file in each.files)
    }
    citations = sum(sizes[name] for name in ("cora", "citeseer", "pubmed"))
    campuses = sum(size for name, size in sizes.items() if name.startswith("facebook-"))
    return (
        f"Raw files: Cora, CiteSeer and PubMed {citations:.0f} MB, five campuses "
        f"{campuses:.0f} MB, "
        f"Cora-ML and MS Academic {sizes['cora-ml'] + sizes['ms-academic']:.0f} MB, MNIST and "
        f"Fashion-MNIST {sizes['mnist'] + sizes['fashion-mnist']:.0f} MB."
    )


def counts(mirror: str) -> str:
    """docs/datasets.csv: what the readers found in every dataset whose raw files leave no choice,
    and are known by their checksums."""
    listed = load_sources()
    names = [
        name
        for name, spec in registry.DATASETS.items()
        if spec.data == "graph" and not spec.views
        if name not in listed or all(file.sha256 for file in listed[name].files)
    ]
    with TemporaryDirectory() as raw:
        supply(names, raw, mirror)
        return counts_csv(registry.build(name, raw).statistics() for name in names)


def claims_in_text(study: str, page: str) -> str:
    """Verdicts on what a source says in its text: their numbers. The site has all of them.

    ``page`` is where they stand, below docs/.
    """
    frame = prose.shelf(study).claims
    up = "../" * page.count("/")
    said = frame[frame["source"] == "text"]
    protocols = [name for name in (*PROTOCOLS, "") if name in set(said["protocol"])]
    titles = [PROTOCOLS[name].title if name else "by calculation" for name in protocols]
    counts = pd.crosstab(said["verdict"], said["protocol"])
    rows = [(words, *counts.loc[verdict, protocols]) for verdict, words in VERDICTS.items()
            if verdict in counts.index]  # fmt: skip
    return (
        f"{_markdown(('verdict', *titles), rows)}\n\n[Every claim]({up}../results/site/{study}/"
        f"claims.html) with its numbers and reason; [the file]({up}../recorded/{study}/{CLAIMS})."
    )


SHARED_OPTIONS = re.compile(
    r"\n  (?:-h, --help|--json|--data DIR|--threads|--mirror|--recorded) .*(?:\n {5,}\S.*)*"
)
"""Options of several commands, with the lines of their words; the page has them once."""


def commands_text() -> str:
    """What every command of ``private-graphs`` prints with ``--help``, without the options that the
    page names once."""
    application_ = application()
    parts, commands = [], [[name] for name in COMMANDS]
    for words in commands:
        answer = CliRunner().invoke(
            application_, [*words, "--help"], prog_name="private-graphs", terminal_width=76
        )
        text = SHARED_OPTIONS.sub("", answer.stdout.rstrip()).removesuffix("\n\nOptions:")
        text = "\n".join(line.rstrip() for line in text.splitlines())
        parts.append(f"## {' '.join(words)}\n\n```text\n{text}\n```")
        group = getattr(import_module(f"private_graphs.cli.{COMMANDS[words[0]]}"), words[0])
        if len(words) == 1 and isinstance(group, typer.Typer):
            at = commands.index(words) + 1
            commands[at:at] = [[*words, part.callback.__name__] for part in
                               group.registered_commands if part.callback]  # fmt: skip
    return "\n\n".join(parts)


def overview_picture() -> str:
    """The picture of README and of the page of recorded results."""
    return bars.overview(prose.shelf("lrec2022").answer)


def findings_table() -> str:
    """README: the verdict on every recorded study's paper, in the order of the pages."""
    recorded = [path.parent.name for path in (ROOT / "recorded").glob("*/rows.parquet")]
    judged = {name: page for page, tables in claim_pages().items() for name in tables}
    rows = []
    for study in sorted(map(load_study, recorded), key=lambda study: (study.rank, study.id)):
        verdict = StudyEntry([prose.shelf(study.id)]).verdict
        page = judged.get(f"claims {study.id}", "")
        name = f"[{study.name}]({page})" if page else study.name
        rows.append((name, verdict.prints, f"**{verdict.verdict}**", verdict.because))
    answer = prose.shelf("lrec2022").answer
    instead = f"**Use `{answer.method}` instead.** {answer.protects} {answer.worth}"
    return f"{_markdown(('paper', 'it prints', 'true?', 'because'), rows)}\n\n{instead}"


def plan_table() -> str:
    """The whole at full scale: every exhibit of every study, and the hours of its jobs.

    Seconds are those of recorded jobs where a job was recorded; others are estimated from them.
    """
    rows = []
    for name in study_ids():
        made = ",".join(f"{name}.{each}" for each in exhibits_by_name(name))
        jobs = Plan(Run.parse({"scale": "full", "studies": name, "exhibits": made})).jobs
        recorded = list(recorded_times(jobs, ROOT / "recorded", "full"))
        costs = Costs(recorded=recorded)
        audits = [job for job in jobs if job.attack]
        hours = f"{duration_on(map(costs.seconds, jobs), 2) / 3600:.0f}" if recorded else "–"
        runs = sum(job.n_replicas for job in jobs if not job.attack)
        rows.append((name, len(jobs) - len(audits), runs, len(audits), len(recorded), hours))
    heads = ("study", "jobs", "runs", "audits", "jobs that were measured", "hours on 2 cores")
    return _markdown(heads, rows)


def studies_table() -> str:
    """Every study with its datasets and exhibits at full scale: what a run may name."""
    rows = []
    for name in study_ids():
        study, made = load_study(name), exhibits_by_name(name)
        others = [each for each in made if each not in study.exhibits]
        rows.append((f"`{name}`", _names(study.datasets), _names(study.exhibits), _names(others)))
    return _markdown(("study", "datasets", "exhibits", "others, named alone"), rows)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def gpu_text() -> str:
    """What ``benchmarks/gpu.py`` printed on a GPU."""
    rows = json.loads((ROOT / "docs" / "benchmarks" / "gpu.json").read_text(encoding="utf-8"))
    lines = []
    for device in dict.fromkeys(row["device"] for row in rows):
        cases = sorted(
            (row for row in rows if row["device"] == device), key=lambda row: row["plain_ratio"]
        )
        least, most = cases[0], cases[-1]
        lines.append(
            f"On an {device} {len(cases)} [cases](benchmarks/gpu.json) are "
            f"{least['plain_ratio']:.0f} ({least['case']}) to {most['plain_ratio']:.0f} times "
            f"({most['case']}) as fast as the plain loop there."
        )
    return "\n".join(lines)


def certificates_table() -> str:
    """docs/noise.md: lower bounds on ε of noise whose coordinates share a scale."""
    heads = ("M", "claimed ε", "noise s", "ε is at least: as a root alone", "with its stars")
    shown = [row for row in newer_papers.certificates() if row[1] in ("2", "8")]
    return _markdown(heads, shown)


def newer_papers_table(folder: str = "") -> str:
    """§13 of LREC 2022, README: what was read and run of a newer paper, and what follows.

    ``folder`` is that of docs/studies/ seen from the page.
    """
    found = newer_papers.kept()
    [released] = edges_read(["released"])
    shown = newer_papers.certificates()[0][3]
    return _markdown(("paper", "code read", "what was run", "what follows"), [
        ("[DPDGC](https://github.com/thupchnsky/dp-gnn) (NeurIPS 2023)", "yes",
         f"[study dpdgc]({folder}dpdgc.md)",
         f"no ε: one edge moves its embedding by {released['edge_shift']:.0e} standard deviations "
         f"of the noise; {released['edges_read']:,.0f} of Cora's {released['edges']:,.0f} edges "
         "are read back"),
        ("[HeterPoisson](https://github.com/zihangxiang/PNPiGNNs) (S&P 2024)", "yes",
         "a certificate in closed form; no training",
         f"its accountant treats the noise as one-dimensional: on PubMed its ε = 2 is at least "
         f"{shown} for a worst pair"),
        ("[CARIBOU](https://github.com/yuzhengcuhk/caribou-public) (NDSS 2026)",
         "aggregation, methods, logs", "a replica of its aggregation: replay, and a subtraction",
         f"no ε: the last step adds no noise; {found['edges_of_twins']} of Cora's edges follow "
         "from equal rows"),
        ("[LPGNet](https://github.com/aashishkolluri/lpgnet-prototype) (CCS 2022)", "yes",
         "nothing", "no fault was found"),
        ("[DPAR](https://github.com/Emory-AIMS/DPAR) (WWW 2024)", "yes",
         f"[study dpappr]({folder}dpappr.md)",
         "as the thesis's DP-APPR, whose Theorem 8 is false"),
        ("GCON", "no", "nothing", "nothing can be said"),
    ])  # fmt: skip


def twins_table() -> str:
    """§13: rows of CARIBOU's replica on Cora, with an edge and without it."""
    found = newer_papers.kept()
    rows = [(noise, f"{equal:.0e}", f"{differ:.3g}")
            for noise, (equal, differ) in found["twins"].items()]  # fmt: skip
    heads = (
        "noise of each layer",
        "distance of two such rows",
        "distance when one edge is removed",
    )
    return (
        f"On Cora there are {found['hubs']} nodes with several such neighbours, and "
        f"{found['edges_of_twins']} of {found['edges']:,} edges are theirs.\n\n"
        f"{_markdown(heads, rows)}"
    )


def edges_read(protocols: Sequence[str]) -> list[dict[str, Any]]:
    """Return what was read back from DPDGC's recorded embeddings of Cora, by protocol."""
    counts = dpdgc_counts(prose.shelf("dpdgc").results)
    counts = counts[counts["dataset"] == "cora"].set_index("protocol", drop=False)
    return [counts.loc[name].to_dict() for name in protocols if name in counts.index]


def read_back_table() -> str:
    """The study dpdgc: rows of Cora's embedding that are read back, by number of neighbours."""
    found = edges_read(list(PROTOCOLS))
    titles = (PROTOCOLS[each["protocol"]].title for each in found)
    heads = ("neighbours", "nodes of Cora", *titles)
    rows = [
        (words, f"{found[0][f'nodes_{name}']:,.0f}",
         *(f"{each[f'read_{name}']:,.0f}" for each in found))
        for name, words in DPDGC_DEGREES.items()
    ]  # fmt: skip
    rows.append(("edges read back", f"{found[0]['edges']:,.0f}",
                 *(f"{each['edges_read']:,.0f}" for each in found)))  # fmt: skip
    rows.append(("edges claimed wrongly", "", *(f"{each['edges_wrong']:,.0f}" for each in found)))
    rows.append(("one edge, in standard deviations of the noise", "",
                 *(f"{each['edge_shift']:.2g}" for each in found)))  # fmt: skip
    return _markdown(heads, rows)


def neighbours_table() -> str:
    """The guide: what votes of public neighbours add, by the number of public documents."""
    cells = pd.read_csv(ROOT / "docs" / "benchmarks" / "neighbours.csv")
    cells = cells[cells["kind"] == "labelled"]
    sizes = sorted(cells["labelled"].unique())
    rows = []
    for name, own in cells.groupby("data", sort=False):
        by = own.pivot(index="labelled", columns="method", values="score")
        rows.append([name, *(
            "" if size not in by.index else
            f"{by.at[size, 'words']:.3f} → {by.at[size, 'links']:.3f} "
            f"({by.loc[size, ['alone', 'regression']].max():.3f})"
            for size in sizes
        )])  # fmt: skip
    return _markdown(("", *(f"{size:,} public" for size in sizes)), rows)


def claim_pages() -> dict[str, dict[str, Callable[[], str]]]:
    """Return the tables of claims of all recorded studies, by the page that has their markers.

    Raises UserError for a study whose markers stand on no page, or on several.
    """
    pages = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
             for path in sorted((ROOT / "docs").rglob("*.md"))}  # fmt: skip
    tables: dict[str, dict[str, Callable[[], str]]] = {}
    for path in sorted((ROOT / "recorded").glob("*/rows.parquet")):
        name = f"claims {path.parent.name}"
        there = [page for page, text in pages.items() if f"<!-- begin: {name} -->" in text]
        if claims_of(path.parent.name):
            if len(there) != 1:
                raise UserError(
                    f"docs/: '<!-- begin: {name} -->' stands on {len(there)} pages ({there}); "
                    "expected it on one, with its end, as the study is recorded and has claims"
                )
            tables.setdefault(there[0], {})[name] = partial(
                claims_in_text, path.parent.name, there[0].removeprefix("docs/")
            )
    return tables


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"findings": findings_table, "sizes": sizes_text},
    "docs/cluster.md": {"plan": plan_table},
    "docs/epsilon.md": {
        "odds": odds_table,
        "several": several_table,
        "selection": selection_table,
    },
    "docs/privacy.md": {
        "routes": routes_table,
        "splits": splits_table,
        "edges": edge_table,
    },
    "docs/methods.md": {"bars": bars_text},
    "docs/audits.md": {"replay": replay_text},
    "docs/expected.md": {"rerun": rerun_table},
    "docs/noise.md": {"certificates": certificates_table},
    "docs/data.md": {"sources": sources},
    "docs/commands.md": {"commands": commands_text},
    "docs/your-own-graph.md": {"neighbours": neighbours_table},
    "docs/running.md": {"studies": studies_table},
    "docs/benchmarks.md": {"gpu": gpu_text},
    **{prose.page_of(each).relative_to(ROOT).as_posix(): {} for each in prose.templates()},
    **claim_pages(),
}
PAGES["README.md"]["newer papers"] = partial(newer_papers_table, "docs/studies/")
PAGES["docs/studies/lrec2022.md"] |= {
    "published": published_table,
    "newer papers": newer_papers_table,
    "twins": twins_table,
}
PAGES["docs/studies/dpdgc.md"]["read back"] = read_back_table
"""The tables of every page by the names of their markers; those of a template may have none."""


PATH = "docs/path.md"
LINED = (PATH, "docs/privacy.md")
"""Pages that name files with the numbers of their lines."""
COUNTS = "docs/datasets.csv"
"""What the readers count in every dataset."""
PICTURE = "docs/overview.svg"
"""The picture of the finding."""
NOISE = "docs/noise.svg"
"""The picture of noise whose coordinates share a scale."""


def text_of(page: str) -> str:
    """Return what a page is made of: its template with all numbers, else itself."""
    templates = {prose.page_of(template): template for template in prose.templates()}
    if template := templates.get(ROOT / page):
        return prose.made(template)
    return (ROOT / page).read_text(encoding="utf-8")


def refreshed(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return the text of a page with every table between its markers renewed."""
    for name, table in tables.items():
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise UserError(
                f"the page has {text.count(begin)} x '{begin}' and {text.count(end)} x "
                f"'{end}'; expected each exactly once"
            )
        block = f"{begin}\n{table()}\n{end}"
        text = re.sub(f"{begin}.*?{end}", lambda _, block=block: block, text, flags=re.DOTALL)
    return text


def main() -> None:
    """Renew the recorded verdicts, the tables of every page, and the schemas."""
    parser = argparse.ArgumentParser(description="Write the generated parts of docs/ anew.")
    parser.add_argument("--mirror", help="folder or URL with raw files; without it: no counts")
    mirror = parser.parse_args().mirror
    for path in (ROOT / "recorded").glob("*/rows.parquet"):
        if claims := claims_of(path.parent.name):
            write_claims(claims, prose.shelf(path.parent.name).results, path.with_name(CLAIMS))
    if mirror:
        newer_papers.write(mirror)
    for page, tables in PAGES.items():
        write_text(ROOT / page, refreshed(text_of(page), tables))
    if mirror:
        write_text(ROOT / COUNTS, counts(mirror))
    write_text(ROOT / PICTURE, overview_picture())
    write_text(ROOT / NOISE, newer_papers.profiles())
    for page in LINED:
        write_text(ROOT / page, lines.with_lines(text_of(page)))
    write_schemas(ROOT / "workflow" / "schemas")
    print(screenshot.renew())


if __name__ == "__main__":
    main()
