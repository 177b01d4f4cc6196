# Configuration and targets: everything that the rules share. No rule is defined here.
import atexit
import json
import os
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError

from private_graphs import config as configuration
from private_graphs import kept
from private_graphs.cost.methods import method_seconds
from private_graphs.cost.model import duration_on, machine_model
from private_graphs.datasets import registry
from private_graphs.errors import UserError
from private_graphs.features.models import models_of, own_model, own_model_files
from private_graphs.files import WITHOUT_DP
from private_graphs.grids import audit_plans, method_plans, plans
from private_graphs.imports import import_closure, package_data
from private_graphs.protocols import PROTOCOLS

STARTED = time.time()
SCRIPTS = Path(workflow.basedir) / "workflow" / "scripts"
CELL_FILES = ("runs.parquet", "predictions.safetensors", "statement.json")

try:
    STUDIES = configuration.load_studies()
    RUN = configuration.RunConfig.parse(configuration.declare_graphs(config), STUDIES)
except UserError as error:
    raise WorkflowError(str(error)) from None

RESULTS = f"results/{RUN.scale}"
RUNS = f"{RESULTS}/runs"
METHOD_RUNS = f"{RESULTS}/methods"
RAW = "data/raw"
PROCESSED = "data/processed"
DATASETS = sorted(
    {name for each in STUDIES for name in configuration.datasets_of(each, RUN)}
)


def cell_folder(study, cell):
    return f"{RUNS}/{study}/{cell}"


def method_folder(study, cell):
    return f"{METHOD_RUNS}/{study}/{cell}"


def planned_cells():
    """Return the plan of every cell that this run asks for by (study, cell)."""
    found = {}
    for study in STUDIES:
        for plan in plans(study, RUN):
            folder = cell_folder(study.id, plan.cell.cell_id)
            plan = kept.widened(plan, Path(folder, kept.PLAN_FILE))
            found[study.id, plan.cell.cell_id] = plan
    return found


PLANS = planned_cells()
FOLLOWING = {
    plan.cell: plan
    for study in STUDIES
    for plan in kept.followers(
        study,
        RUN,
        [each for (owner, _), each in PLANS.items() if owner == study.id],
        Path(RUNS, study.id),
    )
}
PLANS |= {(cell.study, cell.cell_id): plan for cell, plan in FOLLOWING.items()}


def planned_methods():
    """Return the plan of every cell of the proved methods by (study, cell)."""
    found = {}
    for study in STUDIES:
        for plan in method_plans(study, RUN):
            earlier = Path(METHOD_RUNS, study.id, plan.cell.cell_id, kept.PLAN_FILE)
            found[study.id, plan.cell.cell_id] = kept.widened(plan, earlier)
    return found


def refuse_unproved():
    """Refuse a run that names experiments of proved methods, and protocols that prove nothing."""
    if not RUN.protocols or "sound" in RUN.protocols:
        return
    asked = {}
    for study in STUDIES:
        asked |= configuration.experiments_of(study, RUN)
    if asked and all(each.kind == "methods" for each in asked.values()):
        raise WorkflowError(
            f"experiments: {', '.join(asked)} has proved methods alone; add sound to protocols "
            f"(now {','.join(RUN.protocols)}), or leave protocols out"
        )


refuse_unproved()
METHOD_PLANS = planned_methods()
CELLS = [plan.cell for plan in (*PLANS.values(), *METHOD_PLANS.values())]


def refuse_absent_tables():
    """Refuse users' graphs whose tables are gone, before anything is said of their sizes."""
    for spec in map(registry.dataset_spec, DATASETS):
        for table in (spec.own.nodes, spec.own.edges) if spec.own else ():
            if not table.is_file():
                raise WorkflowError(
                    f"{table}: no such file; the graph {spec.name} was declared with it: put it "
                    "back, or declare the graph again "
                    f"(private-graphs dataset {spec.name} --nodes ...)"
                )


def refuse_too_many_splits():
    """Refuse more parts than a graph has training nodes, as far as its tables tell by now."""
    for plan in PLANS.values():
        size = registry.dataset_spec(plan.cell.dataset).size_with(plan.cell.features)
        if plan.cell.splits > size.train_nodes:
            raise WorkflowError(
                f"splits: {plan.cell.splits} parts asked of the about {size.train_nodes} training "
                f"nodes of {plan.cell.dataset}; name fewer (--config splits=1)"
            )


refuse_absent_tables()
refuse_too_many_splits()


AUDITS = {
    (study.id, plan.name): plan for study in STUDIES for plan in audit_plans(study, RUN)
}


