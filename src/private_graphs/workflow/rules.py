"""What the Snakemake workflow asks of Python: which jobs, made of which files.

``Snakefile`` and ``workflow/rules`` hold the rules; everything that they compute is here, as
functions of the configuration and of the files that earlier runs have left.
"""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from private_graphs.core.errors import UsageError, UserError, counted
from private_graphs.core.files import resource
from private_graphs.core.imports import PACKAGE, STUDIES
from private_graphs.core.manifest import MANIFEST
from private_graphs.datasets import registry
from private_graphs.datasets.declared import declare_graphs
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.datasets.readers import DATASETS
from private_graphs.datasets.views import VIEWS
from private_graphs.features.models import own_model, own_model_files
from private_graphs.methods import module_of
from private_graphs.running.catalog import claims_module, exhibit_module, exhibits_by_name
from private_graphs.running.jobs import Job
from private_graphs.running.memory import COMPILES, megabytes
from private_graphs.running.plan import Plan
from private_graphs.running.study import Run, load_study, shown_datasets, study_ids
from private_graphs.running.views import data_view, has_splits
from private_graphs.workflow.cost import Costs, duration_on, recorded_times
from private_graphs.workflow.kept import finished_jobs, followers, linked, widened

RESULTS = Path("results")
RAW = Path("data/raw")
RECEIPTS = RAW / "receipts"
PROCESSED = Path("data/processed")
RECORDED = Path("recorded")
# --- the plan --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Jobs of one run group and dataset that one process computes, one after the other.

    None of them needs another one of them.
    """

    name: str
    """``<study>/<group>/<dataset>/<features>/<number>``."""
    jobs: tuple[Job, ...]


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

    @cached_property
    def batches(self) -> dict[str, Batch]:
        """The jobs in batches, by name: cut where a job needs another one of the same run group
        and dataset, and after so many minutes as the run says.
        """
        stages: dict[str, int] = {}

        def stage(job: Job) -> int:
            if job.id not in stages:
                needed = map(self.jobs.__getitem__, needed_by(job))
                stages[job.id] = 1 + max(map(stage, needed), default=-1)
            return stages[job.id]

        groups: dict[str, dict[int, list[Job]]] = defaultdict(lambda: defaultdict(list))
        for job in self.jobs.values():
            key = f"{job.study}/{job.group}/{job.dataset}/{job.features}"
            groups[key][stage(job)].append(job)
        batches = {}
        for key, at_stage in groups.items():
            parts = [part for _, jobs in sorted(at_stage.items()) for part in self._cut(jobs)]
            for number, part in enumerate(parts, 1):
                batches[f"{key}/{number}"] = Batch(f"{key}/{number}", tuple(part))
        return batches

    def _cut(self, jobs: Iterable[Job]) -> list[list[Job]]:
        """Cut a list of jobs before it is longer than a batch may take."""
        parts: list[list[Job]] = []
        most, spent = 60 * self.run.batch_minutes, math.inf
        for job in jobs:
            seconds = self.costs.seconds(job)
            if spent + seconds > most:
                parts, spent = [*parts, []], 0.0
            parts[-1].append(job)
            spent += seconds
        return parts

    @cached_property
    def _batch_of(self) -> dict[str, str]:
        return {job.id: name for name, batch in self.batches.items() for job in batch.jobs}

    def batch(self, name: str) -> Batch:
        """Return a batch of the plan; UserError for another."""
        if name not in self.batches:
            raise UserError(
                f"no batch {name} in this configuration; snakemake --dry-run --quiet none lists "
                "those there are"
            )
        return self.batches[name]

    def names_of(self, kind: str) -> str:
        """Return a regular expression of the names of batches of one kind of job."""
        jobs = (job for job in self.jobs.values() if job.kind == kind)
        return f"(?:{either(sorted({f'{job.study}/{job.group}' for job in jobs}))})/.+"

    @property
    def given_partition(self) -> str:
        """The file of a partition that the run gives in place of drawn ones, if any."""
        return self.run.splits if isinstance(self.run.splits, str) else ""

    def marker(self, name: str) -> str:
        """Return the file that says that all jobs of a batch have finished."""
        return (self.results / "batches" / f"{name}.json").as_posix()

    def markers(self) -> list[str]:
        """Return the markers of all batches."""
        return list(map(self.marker, self.batches))

    def reopen(self) -> None:
        """Remove the markers of batches of which a job is gone, so that they run again."""
        for name, batch in self.batches.items():
            marker = Path(self.marker(name))
            jobs = (self.folder / job.id / MANIFEST for job in batch.jobs)
            if marker.is_file() and not all(map(Path.is_file, jobs)):
                marker.unlink()

    def inputs(self, name: str) -> dict[str, list[str]]:
        """Return what a batch is made of: its datasets, and the batches of jobs that it needs."""
        jobs = self.batch(name).jobs
        needed = dict.fromkeys(self._batch_of[job_id] for job in jobs for job_id in needed_by(job))
        datasets = dict.fromkeys(map(dataset_manifest, (job for job in jobs if not job.attack)))
        return {"datasets": list(datasets), "needs": list(map(self.marker, needed))}

    def split_jobs(self, name: str) -> list[Job]:
        """Return the jobs of a batch whose training graphs are cut into parts."""
        return [job for job in self.batch(name).jobs if has_splits(job)]

    def splits(self, name: str) -> list[str]:
        """Return the file that says that the parts of a batch are drawn, if any are."""
        drawn = (self.results / "splits" / f"{name}.json").as_posix()
        return [drawn] if self.split_jobs(name) else []

    def built(self, name: str) -> list[str]:
        """Return the identifier of each job of a batch with the folder of its dataset."""
        return [
            f"{job.id} {(PROCESSED / build_of(job)).as_posix()}" for job in self.batch(name).jobs
        ]

    def modules(self, name: str) -> list[str]:
        """Return the modules that a batch reaches by name: those of its methods."""
        return sorted({module_of(job.method) for job in self.batch(name).jobs})

    def title(self, name: str) -> str:
        """Return a batch in words: the first exhibit that reads it, dataset, what is compared."""
        jobs = self.batch(name).jobs
        one = jobs[0]
        by_name = exhibits_by_name(one.study)
        order = dict.fromkeys([*load_study(one.study, self.run.scale).exhibits, *by_name])
        reads = (key for key in order if (one.study, one.group) in by_name[key].reads(one.study))
        label = re.sub(r"(?<=\d)_(?=\d)", ".", next(reads, one.group)).replace("_", " ")
        label = re.sub(r"^(table|figure)(?=\d)", lambda match: f"{match[0].title()} ", label)
        dataset = one.dataset if one.features == "raw" else f"{one.dataset} {one.features}"
        protocols = dict.fromkeys(job.protocol for job in jobs)
        methods = dict.fromkeys(job.method for job in jobs)
        return (
            f"{label}, {one.study}: {dataset}; {', '.join(protocols)}; {', '.join(methods)} "
            f"({counted(len(jobs), 'job')})"
        )

    def expected_seconds(self, cores: int) -> float:
        """Return how long the jobs that have not finished are expected to take."""
        todo = (job for job in self.jobs.values() if self.finished.get(job.id) != job)
        return duration_on(map(self.costs.seconds, todo), cores)

    def noise_source(self, name: str) -> str:
        """Seeds that everybody knows for published data; of a user's graph nobody may know them."""
        users = registry.dataset_spec(self.batch(name).jobs[0].dataset).users
        return "os_entropy" if users else "seeded"

    # exhibits

    def shown_jobs(self) -> list[str]:
        """Return the identifiers of the jobs that exhibits show: planned and finished ones."""
        return sorted({*self.jobs, *self.finished})

    def shown_exhibits(self) -> list[tuple[str, str]]:
        """Return (study, name) of the exhibits to write, those that read jobs where one is shown,
        or where all are made on request alone.

        Beside those asked for these are the ones that earlier runs have made: a run may repeat a
        job that they read, and they may not keep its old scores.
        """
        groups = {tuple(name.split("/", 2)[:2]) for name in self.shown_jobs()}
        pairs = []
        for study_id in study_ids():
            names = {exhibit.name for exhibit in self.plan.exhibits.get(study_id, ())}
            for name, exhibit in exhibits_by_name(study_id).items():
                path = self.results / "exhibits" / study_id / f"{name}.md"
                any_run = groups & set(exhibit.reads(study_id))
                if (name in names or path.is_file()) and (
                    any_run or load_study(study_id).on_request(exhibit.groups)
                ):
                    pairs.append((study_id, name))
        return pairs

    # data

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """Names of the datasets of the run: of its jobs, and of exhibits that show their sizes."""
        names = {job.dataset for job in self.jobs.values() if not job.attack}
        for study_id, exhibits in self.plan.exhibits.items():
            if any(exhibit.statistics for exhibit in exhibits):
                study = self.plan.studies[study_id]
                names |= {*shown_datasets(study, self.run)}
        return tuple(sorted(names))

    @cached_property
    def builds(self) -> dict[str, list[str]]:
        """Builds of each dataset that the run needs, below ``data/processed``."""
        builds: dict[str, dict[str, None]] = defaultdict(dict)
        for job in (job for job in self.jobs.values() if not job.attack):
            builds[job.dataset][build_of(job)] = None
        for name in self.datasets:
            if name not in builds:
                builds[name] = dict.fromkeys(
                    shown_alone(name, self.run.features or (), self.run.protocols or PROTOCOLS)
                )
        return {name: list(folders) for name, folders in builds.items()}

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

    def wanted_receipts(self) -> list[str]:
        """Return the receipts that are absent of raw files that the run needs.

        Others are no output of any rule: a new dataset is no reason to read the raw files of
        another.
        """
        names = {name for name in self.datasets if not registry.dataset_spec(name).users}
        for dataset in self.datasets:
            for build in self.builds[dataset]:
                kind = [*Path(build).parts, ""][1]
                names |= set(registry.dataset_spec(dataset).models_of(kind))
        return [path for path in map(receipt_file, sorted(names)) if not Path(path).is_file()]

    # resources

    @cached_property
    def costs(self) -> Costs:
        """What recorded jobs tell of the seconds of others."""
        return Costs(recorded_times(self.jobs.values(), RECORDED, self.run.scale))

    def megabytes(self, name: str) -> int:
        """Return the memory that a batch asks for: its largest job, and compiled code."""
        return COMPILES + max(map(megabytes, self.batch(name).jobs))

    def minutes(self, name: str) -> int:
        """Return a generous bound on the time of a batch."""
        return 5 + int(sum(map(self.costs.seconds, self.batch(name).jobs)) / 60 * 12)


