# What the rules share; all of it is Python that is tested as such.
import atexit
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from private_graphs import announce, workflow as flow
from private_graphs.datasets.declared import keep_declarations
from private_graphs.errors import UserError
from private_graphs.studies import modules_of
from private_graphs.imports import code_state
from private_graphs.locks import release_stale_lock
from private_graphs.repairs import (
    exhibit_modules,
    find_repairs,
    shown_exhibits,
    shown_jobs,
    wanted_receipts,
)

# Plans of thousands of jobs are millions of objects that stay: Python looks less often for garbage
# among them.
gc.freeze()
gc.set_threshold(200_000, 50, 100)

STARTED = time.time()
SCRIPTS = Path(str(workflow.current_basedir)).parent / "scripts"

try:
    if workflow.is_main_process:
        flow.refuse_repeated_keys(sys.argv)
        if not workflow.dryrun:
            release_stale_lock()
    WORK = flow.make_workflow(config)
except UserError as error:
    raise WorkflowError(str(error)) from None

RESULTS = WORK.results.as_posix()
JOBS = WORK.folder.as_posix()
PROCESSED = flow.PROCESSED.as_posix()
INTERRUPTED = []
MANY_JOBS = 8  # that make up for the seconds of importing everything at once


@cache
def repairs():
    """What earlier runs left damaged: read where it is asked for, not at the start of every job."""
    return find_repairs(WORK)


@cache
def exhibits_to_write():
    return shown_exhibits(WORK, repairs())


def recorded_modules(wildcards):
    """Modules that a script finds by name and that decide on recorded runs: rules of claims, and
    exhibits, which name the studies whose rows are read with their own.
    """
    return modules_of(flow.recorded_studies())


def page_modules(wildcards):
    """Modules that pages find by name: they show what is recorded beside what this run made."""
    return [*exhibit_modules(exhibits_to_write()), *recorded_modules(wildcards)]


def code(script, modules=lambda wildcards: ()):
    """Parameter: the contents of the package that a script reaches, with those of modules that it
    finds by name. Jobs whose parameters changed run again; as inputs these would be 70 files of
    each of thousands of jobs.
    """
    return lambda wildcards: code_state(SCRIPTS / script, *modules(wildcards))


def again(wildcards):
    """Input function of no files: tells Snakemake, which has planned nothing yet, what is damaged."""
    if workflow.is_main_process:
        workflow.dag.forcefiles.update(repairs().again)
    return []


def made_of(wildcards):
    """Input function of all inputs of a job: each costs time for every one of thousands of jobs."""
    return {"again": again(wildcards), **WORK.inputs(wildcards.job)}


def embeds(wildcards):
    """Whether a real model reads the texts."""
    return flow.embeds(wildcards.dataset, wildcards.kind)


def embedding_threads(wildcards):
    """All cores for a real model: two jobs would embed twice the texts that views share."""
    return (given_cores() or NODE_CORES) if embeds(wildcards) else 1


def given_cores():
    """Cores of this machine that the run may use; None where jobs run on a cluster."""
    return workflow.global_resources["_cores"].value


def jobs_to_run():
    """Identifiers of the jobs that are going to run, by Snakemake's numbers."""
    return {
        job.jobid: job.wildcards.job
        for job in workflow.dag.needrun_jobs(exclude_finished=False)
        if job.rule.name in ("run", "audit")
    }


def kinds_to_make():
    """Kinds of features that are going to be made on one thread."""
    jobs = workflow.dag.needrun_jobs(exclude_finished=False)
    made = [job for job in jobs if job.rule.name == "features" and job.threads == 1]
    return {job.wildcards.kind for job in made}


def announcement():
    """What is going to run in words, and how long each job is expected to take."""
    jobs = jobs_to_run()
    cores = given_cores() or workflow.nodes
    lines = announce.announcement(WORK, repairs(), jobs.values(), cores)
    seconds = {
        number: WORK.costs.seconds(WORK.jobs[name]) for number, name in jobs.items()
    }
    return "\n".join(lines), {"expected": seconds, "cores": cores}


def announce_dry_run():
    """Say it where nothing starts and onstart is not called."""
    if workflow.dryrun and workflow.dag is not None:
        print(announcement()[0], file=sys.stderr)


def begin():
    text, expected = announcement()
    logger.info(text, extra=expected)
    lift_default_limit()
    warm_up(jobs_to_run().values(), kinds_to_make())
    for line in keep_declarations():
        logger.info(line)
    signal.signal(signal.SIGINT, interrupt)


def lift_default_limit():
    """Drop Snakemake's own limit of 100 jobs per second where jobs run on this machine: while jobs
    wait, its scheduler wakes every second once for every job that has finished.
    """
    limit = workflow.scheduling_settings.max_jobs_per_timespan
    default = limit and (limit.max_jobs, limit.timespan) == (100, 1)
    if default and workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None


def warm_up(jobs, kinds):
    """Start the process that jobs are copies of (scripts/warm.py), if they are many and run here."""
    if len(jobs) < MANY_JOBS or not workflow.local_exec:
        return
    if workflow.deployment_settings.deployment_method:  # jobs have another Python
        return
    folder = tempfile.mkdtemp(prefix="private-graphs-")
    address = os.path.join(folder, "warm")
    modules = {module for name in jobs for module in WORK.modules(name)}
    libraries = {flow.LIBRARIES[kind] for kind in kinds & {*flow.LIBRARIES}}
    one = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
    )
    process = subprocess.Popen(
        [
            sys.executable,
            str(SCRIPTS / "warm.py"),
            address,
            " ".join(sorted(modules)),
            " ".join(sorted(libraries)),
        ],
        stdin=subprocess.PIPE,  # closed when this process ends, however it does
        env={**os.environ, **one},
    )
    os.environ.update(PRIVATE_GRAPHS_WARM=address)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(process.wait)
    atexit.register(process.terminate)
    atexit.register(process.stdin.close)


def interrupt(number, frame):
    INTERRUPTED.append(number)
    raise KeyboardInterrupt


def explain():
    """Say why jobs failed, or that the run was interrupted."""
    if INTERRUPTED:
        print(announce.INTERRUPTED, file=sys.stderr, flush=True)
        sys.exit(128 + INTERRUPTED[0])
    for message in announce.failures(Path(RESULTS, "logs"), STARTED):
        logger.error(message)


def say_where():
    """Say where the results are, if the pages were asked for."""
    if "site" in {job.rule.name for job in workflow.dag.jobs}:
        logger.info("Results: results/index.html")


if workflow.is_main_process:
    atexit.register(announce_dry_run)