def audit_of(wildcards):
    try:
        return AUDITS[wildcards.study, wildcards.audit]
    except KeyError:
        raise WorkflowError(
            f"no audit {wildcards.study}/{wildcards.audit} in this configuration; "
            "snakemake --dry-run lists those there are"
        ) from None


def audit_files():
    return [f"{RESULTS}/audits/{study}/{name}.json" for study, name in AUDITS]


def known_audits():
    """Return the files of all audits of this scale: finished on disk or asked for now."""
    on_disk = {path.as_posix() for path in Path(RESULTS, "audits").glob("*/*.json")}
    return sorted(on_disk | set(audit_files()))


def plan_of(wildcards):
    try:
        return (PLANS | METHOD_PLANS)[wildcards.study, wildcards.cell]
    except KeyError:
        raise WorkflowError(
            f"no cell {wildcards.study}/{wildcards.cell} in this configuration; "
            "snakemake --dry-run lists those there are"
        ) from None


def build_folder(cell):
    """Return the folder of the built dataset of a cell."""
    name = registry.build_name(cell.dataset, cell.features, cell.data_view)
    return f"{PROCESSED}/{name}"


def dataset_file(file):
    """Return the input function that gives ``file`` of the dataset of a cell."""
    return lambda wildcards: f"{build_folder(plan_of(wildcards).cell)}/{file}"


def noise_source(wildcards):
    """Seeds that everybody knows for published data; of a user's own graph nobody may know them."""
    own = registry.dataset_spec(plan_of(wildcards).cell.dataset).own
    return "os_entropy" if own else "seeded"


def searched_runs(wildcards):
    """Return the runs of the cell in which a learning rate is chosen for this one, if any."""
    choice = plan_of(wildcards).chosen_in
    if choice is None:
        return []
    return f"{cell_folder(wildcards.study, choice.cell.cell_id)}/runs.parquet"


def requested(file):
    """Return ``file`` of every cell of this run."""
    trained = [f"{cell_folder(*key)}/{file}" for key in PLANS]
    return trained + [f"{method_folder(*key)}/{file}" for key in METHOD_PLANS]


def known_cells():
    """Return the folders of all cells of this scale: finished on disk or asked for now."""
    on_disk = {
        path.parent.as_posix()
        for folder in (RUNS, METHOD_RUNS)
        for path in Path(folder).rglob(CELL_FILES[0])
        if all((path.parent / name).is_file() for name in CELL_FILES)
        and path.parent.name != WITHOUT_DP  # part of the cell around it
    }
    planned = {cell_folder(*key) for key in PLANS}
    return sorted(on_disk | planned | {method_folder(*key) for key in METHOD_PLANS})


def known_experiments(study):
    """Return (experiment, dataset) of all cells of ``study``: finished or part of this run."""
    folders = [Path(each, study.id) for each in (RUNS, METHOD_RUNS)]
    return {
        Path(cell).relative_to(folder).parts[:2]
        for cell in known_cells()
        for folder in folders
        if Path(cell).is_relative_to(folder)
    }


def code(script):
    """Return what ``script`` imports: files of the package, and the modules beside it."""
    files = import_closure(SCRIPTS / script)
    return [os.path.relpath(path) for path in [*files, *package_data(files)]]


def published(study):
    return sorted(
        path.as_posix() for path in Path("studies/published").glob(f"{study}_*.csv")
    )


def say(text):
    print(text, file=sys.stderr, flush=True)


# --- data ---


def default_build(name):
    """Return the build of a dataset that no cell trains on: for the sound protocol."""
    spec = registry.dataset_spec(name)
    kinds = [each for each in RUN.features or () if each in spec.features]
    features = (*kinds, spec.features[0])[0]
    return registry.build_name(name, features, PROTOCOLS["sound"].data)


def builds_of(name):
    """Return the folders of the builds of a dataset that the run needs."""
    found = [build_folder(cell) for cell in CELLS if cell.dataset == name]
    return list(dict.fromkeys(found)) or [f"{PROCESSED}/{default_build(name)}"]


def shown_builds():
    """Return the folders of the builds whose sizes tables show: one per dataset and sample."""
    folders = []
    for name in sorted({*DATASETS, *(cell.dataset for cell in CELLS)}):
        builds = builds_of(name)
        # Texts: the same people in each build, but for the defects of one.
        if registry.dataset_spec(name).has_texts:
            builds = sorted(builds, key=lambda folder: Path(folder).name != "sound")[:1]
        folders += builds
    return folders


def receipted():
    """Return the names of datasets and models whose raw files the run needs."""
    datasets = {*DATASETS, *(cell.dataset for cell in CELLS)}
    names = {name for name in datasets if not registry.dataset_spec(name).own}
    for dataset in datasets:
        for folder in builds_of(dataset):
            _, *rest = Path(folder).relative_to(PROCESSED).parts
            if rest:
                names |= set(models_of(registry.dataset_spec(dataset), rest[0]))
    return sorted(names)