def needed_by(job: Job) -> list[str]:
    """Return the identifiers of the jobs that another one reads: of its choice, of artifacts."""
    return [*([job.chosen.job.id] if job.chosen else []), *job.needs.values()]


def dataset_manifest(job: Job) -> str:
    """Return the manifest of the built dataset that a job reads."""
    return (PROCESSED / build_of(job) / MANIFEST).as_posix()


def make_workflow(raw: Mapping[str, Any]) -> Workflow:
    """Return the workflow of ``config.yaml`` and ``--config``.

    Raises:
        UserError: what is asked for does not exist, contradicts itself or cannot be done.
    """
    plan = Plan(Run.parse(declare_graphs(raw)))
    finished = finished_jobs(RESULTS / plan.run.scale / "jobs")
    jobs = {
        job.id: widened(job, finished.get(job.id), plan.run.epsilons is not None)
        for job in plan.jobs
    }
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


def exhibit_modules(exhibits: Iterable[tuple[str, str]]) -> list[str]:
    """Return the modules of exhibits, and those of the claims of their studies."""
    exhibits = list(exhibits)
    claims = map(claims_module, dict.fromkeys(study_id for study_id, _ in exhibits))
    modules = dict.fromkeys(exhibit_module(study_id, name) for study_id, name in exhibits)
    return [*modules, *filter(None, claims)]


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


