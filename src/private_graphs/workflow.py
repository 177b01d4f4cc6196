"""What the Snakemake workflow asks of Python: which jobs, made of which files.

``Snakefile`` and ``workflow/rules`` hold the rules; everything that they compute is here, as
functions of the configuration and of the files that earlier runs have left. Nothing here writes.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from private_graphs.cost import Costs, finished_times, recorded_times
from private_graphs.datasets import registry
from private_graphs.datasets.declared import declare_graphs
from private_graphs.datasets.readers import DATASETS
from private_graphs.datasets.views import VIEWS
from private_graphs.errors import UsageError, UserError
from private_graphs.features.models import models_of, own_model, own_model_files
from private_graphs.files import MANIFEST, resource
from private_graphs.jobs import Job
from private_graphs.kept import finished_jobs, followers, linked, widened
from private_graphs.methods import data_view, module_of
from private_graphs.plan import Plan
from private_graphs.protocols import PROTOCOLS
from private_graphs.slices import STUDIES
from private_graphs.study import Run, accepted

RESULTS = Path("results")
RAW = Path("data/raw")
RECEIPTS = RAW / "receipts"
PROCESSED = Path("data/processed")
RECORDED = Path("recorded")
RECORDED_CLAIMS = RESULTS / "recorded" / "claims"
"""Verdicts of recorded runs, as ``results/<scale>/claims`` has those of a scale."""
BUNDLES = ("data", "independent", "following", "report")
"""Jobs that a cluster runs as one: see ``Workflow.bundle`` and the rules."""
LIBRARIES = {"bert": "transformers.models.bert.modeling_bert", "sbert": "sentence_transformers"}
"""What takes seconds to import where features of a kind are made."""
SHORT_SECONDS = 120.0
"""Jobs that are expected to take no longer are bundled on a cluster."""

# --- the plan --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workflow:
    """Everything that a run makes, and the files that it is made of."""

    plan: Plan
    jobs: dict[str, Job]
    """By identifier: those of the plan, and earlier ones that follow them."""
    finished: dict[str, Job] = field(default_factory=dict)
    """Jobs of the scale that earlier runs have left, planned or not."""
    following: frozenset[str] = frozenset()

    @property
    def run(self) -> Run:
        """What is asked for."""
        return self.plan.run

    @property
    def results(self) -> Path:
        """Folder of the results of the scale."""
        return RESULTS / self.run.scale

    @property
    def folder(self) -> Path:
        """Folder of the jobs of the scale."""
        return self.results / "jobs"

    def job(self, identifier: str) -> Job:
        """Return a job of the plan; UserError for another."""
        if identifier not in self.jobs:
            raise UserError(
                f"no job {identifier} in this configuration; snakemake --dry-run lists those "
                "there are"
            )
        return self.jobs[identifier]

    def made_by(self, *, audits: bool) -> list[Job]:
        """Return the audits of the plan, or all other jobs."""
        return [job for job in self.jobs.values() if (job.attack is not None) == audits]

    def names_of(self, *, audits: bool) -> str:
        """Return a regular expression of the identifiers of audits, or of all other jobs.

        It names run groups: Snakemake holds every file against it, and thousands of names are slow.
        """
        groups = {f"{job.study}/{job.group}" for job in self.made_by(audits=audits)}
        return f"(?:{either(sorted(groups))})/.+"

    # files of jobs

    def inputs(self, identifier: str) -> dict[str, str | list[str]]:
        """Return what a job is made of: its dataset, the job of its choice, jobs that it needs."""
        return {
            "dataset": self.dataset(identifier),
            "choice": self.choice(identifier),
            "needs": self.needs(identifier),
        }

    def manifests(self, jobs: Iterable[Job] | None = None) -> list[str]:
        """Return the manifests of jobs, by default of all that are planned."""
        jobs = self.jobs.values() if jobs is None else jobs
        return [(self.folder / job.id / MANIFEST).as_posix() for job in jobs]

    def choice(self, identifier: str) -> list[str]:
        """Return the manifest of the job in which settings are chosen for another, if any."""
        chosen = self.job(identifier).chosen
        return [(self.folder / chosen.job.id / MANIFEST).as_posix()] if chosen else []

    def needs(self, identifier: str) -> list[str]:
        """Return the manifests of the jobs whose artifacts a job reads."""
        needed = self.job(identifier).needs.values()
        return [(self.folder / other / MANIFEST).as_posix() for other in needed]

    def dataset(self, identifier: str) -> str:
        """Return the manifest of the built dataset that a job reads."""
        return (PROCESSED / build_of(self.job(identifier)) / MANIFEST).as_posix()

    def modules(self, identifier: str) -> list[str]:
        """Return the modules that a job reaches by name: that of its method."""
        return [module_of(self.job(identifier).method)]

    def noise_source(self, identifier: str) -> str:
        """Seeds that everybody knows for published data; of a user's graph nobody may know them."""
        own = registry.dataset_spec(self.job(identifier).dataset).own
        return "os_entropy" if own else "seeded"

    # data

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """Names of the datasets of the run: of its jobs, and of exhibits that show their sizes."""
        names = {job.dataset for job in self.made_by(audits=False)}
        for study_id, exhibits in self.plan.exhibits.items():
            if any(exhibit.statistics for exhibit in exhibits):
                study = self.plan.studies[study_id]
                names |= {*(accepted(study, self.run) if self.run.datasets else study.datasets)}
        return tuple(sorted(names))

    @cached_property
    def builds(self) -> dict[str, list[str]]:
        """Builds of each dataset that the run needs, below ``data/processed``."""
        builds: dict[str, dict[str, None]] = defaultdict(dict)
        for job in self.made_by(audits=False):
            builds[job.dataset][build_of(job)] = None
        for name in self.datasets:
            if name not in builds:
                builds[name] = dict.fromkeys(
                    shown_alone(name, self.run.features or (), self.run.protocols or PROTOCOLS)
                )
        return {name: list(folders) for name, folders in builds.items()}

    def data_folders(self) -> list[str]:
        """Return the folders of built datasets, and of the texts that they are made of."""
        builds = [build for builds in self.builds.values() for build in builds]
        parts = [Path(build).parts for build in builds]
        texts = {f"{p[0]}/texts/{p[2]}" for p in parts if p[1:2] and p[1] in registry.TEXT_FEATURES}
        return [(PROCESSED / name).as_posix() for name in [*sorted(texts), *builds]]

    def shown_builds(self) -> list[str]:
        """Return the builds whose sizes tables show: one per dataset and sample."""
        folders = []
        for name in self.datasets:
            builds = self.builds[name]
            # Texts: the same people in each build, but for the defects of one.
            if registry.dataset_spec(name).has_texts:
                builds = sorted(builds, key=lambda build: Path(build).name != "sound")[:1]
            folders += builds
        return folders

    def receipted(self) -> list[str]:
        """Return the names of datasets and models whose raw files the run needs."""
        names = {name for name in self.datasets if not registry.dataset_spec(name).own}
        for dataset in self.datasets:
            for build in self.builds[dataset]:
                kind = [*Path(build).parts, ""][1]
                names |= set(models_of(registry.dataset_spec(dataset), kind))
        return sorted(names)

    # resources

    @cached_property
    def costs(self) -> Costs:
        """What finished jobs of any scale, and recorded ones, tell of the seconds of others."""
        recorded = recorded_times(self.jobs.values(), RECORDED, self.run.scale)
        return Costs(finished_times(RESULTS), recorded)

    def megabytes(self, identifier: str) -> int:
        """A generous bound: torch itself, and twenty (records, hidden) float64 arrays per run."""
        job = self.job(identifier)
        if job.attack:
            return 4000
        size = registry.dataset_spec(job.dataset).size_with(job.features)
        hidden = int(job.settings.get("hidden", 32))
        arrays = job.n_replicas * size.nodes * hidden * 8 * 20
        return 4000 + (arrays + size.nonzeros * 24) // 2**20

    def minutes(self, identifier: str) -> int:
        """Return a generous bound on the time of a job."""
        return 5 + int(self.costs.seconds(self.job(identifier)) / 60 * 12)

    def bundle(self, identifier: str) -> str | None:
        """Return the group in which a cluster runs a short job together with others.

        The jobs of a group need none of each other, so that any of them may be put together.
        """
        job = self.job(identifier)
        if self.costs.seconds(job) > SHORT_SECONDS:
            return None
        needed = [*job.needs.values(), *([job.chosen.job.id] if job.chosen else [])]
        further = any(self.jobs[name].needs or self.jobs[name].chosen for name in needed)
        return None if further else "following" if needed else "independent"