def text_sources(wildcards):
    """Return what the texts of a dataset are read from: a receipt, or the tables of a user."""
    own = registry.dataset_spec(wildcards.dataset).own
    if own is None:
        return [ancient(f"{RAW}/receipts/{wildcards.dataset}.json")]
    return [own.nodes.as_posix(), own.edges.as_posix()]


def declaration(wildcards):
    """Return what a user declared of a graph, none for other datasets."""
    own = registry.dataset_spec(wildcards.dataset).own
    return own.model_dump_json(exclude={"max_edges"}) if own else None


def model_receipts(kind):
    """Return the input function that gives the receipts of the models of these features."""
    return lambda wildcards: [
        ancient(f"{RAW}/receipts/{name}.json")
        for name in models_of(registry.dataset_spec(wildcards.dataset), kind)
    ]


def model_files(kind):
    """Return the input function that gives the files of a user's own model, if there is one."""
    return lambda wildcards: own_model_files(
        registry.dataset_spec(wildcards.dataset), kind
    )


def embedding_threads(kind):
    """Return all cores for a real model: two jobs would embed twice the texts that views share."""

    def threads(wildcards):
        spec = registry.dataset_spec(wildcards.dataset)
        real = models_of(spec, kind) or own_model(spec, kind)
        return workflow.cores or 1 if real else 1

    return threads


def received(receipts):
    """Return what raw files are: a new version of one rebuilds what is made of it.

    Receipts themselves are older or newer for other reasons; before they are there Snakemake asks
    again (FileNotFoundError).
    """
    files = [
        each
        for receipt in receipts
        for each in json.loads(Path(receipt).read_text(encoding="utf-8"))["files"]
    ]
    return {each["file"]: each["sha256"] for each in files}


def is_unchanged(record):
    """Return whether a raw file has the size and the time that its receipt says."""
    status = Path(RAW, record["file"]).stat()
    return (status.st_size, status.st_mtime_ns) == (record["bytes"], record["mtime_ns"])


def withdraw_receipts():
    """Remove receipts of raw files that are gone or changed, so that they are checked again."""
    for receipt in Path(RAW, "receipts").glob("*.json"):
        try:
            files = json.loads(receipt.read_text(encoding="utf-8"))["files"]
            unchanged = all(map(is_unchanged, files))
        except (OSError, ValueError, KeyError, TypeError):
            unchanged = False
        if not unchanged:
            receipt.unlink(missing_ok=True)


withdraw_receipts()


# --- training ---


def seconds_of(plan):
    return machine_model("results").seconds(plan)


def megabytes_of(plan):
    """A generous bound: torch itself, and twenty (nodes, hidden) float64 arrays per replica."""
    size = registry.dataset_spec(plan.cell.dataset).size_with(plan.cell.features)
    hidden = plan.n_replicas * size.nodes * plan.hidden * 8 * 20
    return 1500 + (hidden + size.nonzeros * 24) // 2**20


def counted(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds):
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def announce_training():
    """Say how many training jobs follow and about how long they take, before the first starts."""
    needed = list(workflow.dag.needrun_jobs(exclude_finished=False))
    methods = [plan_of(job.wildcards) for job in needed if job.rule.name == "method"]
    if methods:
        runs = sum(plan.n_replicas for plan in methods)
        cores = max(1, min(workflow.cores or 1, len(methods)))
        seconds = duration(duration_on(map(method_seconds, methods), cores))
        say(
            f"Proved methods: {counted(len(methods), 'job')} with {counted(runs, 'run')}, "
            f"about {seconds} on {counted(cores, 'core')}"
        )
    jobs = [job for job in needed if job.rule.name == "train"]
    if not jobs:
        return
    todo = [plan_of(job.wildcards) for job in jobs]
    replicas = sum(plan.n_replicas for plan in todo)
    cores = max(1, min(workflow.cores or 1, len(todo)))
    seconds = duration_on(map(seconds_of, todo), cores)
    finished = len(PLANS) - len(todo)
    kept = f"; {counted(finished, 'finished job')} kept" if finished else ""
    say(
        f"Training: {counted(len(todo), 'job')} with {counted(replicas, 'run')}, "
        f"about {duration(seconds)} on {counted(cores, 'core')}{kept}"
    )
    say(f"The time is estimated {machine_model('results').source}.")
    mention_followers(plan for plan in todo if plan.cell in FOLLOWING)


def mention_followers(plans):
    """Say which of the jobs nobody asked for, and why they are part of the run."""
    names = [plan.cell.experiment for plan in plans]
    if names:
        say(
            f"Among them: {counted(len(names), 'job')} of {', '.join(sorted(set(names)))} from "
            "earlier runs, whose learning rate was chosen in cells that are trained again."
        )


