# What the rules share; all of it is Python that is tested as such (private_graphs.workflow).
import atexit
import os
import signal
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from private_graphs import workflow as flow
from private_graphs.declarations import keep_declarations
from private_graphs.errors import UserError
from private_graphs.imports import code_files

STARTED = time.time()
SCRIPTS = Path(workflow.basedir) / "workflow" / "scripts"

try:
    WORK = flow.make_workflow(config, verify=workflow.is_main_process)
except UserError as error:
    raise WorkflowError(str(error)) from None

RESULTS = WORK.results.as_posix()
JOBS = WORK.folder.as_posix()
RECEIPTS = flow.RECEIPTS.as_posix()
PROCESSED = flow.PROCESSED.as_posix()
INTERRUPTED = []


def code(script, *modules):
    """Files of the package that a script reaches, with those of modules that it finds by name."""
    return [os.path.relpath(path) for path in code_files(SCRIPTS / script, *modules)]


def damage(name):
    """What is wrong with a result: a parameter, so that it is made again. Once a run has begun
    nothing is, so that the next one finds the parameter as it should be."""
    return WORK.damaged.get(name, "")


def announcement():
    """What is going to run in words, and how long each job is expected to take."""
    jobs = {
        job.jobid: job.wildcards.job
        for job in workflow.dag.needrun_jobs(exclude_finished=False)
        if job.rule.name in ("run", "audit")
    }
    lines = flow.announcement(WORK, jobs.values(), workflow.cores or 1)
    seconds = {number: WORK.costs.seconds(WORK.jobs[name]) for number, name in jobs.items()}
    return "\n".join(lines), {"expected": seconds, "cores": workflow.cores or 1}


def announce_dry_run():
    """Say it where nothing starts and onstart is not called."""
    if workflow.dag is not None:
        print(announcement()[0], file=sys.stderr)


def begin():
    text, expected = announcement()
    logger.info(text, extra=expected)
    WORK.damaged.clear()
    for line in keep_declarations():
        logger.info(line)
    signal.signal(signal.SIGINT, interrupt)


def interrupt(number, frame):
    INTERRUPTED.append(number)
    raise KeyboardInterrupt


def explain():
    """Say why jobs failed, or that the run was interrupted."""
    if INTERRUPTED:
        print(flow.INTERRUPTED, file=sys.stderr, flush=True)
        sys.exit(128 + INTERRUPTED[0])
    for message in flow.failures(Path(RESULTS, "logs"), STARTED):
        logger.error(message)


def say_where():
    """Say where the results are, if the pages were asked for."""
    if "site" in {job.rule.name for job in workflow.dag.jobs}:
        logger.info("Results: results/index.html")


if workflow.is_main_process and workflow.dryrun:
    atexit.register(announce_dry_run)