def make_workflow(raw: Mapping[str, Any]) -> Workflow:
    """Return the workflow of ``config.yaml`` and ``--config``.

    Raises:
        UserError: what is asked for does not exist, contradicts itself or cannot be done.
    """
    plan = Plan(Run.parse(declare_graphs(raw)))
    finished = finished_jobs(RESULTS / plan.run.scale / "jobs")
    jobs = {job.id: widened(job, finished.get(job.id)) for job in plan.jobs}
    jobs = {name: linked(job, jobs) for name, job in jobs.items()}
    following = followers(jobs, finished, {job.study for job in jobs.values()})
    work = Workflow(plan, jobs | following, finished, frozenset(following))
    refuse_absent_tables(work.datasets)
    refuse_too_many_splits(work.jobs.values())
    return work


# --- names of files --------------------------------------------------------------------------


def study_files(studies: Iterable[str]) -> list[str]:
    """Return the files of studies with their published numbers."""
    files = []
    for name in studies:
        folder = STUDIES / name
        files += [folder / "study.yaml", *sorted((folder / "published").glob("*.csv"))]
    return [_from_here(path) for path in files]


def shipped(relative: str) -> str:
    """Return the path of a file of the project from the working folder."""
    return _from_here(resource(relative))


def _from_here(path: Path) -> str:
    """A path from the working folder, which is another one than the project's where the workflow is
    a module of a second workflow."""
    return Path(os.path.relpath(path)).as_posix()


