"""The release that workflow/shards.smk is asked for, from its configuration."""

from pathlib import Path

import job  # noqa: F401  (finds the sources of the package)


def out_of(config, graph):
    """Return the folder of the release of a graph."""
    return Path(config.get("out", f"results/shards/{graph.info.name}"))


def run_of(config):
    """Return the steps of the one run that ``train`` would carry out on the whole graph."""
    from private_graphs.cli.run import STUDY, checked_epsilon, named
    from private_graphs.core.errors import UserError
    from private_graphs.datasets.shards import ShardedGraph
    from private_graphs.running.jobs import Job
    from private_graphs.workflow.sharded import ShardedRun

    if "epsilon" not in config:
        raise UserError("--config epsilon=...: missing (docs/cluster.md)")
    graph = ShardedGraph.load(config["graph"])
    about = graph.info
    usual = "edge_votes" if about.scenario == "edges" else "class_sums"
    one = Job(
        study=STUDY,
        group="train",
        name="",
        dataset=about.name,
        method=config.get("method", usual),
        scenario=about.scenario,
        epsilons=(checked_epsilon(str(config["epsilon"])),),
        seeds=(config.get("seed", 0),),
        delta=float(config.get("delta", 1e-5)),
        max_edges=config.get("max_edges"),
    )
    one = named(one, about.features)
    return ShardedRun.of(out_of(config, graph), config["graph"], one, seeded="seed" in config)