def mention_outdated():
    """Say which earlier cells show a choice that was made anew without them, and what mends it."""
    for study in STUDIES:
        planned = {cell for owner, cell in PLANS if owner == study.id}
        cells = [plan.cell for plan in kept.outdated(Path(RUNS, study.id), planned)]
        if cells:
            settings = " ".join(
                f"{key}s={','.join(sorted({getattr(cell, key) for cell in cells}))}"
                for key in ("dataset", "experiment", "protocol")
            )
            say(
                "Older than the choice of their learning rate: "
                f"{counted(len(cells), 'finished cell')}. To train them again: "
                f"snakemake --config scale={RUN.scale} {settings}"
            )


def keep_declarations():
    """Write the graphs that the configuration declares, and say which replace others."""
    for line in configuration.keep_declarations():
        say(line)


def announce_dry_run():
    """Say the same where nothing starts and onstart is not called."""
    if workflow.dryrun and workflow.dag is not None:
        announce_training()
        mention_outdated()


atexit.register(announce_dry_run)


def mention_kept_seeds():
    """Say where cells hold more seeds than asked for: tables use all that are finished."""
    asked = {seed for seed in RUN.seeds or ()}
    wider = [plan for plan in PLANS.values() if asked and set(plan.seeds) - asked]
    if wider:
        say(
            f"{counted(len(wider), 'cell')} keep further seeds from earlier runs; "
            "the tables use all of them"
        )


def mention_unbounded():
    """Say for which graphs setting edges is left out, and what mends it."""
    bounds = {
        plan.cell.dataset: registry.dataset_spec(plan.cell.dataset).max_edges
        for plan in METHOD_PLANS.values()
    }
    names = sorted(name for name, bound in bounds.items() if bound is None)
    if names:
        say(
            f"Setting edges is left out for {', '.join(names)}: its declaration needs "
            "max_edges, a public bound on the number of links, known without looking at "
            "them."
        )


def say_where():
    """Say where the results of the targets that were asked for are."""
    made = {job.rule.name for job in workflow.dag.jobs}
    if "site" in made:
        say("Results: results/index.html")
    elif "tables" in made:
        say(f"Tables: {RESULTS}/tables")


# --- report ---


EXHIBITS = [
    (study, each)
    for study in STUDIES
    for each in configuration.exhibits(study, RUN, known_experiments(study))
]
DRAWN = [
    (study, each)
    for study, each in EXHIBITS
    if each.kind == "training" or each.picture_per_dataset
]


def table_requests():
    """Return the arguments of ``write_tables`` for every study with something to tabulate."""
    wanted = {}
    for study, each in EXHIBITS:
        request = wanted.setdefault(study.id, {"study": study.id, "tables": []})
        request["tables"].append(each.name)
        if each.kind == "noise":
            experiment = configuration.experiments_of(study, RUN)[each.name]
            request |= experiment.model_dump(include={"epsilons", "epochs", "delta"})
    return list(wanted.values())


def figure_requests():
    """Return the datasets of every picture, by study and by table or figure."""
    wanted = {}
    for study, each in DRAWN:
        wanted.setdefault(study.id, {})[each.name] = list(each.datasets)
    return wanted


def captioned(path, caption, category):
    return report(path, caption=f"../report/{caption}.rst", category=category)


def table_files():
    return [
        captioned(
            f"{RESULTS}/tables/{study.id}_{each.name}.{suffix}", each.name, study.title
        )
        for study, each in EXHIBITS
        for suffix in ("csv", "md", "tex")
    ]


def picture_stems(study, exhibit):
    stem = f"{RESULTS}/figures/{study.id}_{exhibit.name}"
    if not exhibit.picture_per_dataset:
        return [stem]
    return [f"{stem}_{dataset}" for dataset in exhibit.datasets]


def figure_files():
    return [
        captioned(f"{stem}.{suffix}", each.name, "Figures")
        for study, each in DRAWN
        for stem in picture_stems(study, each)
        for suffix in ("png", "pdf")
    ]


# --- messages ---


def explain_failures():
    """Print why jobs failed: the end of every log of this run that says so, or stops short."""
    for log in sorted(Path(RESULTS, "logs").rglob("*.log")):
        if log.stat().st_mtime < STARTED:
            continue
        text = f"\n{log.read_text(encoding='utf-8', errors='replace').strip()}"
        if text.rpartition("\n")[2].startswith("finished"):
            continue
        _, failed, message = text.rpartition("\nfailed: ")
        reason = message if failed else "the job was ended before it could say why"
        say(f"\n{reason}\n(log: {log})")
