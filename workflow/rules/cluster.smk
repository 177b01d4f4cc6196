# What rules need to know of clusters: bundles, what a failed job asks for when it runs again, and
# what a job there has to be told.
import dataclasses
import os
import sys

from snakemake.dag import DAG

NODE_CORES = 8  # that a large job asks for


def more(amount):
    """Resource that grows with every attempt: profiles for clusters run failed jobs again."""
    return lambda wildcards, attempt: attempt * (
        amount(wildcards) if callable(amount) else amount
    )


def bundled(group):
    """Group of jobs that a cluster runs as one, by name or by wildcards; None elsewhere, where a
    group costs time and changes nothing.
    """

    def name(wildcards):
        if workflow.local_exec:
            return None
        return group(wildcards) if callable(group) else group

    return name


def told_of_jobs(plan):
    """Tell a process that Snakemake starts for a job of a cluster what its command line does not:
    the names of jobs, which have commas (https://github.com/snakemake/snakemake/issues/2366); that a
    bundle is one job, whose members do not start Snakemake again; how much Slurm has given to it.
    """
    given = {"_cores": "SLURM_CPUS_PER_TASK", "gpu": "SLURM_GPUS"}

    async def init(dag, *arguments, **options):
        for job in dag.workflow.dag_settings.target_jobs:
            flow.rejoin(job.wildcards_dict)
        dag.workflow.group_settings = dataclasses.replace(
            dag.workflow.group_settings,
            group_components=dict.fromkeys(flow.BUNDLES, sys.maxsize),
        )
        for resource, variable in given.items():
            if os.environ.get(variable, "").isdigit():
                dag.workflow.global_resources[resource] = int(os.environ[variable])
        return await plan(dag, *arguments, **options)

    return init


if not workflow.is_main_process:
    DAG.init = told_of_jobs(DAG.init)
