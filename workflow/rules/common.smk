# What the rules share; all of it is Python that is tested as such.
import logging
import sys
import time
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

from private_graphs.core.errors import UserError
from private_graphs.core.files import resource, write_json
from private_graphs.core.imports import code_state
from private_graphs.datasets.declared import keep_declarations
from private_graphs.datasets.spec import TEXT_FEATURES
from private_graphs.running.catalog import modules_of
from private_graphs.workflow import announce, rules as flow
from private_graphs.workflow.locks import FolderLock

STARTED = time.time()
SCRIPTS = resource("workflow/scripts")
LOCK = FolderLock()

try:
    flow.refuse_other_checkout(workflow.basedir)
    flow.refuse_repeated_keys(sys.argv)
    WORK = flow.make_workflow(config)
except (UserError, OSError) as error:
    raise WorkflowError(str(error)) from None

RESULTS = WORK.results.as_posix()
JOBS = WORK.folder.as_posix()
SPLITS = f"{RESULTS}/splits"
PROCESSED = flow.PROCESSED.as_posix()
PLAN = f"{RESULTS}/logs/plan.json"  # the markers of the batches of a run, and its time
GPU = int(WORK.run.device == "cuda")
NODE_CORES = 8  # that a large job of a cluster asks for


def say(line):
    print(line, file=sys.stderr, flush=True)


@cache
def exhibits_to_write():
    return WORK.shown_exhibits()


def made_modules(wildcards):
    """Modules of the exhibits that are written."""
    return flow.exhibit_modules(exhibits_to_write())


def page_modules(wildcards):
    """Modules that pages find by name: they show what is recorded beside what this run made."""
    return [*made_modules(wildcards), *modules_of(flow.recorded_studies())]


def code(script, modules=lambda wildcards: ()):
    """Parameter: the contents of the package that a script reaches, with those of modules that it
    finds by name. Jobs whose parameters changed run again; as inputs these would be 70 files.
    """
    return lambda wildcards: code_state(SCRIPTS / script, *modules(wildcards))


def code_of_methods(script):
    """Parameter: the same of each method of a batch, of which the jobs of one may run again alone."""
    return lambda wildcards: [
        f"{module} {code_state(SCRIPTS / script, module)}"
        for module in WORK.modules(wildcards.batch)
    ]


def jobs_of(wildcards):
    """Parameter: the jobs of a batch."""
    return [job.model_dump_json() for job in WORK.batch(wildcards.batch).jobs]


def more(amount):
    """Resource that grows with every attempt: profiles for clusters run failed jobs again."""
    return lambda wildcards, attempt: attempt * (
        amount(wildcards) if callable(amount) else amount
    )


def embeds(wildcards):
    """Whether a real model reads the texts."""
    return flow.embeds(wildcards.dataset, wildcards.kind)


def embedding_threads(wildcards):
    """All cores for a real model: two jobs would embed twice the texts that views share."""
    return (workflow.cores or NODE_CORES) if embeds(wildcards) else 1


def begin():
    LOCK.begin()
    plan = {"markers": WORK.markers(), "started": STARTED}
    write_json(PLAN, plan | {"expected": WORK.expected_seconds(workflow.cores or 1)})
    for line in keep_declarations():
        say(line)


# A line of Snakemake's for every turn of its scheduler would hide those of batches.
logging.getLogger("snakemake.logging").addFilter(announce.worth_a_line)

if LOCK.is_ours:  # else markers may be there before the files that they name
    WORK.reopen()
for line in announce.announcement(WORK):
    say(line)
