"""The release that workflow/shards.smk is asked for, from its configuration."""

from pathlib import Path

import job  # noqa: F401  (finds the sources of the package)


def out_of(config, graph):
    """Return the folder of the release of a graph."""
    return Path(config.get("out", f"results/shards/{graph.info.name}"))


def run_of(config):
    """Return the steps of the one run that ``classify`` would carry out on the whole graph."""
    from private_graphs.cli.classify import planned
    from private_graphs.cli.run import named
    from private_graphs.core.errors import UserError
    from private_graphs.datasets.shards import ShardedGraph
    from private_graphs.workflow.sharded import ShardedRun

    if "epsilon" not in config:
        raise UserError("--config epsilon=...: missing (docs/cluster.md)")
    graph = ShardedGraph.load(config["graph"])
    about = graph.info
    flags = {"dataset": about.name, "scenario": about.scenario, "validation_labels": None}
    flags |= {key: config.get(key) for key in ("method", "seed", "max_edges")}
    flags |= {"epsilon": str(config["epsilon"]), "delta": float(config.get("delta", 1e-5))}
    one = named(planned(flags), about.features)
    return ShardedRun.of(out_of(config, graph), config["graph"], one, seeded="seed" in config)
