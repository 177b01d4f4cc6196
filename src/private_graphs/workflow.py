"""What the Snakemake workflow asks of Python: which jobs, made of which files, and what to say.

``Snakefile`` and ``workflow/rules`` hold the rules; everything that they compute is here, as
functions of the configuration and of the files that earlier runs have left. Nothing here writes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from private_graphs.cost import Costs, counted, duration, duration_on, finished_times
from private_graphs.datasets import registry
from private_graphs.datasets.views import VIEWS
from private_graphs.declarations import declare_graphs
from private_graphs.errors import UserError
from private_graphs.exhibits import exhibits_by_name
from private_graphs.features.models import models_of, own_model, own_model_files
from private_graphs.files import MANIFEST, WITHOUT_DP
from private_graphs.jobs import Job
from private_graphs.kept import finished_jobs, followers, linked, outdated, widened
from private_graphs.methods import module_of
from private_graphs.plan import Plan
from private_graphs.report.exhibit import Exhibit
from private_graphs.study import Run, accepted, data_view
from private_graphs.verify import changed_file, damage

RESULTS = Path("results")
RAW = Path("data/raw")
RECEIPTS = RAW / "receipts"
PROCESSED = Path("data/processed")
PUBLISHED = Path("studies/published")
INTERRUPTED = (
    "\nInterrupted. Finished jobs are kept; the same command continues where this run stopped."
)

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
    damaged: dict[str, str] = field(default_factory=dict)
    """Results of earlier runs (jobs, builds, ``sources``, ``exhibits``) -> what is wrong."""

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

    # files of jobs

    def manifests(self, jobs: Iterable[Job] | None = None) -> list[str]:
        """Return the manifests of jobs, by default of all that are planned."""
        jobs = self.jobs.values() if jobs is None else jobs
        return [(self.folder / job.id / MANIFEST).as_posix() for job in jobs]

    def rows_of_choice(self, identifier: str) -> list[str]:
        """Return the rows in which settings are chosen for a job, if any."""
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
                builds[name][default_build(name, self.run.features or ())] = None
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

    def receipted(self) -> list[str]:
        """Return the names of datasets and models whose raw files the run needs."""
        names = {name for name in self.datasets if not registry.dataset_spec(name).own}
        for dataset in self.datasets:
            for build in self.builds[dataset]:
                kind = [*Path(build).parts, ""][1]
                names |= set(models_of(registry.dataset_spec(dataset), kind))
        return sorted(names)

    # exhibits

    @cached_property
    def exhibits(self) -> dict[tuple[str, str], Exhibit]:
        """Exhibits to write, by study and name: those asked for, and those with rows of earlier
        runs. A run may repeat a job that another exhibit reads, which may not keep old scores.
        """
        left = {(job.study, job.group) for job in self.finished.values()}
        shown = {}
        for study_id in self.plan.studies:
            asked = {exhibit.name for exhibit in self.plan.exhibits[study_id]}
            for name, exhibit in exhibits_by_name(study_id).items():
                if name in asked or left & groups_read(study_id, exhibit):
                    shown[study_id, name] = exhibit
        return shown

    def whole_jobs(self) -> list[str]:
        """Return the identifiers of all jobs that exhibits show: planned ones, and finished ones
        that are not damaged."""
        kept = {name for name in self.finished if name not in self.damaged}
        return sorted(kept | set(self.jobs))

    # resources

    @cached_property
    def costs(self) -> Costs:
        """What finished jobs of any scale tell of the seconds of others."""
        return Costs(finished_times(RESULTS))

    def megabytes(self, identifier: str) -> int:
        """A generous bound: torch itself, and twenty (records, hidden) float64 arrays per replica."""
        job = self.job(identifier)
        if job.attack:
            return 4000
        size = registry.dataset_spec(job.dataset).size_with(job.features)
        hidden = int(job.settings.get("hidden", 32))
        arrays = job.n_replicas * size.nodes * hidden * 8 * 20
        return 4000 + (arrays + size.nonzeros * 24) // 2**20

    def minutes(self, identifier: str) -> int:
        """Return a generous bound on the time of a job."""
        return 30 + int(self.costs.seconds(self.job(identifier)) / 60 * 4)


def make_workflow(raw: Mapping[str, Any], *, verify: bool = True) -> Workflow:
    """Return the workflow of ``config.yaml`` and ``--config``.

    With ``verify`` the files of finished jobs are held against their manifests.

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
    if verify:
        work.damaged.update(damages(work))
    return work


def damages(work: Workflow) -> dict[str, str]:
    """Return what is wrong with files of earlier runs, by job or by folder of a dataset."""
    wrong = {}
    for builds in work.builds.values():
        for build in builds:
            if reason := changed_file(PROCESSED / build):
                wrong[build] = reason
    if changed := changed_sources(work.receipted()):
        wrong["sources"] = f"{RAW}: files of {', '.join(changed)} are not those of their receipts"
    if reason := changed_file(work.results / "exhibits"):
        wrong["exhibits"] = reason
    on_disk = {path.parent for path in work.folder.glob(f"*/*/**/{MANIFEST}")}
    for folder in sorted(path for path in on_disk if path.name != WITHOUT_DP):
        name = folder.relative_to(work.folder).as_posix()
        job = work.jobs.get(name) or work.finished.get(name)
        build = build_of(job) if job and not job.attack else None
        if reason := damage(folder, PROCESSED / build if build and build not in wrong else None):
            wrong[name] = reason
    return wrong


