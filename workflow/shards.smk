# One release of a graph in shards: ask, sum every shard, release (docs/cluster.md). Apart from the
# Snakefile of the studies:
#   snakemake --snakefile workflow/shards.smk --config graph=DIR epsilon=2
import sys
from functools import cache

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from private_graphs.core.files import resource

min_version("9.0")
sys.path.insert(0, str(resource("workflow/scripts")))
from shard_job import out_of, run_of

from private_graphs.datasets.shards import ShardedGraph
from private_graphs.core.errors import UserError

try:
    GRAPH = ShardedGraph.load(config.get("graph", "data/shards"))
except UserError as error:
    raise WorkflowError(str(error)) from None

OUT = out_of(config, GRAPH).as_posix()
PRIVATE = f"{OUT}/private"


@cache
def run():
    """The whole run: its imports would cost every job seconds."""
    try:
        return run_of(config)
    except UserError as error:
        raise WorkflowError(str(error)) from None


def sums(turn):
    """The manifests of all exact sums of a round; of the one before the first, none."""
    shards = range(len(GRAPH.info.shards)) if turn >= 0 else ()
    return [f"{PRIVATE}/sums/{turn}/{each}/manifest.json" for each in shards]


localrules:
    all,


rule all:
    default_target: True
    input:
        f"{PRIVATE}/manifest.json",


rule shard_ask:
    input:
        lambda wildcards: sums(int(wildcards.turn) - 1),
    output:
        query=f"{PRIVATE}/query-{{turn}}.npz",
    log:
        f"{OUT}/logs/ask-{{turn}}.log",
    wildcard_constraints:
        turn="[0-9]+",
    conda:
        "../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 8000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        turn=lambda wildcards: wildcards.turn,
    script:
        "scripts/shard_ask.py"


rule shard_sum:
    input:
        query=f"{PRIVATE}/query-{{turn}}.npz",
        shard=lambda wildcards: GRAPH.file(int(wildcards.shard)).as_posix(),
    output:
        manifest=f"{PRIVATE}/sums/{{turn}}/{{shard}}/manifest.json",
    log:
        f"{OUT}/logs/sum-{{turn}}-{{shard}}.log",
    wildcard_constraints:
        turn="[0-9]+",
        shard="[0-9]+",
    conda:
        "../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    script:
        "scripts/shard_sum.py"


# The noise is drawn once: what says for which sums (private/spent-*) and with which secret is no
# output of a rule, so that Snakemake never removes it.
use rule shard_ask as shard_release with:
    input:
        lambda wildcards: sums(run().rounds - 1),
    output:
        manifest=f"{PRIVATE}/manifest.json",
    log:
        f"{OUT}/logs/release.log",
    params:
        turn=lambda wildcards: run().rounds,