def raw_state(name: str) -> str:
    """Return the file whose hashes tell what a dataset is built of: the receipt of its raw files,
    or the manifest of a graph that a user built."""
    if registry.dataset_spec(name).built is not None:
        return (registry.OWN_FOLDER / name / MANIFEST).as_posix()
    return receipt_file(name)


def shown_alone(name: str, features: Iterable[str], protocols: Iterable[str]) -> list[str]:
    """Return the builds of a dataset that no job trains on: of each protocol that sees its own.

    Graphs with texts are built for the sound protocol alone.
    """
    spec = registry.dataset_spec(name)
    kinds = [kind for kind in features if kind in spec.features]
    views = [view for view in protocols if view in spec.views and not spec.has_texts] or ["sound"]
    kind = (*kinds, spec.features[0])[0]
    return list(dict.fromkeys(registry.build_name(name, kind, VIEWS[view]) for view in views))


def text_sources(dataset: str) -> list[str]:
    """Return what the texts of a dataset are read from: a receipt, or the tables of a user."""
    graph = registry.dataset_spec(dataset).own
    if graph is None:
        return [receipt_file(dataset)]
    return [graph.nodes.as_posix(), graph.edges.as_posix()]


def declaration(dataset: str) -> str | None:
    """Return what a user declared of a graph, none for other datasets."""
    graph = registry.dataset_spec(dataset).own
    return graph.model_dump_json(exclude={"max_edges"}) if graph else None