# --- contents --------------------------------------------------------------------------------


def hashes(manifests: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the sha256 of the files of finished jobs: parameters of what is made of them.

    Raises FileNotFoundError before they have finished: Snakemake asks again.
    """
    return {path: dict(json.loads(Path(path).read_bytes())["sha256"]) for path in manifests}


def contents(work: Workflow) -> str:
    """Return one hash of all finished jobs that exhibits show, whatever their dates."""
    digest = hashlib.sha256()
    for name in work.whole_jobs():
        path = work.folder / name / MANIFEST
        if path.is_file():
            told = changed_file(path.parent) or hashes([path.as_posix()])
            digest.update(json.dumps([name, told], sort_keys=True, default=str).encode())
    return digest.hexdigest()


def study_files(work: Workflow) -> list[str]:
    """Return the study files of a run with their published numbers."""
    names = list(work.plan.studies)
    csvs = [path.as_posix() for name in names for path in PUBLISHED.glob(f"{name}_*.csv")]
    return [*(f"studies/{name}.yaml" for name in names), *sorted(csvs)]


def exhibit_modules(work: Workflow) -> list[str]:
    """Return the modules of the exhibits of a run."""
    return [f"private_graphs.exhibits.{study_id}.{name}" for study_id, name in work.exhibits]


def either(names: Iterable[str]) -> str:
    """Return a regular expression of exactly these names; of none, one that nothing matches."""
    return "|".join(map(re.escape, names)) or "(?!)"


# --- data ------------------------------------------------------------------------------------


def build_of(job: Job) -> str:
    """Return the build of the dataset of a job, such as ``pokec/bow/sound``."""
    return registry.build_name(job.dataset, job.features, data_view(job))


def receipt_of(build: str) -> str:
    """Return the receipt of the raw files of a build."""
    return (RECEIPTS / f"{Path(build).parts[0]}.json").as_posix()


def default_build(name: str, asked: Iterable[str]) -> str:
    """Return the build of a dataset that no job trains on: for the sound protocol."""
    spec = registry.dataset_spec(name)
    kinds = [kind for kind in asked if kind in spec.features]
    return registry.build_name(name, (*kinds, spec.features[0])[0], VIEWS["sound"])


def text_sources(dataset: str) -> list[str]:
    """Return what the texts of a dataset are read from: a receipt, or the tables of a user."""
    own = registry.dataset_spec(dataset).own
    if own is None:
        return [(RECEIPTS / f"{dataset}.json").as_posix()]
    return [own.nodes.as_posix(), own.edges.as_posix()]


def declaration(dataset: str) -> str | None:
    """Return what a user declared of a graph, none for other datasets."""
    own = registry.dataset_spec(dataset).own
    return own.model_dump_json(exclude={"max_edges"}) if own else None


def model_receipts(dataset: str, kind: str) -> list[str]:
    """Return the receipts of the downloaded models of these features."""
    models = models_of(registry.dataset_spec(dataset), kind)
    return [(RECEIPTS / f"{name}.json").as_posix() for name in models]


def model_files(dataset: str, kind: str) -> list[str]:
    """Return the files of a user's own model, if there is one."""
    return own_model_files(registry.dataset_spec(dataset), kind)


def embeds(dataset: str, kind: str) -> bool:
    """Whether a real model reads the texts, which takes all cores and much memory."""
    spec = registry.dataset_spec(dataset)
    return bool(models_of(spec, kind) or own_model(spec, kind))


def received(receipts: Iterable[str]) -> dict[str, str]:
    """Return the sha256 of raw files: a new version of one rebuilds what is made of it.

    Raises FileNotFoundError for a receipt that is not there or not readable: Snakemake asks again
    once it has been made.
    """
    files = {}
    for receipt in receipts:
        records = _records(Path(receipt))
        if records is None:
            raise FileNotFoundError(errno.ENOENT, "no readable receipt", receipt)
        files |= {record["file"]: record["sha256"] for record in records}
    return files


def changed_sources(names: Iterable[str]) -> list[str]:
    """Return the names of receipts that no longer fit their raw files, which are checked again."""
    return [name for name in names if _is_changed(RECEIPTS / f"{name}.json")]


def _records(receipt: Path) -> list[dict[str, Any]] | None:
    try:
        records = json.loads(receipt.read_text(encoding="utf-8"))["files"]
        return [dict(record) for record in records if record["file"] and record["sha256"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_changed(receipt: Path) -> bool:
    if not receipt.is_file():
        return False
    records = _records(receipt)
    try:
        return records is None or not all(map(_is_unchanged, records))
    except (OSError, KeyError):
        return True


def _is_unchanged(record: Mapping[str, Any]) -> bool:
    """Whether a raw file has the size and the time that its receipt says."""
    status = (RAW / record["file"]).stat()
    return (status.st_size, status.st_mtime_ns) == (record["bytes"], record["mtime_ns"])


# --- refusals --------------------------------------------------------------------------------


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


# --- messages --------------------------------------------------------------------------------


def announcement(work: Workflow, needed: Iterable[str], cores: int) -> list[str]:
    """Return the lines before a run: how many jobs follow, and about how long they take."""
    todo = [work.jobs[name] for name in needed]
    lines = [*work.plan.left_out, *unbounded_lines(work)]
    if todo:
        runs = sum(2 * job.attack.runs if job.attack else job.n_replicas for job in todo)
        cores = max(1, min(cores, len(todo)))
        seconds = duration_on(map(work.costs.seconds, todo), cores)
        kept = len(work.finished.keys() & work.jobs.keys() - {job.id for job in todo})
        lines.append(
            f"To run: {counted(len(todo), 'job')} with {counted(runs, 'run')}, about "
            f"{duration(seconds)} on {counted(cores, 'core')}"
            + (f"; {counted(kept, 'finished job')} kept" if kept else "")
        )
        lines.append(f"The time is estimated {work.costs.source}.")
    if follow := sorted({job.group for job in todo if job.id in work.following}):
        number = sum(job.id in work.following for job in todo)
        lines.append(
            f"Among them: {counted(number, 'job')} of {', '.join(follow)} from earlier runs, "
            "whose settings were chosen in jobs that run again."
        )
    return [*lines, *damage_lines(work), *outdated_lines(work), *kept_seeds_lines(work)]


def damage_lines(work: Workflow) -> list[str]:
    """Return lines that name damaged results, and what happens to them."""
    lines = []
    for name, reason in work.damaged.items():
        left = name in work.finished and name not in work.jobs
        then = f"It is left out. {_command(work, [name])}" if left else "It is made again."
        lines.append(f"Damaged: {reason}\n  {then}")
    return lines


def outdated_lines(work: Workflow) -> list[str]:
    """Return a line on earlier jobs whose settings were chosen anew without them."""
    jobs = outdated(work.folder, work.finished, work.jobs)
    if not jobs:
        return []
    return [
        f"Older than the choice of their settings: {counted(len(jobs), 'finished job')}. "
        + _command(work, [job.id for job in jobs])
    ]


def unbounded_lines(work: Workflow) -> list[str]:
    """Return a line on graphs for which scenario edges is left out, and what mends it."""
    specs = [registry.dataset_spec(name) for name in work.datasets]
    names = [spec.name for spec in specs if spec.own and spec.max_edges is None]
    if not names:
        return []
    return [
        f"Scenario edges is left out for {', '.join(names)}: its declaration needs max_edges, a "
        "public bound on the number of links, known without looking at them."
    ]


def kept_seeds_lines(work: Workflow) -> list[str]:
    """Return a line where jobs hold more seeds than asked for: exhibits use all of them."""
    asked = set(work.run.seeds or ())
    wider = [job for job in work.jobs.values() if asked and set(job.seeds) - asked]
    if not wider:
        return []
    return [
        f"{counted(len(wider), 'job')} keep further seeds from earlier runs; the exhibits use "
        "all of them"
    ]


def _command(work: Workflow, names: Iterable[str]) -> str:
    """Return the words that say how to run earlier jobs again."""
    keys: dict[str, set[str]] = defaultdict(set)
    for job in (work.finished[name] for name in names):
        keys["datasets"].add(job.dataset)
        keys["protocols"].add(job.protocol)
        for name, exhibit in exhibits_by_name(job.study).items():
            if (job.study, job.group) in groups_read(job.study, exhibit):
                keys["exhibits"].add(f"{job.study}.{name}")
    settings = " ".join(f"{key}={','.join(sorted(values))}" for key, values in keys.items())
    return f"To run them again: snakemake --config scale={work.run.scale} {settings}"


def groups_read(study_id: str, exhibit: Exhibit) -> set[tuple[str, str]]:
    """Return (study, run group) of what an exhibit reads."""
    pairs = (group.rpartition(".") for group in exhibit.groups)
    return {(owner or study_id, group) for owner, _, group in pairs}


def failures(logs: Path, since: float) -> list[str]:
    """Return why jobs failed: the end of every log since a time that says so, or stops short."""
    messages = []
    for log in sorted(logs.rglob("*.log")):
        if log.stat().st_mtime < since:
            continue
        text = f"\n{log.read_text(encoding='utf-8', errors='replace').strip()}"
        if text.rpartition("\n")[2].startswith("finished"):
            continue
        _, failed, message = text.rpartition("\nfailed: ")
        reason = message if failed else "the job was ended before it could say why"
        messages.append(f"{reason}\n(log: {log})")
    return messages