def recorded_studies() -> list[str]:
    """Return the names of recorded studies."""
    return sorted(path.parent.name for path in RECORDED.glob("*/rows.parquet"))


def recorded_files() -> list[str]:
    """Return the files of recorded results, which pages show beside those of the run."""
    return sorted(path.as_posix() for path in RECORDED.glob("*/*") if path.is_file())


def either(names: Iterable[str]) -> str:
    """Return a regular expression of exactly these names; of none, one that nothing matches."""
    return "|".join(map(re.escape, names)) or "(?!)"


def rejoin(wildcards: dict[str, str]) -> None:
    """Give ``job`` back its name in the wildcards of one job that Snakemake has read from a command
    line: it splits them at every comma. Others are left as they are.
    """
    if "job" in wildcards:
        parts = [f"{name}={value}" for name, value in wildcards.items()]
        wildcards.clear()
        wildcards["job"] = ",".join(parts).removeprefix("job=")


# --- data ------------------------------------------------------------------------------------


def build_of(job: Job) -> str:
    """Return the build of the dataset of a job, such as ``pokec/bow/sound``."""
    return registry.build_name(job.dataset, job.features, data_view(job))


def reader_modules(build: str) -> list[str]:
    """Return the module that a dataset is read by; a user's graph has none of its own."""
    return [DATASETS.module(name) for name in Path(build).parts[:1] if name in DATASETS]


def build_megabytes(build: str) -> int:
    """Return a generous bound on the memory of building a dataset from its raw files."""
    large = "/" in build or registry.dataset_spec(build).size.edges > 10**7
    return 8000 if large else 2000