def model_receipts(dataset: str, kind: str) -> list[str]:
    """Return the receipts of the downloaded models of these features."""
    models = registry.dataset_spec(dataset).models_of(kind)
    return [receipt_file(name) for name in models]


def model_files(dataset: str, kind: str) -> list[str]:
    """Return the files of a user's own model, if there is one."""
    return own_model_files(registry.dataset_spec(dataset), kind)


def embeds(dataset: str, kind: str) -> bool:
    """Whether a real model reads the texts, which takes all cores and much memory."""
    spec = registry.dataset_spec(dataset)
    return bool(spec.models_of(kind) or own_model(spec, kind))


# --- refusals --------------------------------------------------------------------------------


def refuse_other_checkout(folder: str | Path) -> None:
    """Raise UserError where the Snakefile's folder has the package, and another one is imported."""
    here = Path(folder, "src", PACKAGE.name)
    if here.is_dir() and not here.samefile(PACKAGE):
        raise UserError(
            f"the Snakefile is that of {folder}, and the package that is imported {PACKAGE}: their "
            "code may differ; activate the environment of this folder (make install; "
            ". .venv/bin/activate), or run snakemake in the other one"
        )


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
    for key, texts in values.items():
        if len(set(texts)) > 1:
            raise UsageError(
                f"configuration: {key} is given twice ({'; '.join(texts)}), and Snakemake keeps "
                f"the last alone: write {key}={','.join(texts)}"
            )


def refuse_absent_tables(datasets: Iterable[str]) -> None:
    """Raise UserError for a user's graph whose tables are gone, before its size is asked, or one
    that was built before graphs had manifests."""
    for spec in map(registry.dataset_spec, datasets):
        if spec.built is not None and not Path(raw_state(spec.name)).is_file():
            raise UserError(
                f"{raw_state(spec.name)}: no such file; build {spec.name} again with "
                "private-graphs dataset"
            )
        for table in (spec.own.nodes, spec.own.edges) if spec.own else ():
            if not table.is_file():
                raise UserError(
                    f"{table}: no such file; the graph {spec.name} was declared with it: put it "
                    "back, or describe the graph again under datasets of the configuration"
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