def receipt_file(name: str) -> str:
    """Return the receipt of the raw files of a dataset or model."""
    return (RECEIPTS / f"{name}.json").as_posix()


def shown_alone(name: str, asked: Iterable[str], protocols: Iterable[str]) -> list[str]:
    """Return the builds of a dataset that no job trains on: of each protocol that sees its own.

    Graphs with texts are built for the sound protocol alone.
    """
    spec = registry.dataset_spec(name)
    kinds = [kind for kind in asked if kind in spec.features]
    views = [each for each in protocols if each in spec.views and not spec.has_texts] or ["sound"]
    kind = (*kinds, spec.features[0])[0]
    return list(dict.fromkeys(registry.build_name(name, kind, VIEWS[each]) for each in views))


def text_sources(dataset: str) -> list[str]:
    """Return what the texts of a dataset are read from: a receipt, or the tables of a user."""
    own = registry.dataset_spec(dataset).own
    if own is None:
        return [receipt_file(dataset)]
    return [own.nodes.as_posix(), own.edges.as_posix()]


def declaration(dataset: str) -> str | None:
    """Return what a user declared of a graph, none for other datasets."""
    own = registry.dataset_spec(dataset).own
    return own.model_dump_json(exclude={"max_edges"}) if own else None


def model_receipts(dataset: str, kind: str) -> list[str]:
    """Return the receipts of the downloaded models of these features."""
    models = models_of(registry.dataset_spec(dataset), kind)
    return [receipt_file(name) for name in models]


def model_files(dataset: str, kind: str) -> list[str]:
    """Return the files of a user's own model, if there is one."""
    return own_model_files(registry.dataset_spec(dataset), kind)


def embeds(dataset: str, kind: str) -> bool:
    """Whether a real model reads the texts, which takes all cores and much memory."""
    spec = registry.dataset_spec(dataset)
    return bool(models_of(spec, kind) or own_model(spec, kind))


# --- refusals --------------------------------------------------------------------------------


def refuse_repeated_keys(arguments: Sequence[str]) -> None:
    """Raise UsageError where a command line gives a key of the configuration two values, of which
    Snakemake keeps the last and says nothing."""
    values: dict[str, list[str]] = defaultdict(list)
    times, inside = 0, False
    for argument in arguments:
        if argument.startswith("-"):
            flag, _, pair = argument.partition("=")
            inside = flag in ("--config", "-C")
            times += inside
        else:
            pair = argument
        key, equals, value = pair.partition("=")
        if inside and equals:
            values[key].append(value)
    if times > 1:
        raise UsageError(
            "--config is given twice, and Snakemake keeps the last one alone: write all keys after "
            "one --config"
        )
    for key, found in values.items():
        if len(set(found)) > 1:
            raise UsageError(
                f"configuration: {key} is given twice ({'; '.join(found)}), and Snakemake keeps "
                f"the last alone: write {key}={','.join(found)}"
            )


def refuse_absent_tables(datasets: Iterable[str]) -> None:
    """Raise UserError for a user's graph whose tables are gone, before its size is asked."""
    for spec in map(registry.dataset_spec, datasets):
        for table in (spec.own.nodes, spec.own.edges) if spec.own else ():
            if not table.is_file():
                raise UserError(
                    f"{table}: no such file; the graph {spec.name} was declared with it: put it "
                    "back, or declare the graph again "
                    f"(private-graphs dataset {spec.name} --nodes ...)"
                )


def refuse_too_many_splits(jobs: Iterable[Job]) -> None:
    """Raise UserError for more splits than a graph has training nodes, as far as tables tell."""
    for job in jobs:
        splits = int(job.settings.get("splits", 1))
        if job.attack or splits == 1:
            continue
        train_nodes = registry.dataset_spec(job.dataset).size_with(job.features).train_nodes
        if splits > train_nodes:
            raise UserError(
                f"splits: {splits} splits asked of the about {train_nodes} training nodes of "
                f"{job.dataset}; name fewer (--config splits=1)"
            )
