"""Claims of the text of ProGAP's paper, as rules over rows, and findings about its code."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from private_graphs.core.streams import Streams
from private_graphs.datasets.readers.facebook100 import MISSING_YEAR
from private_graphs.methods.noisy_sums import owned_lists
from private_graphs.privacy.accountants import compose_groups, gdp_epsilon, gdp_mu, price
from private_graphs.privacy.queries import GaussianQuery, PoissonSums
from private_graphs.report.claims import (
    Claim,
    Measured,
    Place,
    exact,
    interval,
    lowest,
    provided,
    shown_to_proved,
)
from private_graphs.report.published import published_rows
from private_graphs.report.results import Results
from private_graphs.studies.progap.methods.edge_rand import SHARE, keeping
from private_graphs.studies.progap.scores import READ_OFF, choose_depth

GROUPS = {"none": "no_noise", "edge": "friendships", "node": "owned_lists"}
BUDGETS = {"edge": "friendship_budgets", "node": "list_budgets"}
HOPS = {"edge": "friendship_hops", "node": "list_hops"}
EPOCHS = {"edge": "friendship_epochs", "node": "list_epochs"}
"""Run groups of Table 2 and Figures 2, 4 and 3 by level."""
RIVALS = {"edge": ("gap", "edge_rand", "mlp"), "node": ("gap", "dp_gnn", "mlp_steps")}
"""Competing methods in the paper's Table 2, by their names in rows."""
POINTS = 1.0
"""Largest difference of accuracies that count as equal, in percent points."""
Rule = Callable[[Results, Place], Measured | None]

DIRECTED = (
    "A friendship is stored both ways and moves two rows of a sum; the paper counts one entry."
)
OWNED = (
    "For a node with all its edges nothing is proved, as those who listed it draw another "
    "neighbour; what is proved is for a node with the list that it owns."
)
DEPTH_FIXED = "GraphSAGE has two layers here; the paper chooses among one to five."
TWICE = "Both directions of a pair are drawn by themselves: two looks at every friendship."
NOISE_HELPS = (
    "Private training beats the same network without privacy on Amazon, in the paper's own table: "
    "100 full-batch steps leave that one short of what features give."
)
NOT_HERE = (
    "Not run: the 100 files of FB-100 have not been here; fb100-part is another graph "
    "([the data](studies/progap.md#the-data))."
)
NOT_RECORDED = "Not recorded: the curves of Figure 3 are of one run, which decides nothing."
IN_PRINT = (
    "The curves nearly touch on Amazon at node level, ε = 2; they were read off pictures, to "
    f"{READ_OFF:g} points each."
)
COMPARED = "Each compared configuration and repeat is a release of its own."
NEGATIVE = "One row with year -80085 becomes class 0, and `y - 1` drops it in place of the missing."
LISTED = "Lists bound what a node sends; training reads them the other way round."
OPACUS = (
    "Opacus clips the gradient of each row of a batch's subgraph, not of each training node, and a "
    "row reads others."
)
AGAIN = "The bounded graph takes the place of the graph, transposed, before the next repetition."


def accuracies(results: Results, group: str, method: str, **where: Any) -> pd.Series:
    """Return test accuracy in percent by seed; of the deepest network if depths differ."""
    at = {"study": "progap", "group": group, "method": method, **where}
    if "hops" not in where and results.scores("hops", **at).notna().any():
        at["hops"] = results.scores("hops", **at).max()
    accuracy = 100 * results.scores(**at)
    if accuracy.index.has_duplicates:
        raise ValueError(f"{group}, {method}: several runs of a seed; name what tells them apart")
    return accuracy


def above_rivals(level: str, rivals: tuple[str, ...], results: Results, case: Place):
    """Accuracy of ProGAP minus its rivals' by seed, in points, at its smallest.

    A rival with a single run (one that reads no private data) decides nothing: it must be farther
    behind than the interval of the others.
    """
    at = {"epsilon": case.said["epsilon"]}
    accuracy = accuracies(results, GROUPS[level], "progap", **at)
    baselines = [_rival(results, GROUPS[level], name, at) for name in rivals]
    baselines = [baseline for baseline in baselines if len(baseline)]
    if accuracy.empty or not baselines:
        return None
    above = [(accuracy - baseline).dropna() for baseline in baselines]
    several = [lead for lead in above if len(lead) > 1]
    margin = lowest(several or above)
    ahead_of = all(lead.mean() > margin.high for lead in above if len(lead) == 1)
    return provided(margin, ahead_of)


def _rival(results: Results, group: str, name: str, at: dict[str, Any]) -> pd.Series:
    # The perceptron reads no edge, so its ε is 0; the paper trains it for 100 steps.
    return accuracies(results, group, name, **({"epochs": 100} if name == "mlp" else at))


def above_gap(level: str, results: Results, case: Place) -> Measured | None:
    """Accuracy minus GAP's, in points, at the ε with the smallest difference.

    Each of both has the K that validates best at that ε, as the paper chooses it.
    """
    results, gaps = choose_depth(results), []
    rows = results.runs
    for epsilon in rows.loc[rows["group"] == BUDGETS[level], "epsilon"].unique():
        progap, gap = (
            accuracies(results, BUDGETS[level], name, epsilon=epsilon) for name in ("progap", "gap")
        )
        gaps.append((progap - gap).dropna())
    return lowest([difference for difference in gaps if len(difference)])


def printed_above_gap(results: Results, case: Place) -> Measured | None:
    """Accuracy minus GAP's in the curves of the authors' notebook, in points, at its smallest.

    Both were read off a picture: the tolerance is that of both together.
    """
    figure = results.published("figure2").pivot_table(
        "accuracy_percent", ["level", "dataset", "epsilon"], "method"
    )
    return exact(float((figure["progap"] - figure["gap"]).min()), 2 * READ_OFF)


def by_depth(level: str, one: int, base: int, results: Results, case: Place) -> pd.Series:
    """Return the accuracy with ``one`` sums minus that with another number, in points by seed."""
    at = partial(accuracies, results, HOPS[level], "progap", epsilon=case.said["epsilon"])
    return at(hops=one) - at(hops=base)


def deeper(level: str, one: int, base: int, results: Results, case: Place) -> Measured | None:
    """Interval of ``by_depth``."""
    return interval(by_depth(level, one, base, results, case))


def diminishing(results: Results, case: Place) -> Measured | None:
    """Gain from the second sum minus the gain from the fifth."""
    second, fifth = (by_depth("edge", hops, hops - 1, results, case) for hops in (2, 5))
    return interval(second - fifth)


def ahead(level: str, results: Results, case: Place) -> Measured | None:
    """Training minus validation accuracy after the last epoch, in points, over the runs."""
    rows = results.at(group=EPOCHS[level])
    sides = (results.artifacts(rows, f"{side}_accuracy") for side in ("training", "validation"))
    gaps = [100 * (t[-1] - v[-1]) for t, v in zip(*sides, strict=True) if t is not None]
    return interval(gaps)


def statement_of(
    level: str, method: str, results: Results, case: Place
) -> Mapping[str, Any] | None:
    """Return the privacy statement of runs at the claim's ε, if there are any."""
    at = {"group": GROUPS[level], "method": method, "epsilon": case.said["epsilon"]}
    names = results.scores("statement_id", **at)
    return None if names.empty else results.statement(names.iloc[0])


def true_epsilon(level: str, method: str, results: Results, case: Place) -> Measured | None:
    """Interval from the attack's lower bound to the proved ε, for runs with this claim."""
    statement = statement_of(level, method, results, case)
    return statement and shown_to_proved(statement)


def proved_epsilon(level: str, results: Results, case: Place) -> Measured | None:
    """ε proved of ProGAP's runs at the claim's ε: of a friendship; of a person with the list of
    friends they keep, replaced."""
    statement = statement_of(level, "progap", results, case)
    return statement and exact(statement["epsilon_proved"])


def price_directed_edge(results: Results, case: Place) -> Measured | None:
    """ε of a directed edge, which moves one row of each of ProGAP's sums by 1."""
    statement = statement_of("edge", "progap", results, case)
    if statement is None:
        return None
    (sums,) = statement["mechanisms"]
    noise = sums["noise_multiplier"] * sums["sensitivity"]
    return exact(gdp_epsilon(math.sqrt(sums["count"]) / noise, statement["delta"]))


def price_all_edges(results: Results, case: Place) -> Measured | None:
    """ε of a node with all its edges: nothing is proved of ProGAP's lists, nor shown."""
    statement = statement_of("node", "progap", results, case)
    return statement and Measured(math.inf, 0.0, math.inf)


def price_removal(results: Results, case: Place) -> Measured | None:
    """ε proved of a person with the list of friends they keep, who is removed."""
    statement = statement_of("node", "progap", results, case)
    if statement is None:
        return None
    sums, steps = statement["mechanisms"]
    rate = float(steps["sampling"].removeprefix("poisson(").removesuffix(")"))
    noise, moved = sums["noise_multiplier"] * sums["sensitivity"], sums["sensitivity"] / 2
    return exact(
        _price_removal(sums["count"], noise, moved, steps["count"], steps["noise_multiplier"], rate,
                 statement["delta"])
    )  # fmt: skip


@lru_cache(maxsize=32)
def _price_removal(
    hops: int, noise: float, moved: float, steps: int, multiplier: float, rate: float, delta: float
) -> float | None:
    words: dict[str, Any] = {
        "unit": "node_out_list", "relation": "zero_out",
        "reason": "the one list of a node that is removed",
    }  # fmt: skip
    events = (
        GaussianQuery(count=hops, sensitivity=moved, noise_std=noise, **words),
        PoissonSums(count=steps, noise_multiplier=multiplier, clip_norm=1.0, rate=rate, **words),
    )
    priced = [price(event, event.unit, event.relation, delta) for event in events]
    return compose_groups([(priced, 1)], delta)


def compared_runs(results: Results, case: Place) -> Measured | None:
    """ε of an undirected edge for all runs of a choice: 20 configurations, 10 repetitions.

    Each has five sums with the noise that gives ε = 1 for a directed edge, at δ = 1e-7.
    """
    sums = GaussianQuery(
        unit="edge_undirected", relation="add_remove", reason="a friendship moves two rows by 1",
        count=5, sensitivity=math.sqrt(2), noise_std=math.sqrt(5) / gdp_mu(1.0, 1e-7),
    )  # fmt: skip
    priced = price(sums, sums.unit, sums.relation, 1e-7)
    return exact(compose_groups([([priced], 20 * 10)], 1e-7))


def both_directions(results: Results, case: Place) -> Measured | None:
    """Log of P(edge kept in both directions) divided by P(two non-edges both become edges).

    EdgeRand at ε = 1, with independent draws for both directions; the same at every density.
    """
    true_rate, false_rate = keeping(SHARE * case.said["epsilon"], density=0.3)
    return exact(2 * math.log(true_rate / false_rate))


def features_without_noise(results: Results, case: Place) -> Measured | None:
    """Printed accuracy of the perceptron minus the same under DP, in points, at its smallest."""
    printed = published_rows(results.study)
    table = printed[printed["group"] == "table2"].set_index("dataset")
    scores = dict(iter(table.groupby("method")["accuracy_percent"]))
    return exact(float((scores["mlp"] - scores["dp_mlp"]).min()))


def longer_training(results: Results, case: Place) -> Measured | None:
    """Accuracy of the perceptron after 500 steps minus that after 100, in points."""
    long, short = (accuracies(results, "friendships", "mlp", epochs=n) for n in (500, 100))
    return interval(long - short)


def missing_years(results: Results, case: Place) -> Measured | None:
    """Percentage of training nodes in a class of missing years, as the authors' code reads them."""
    counts = [
        entry["train_class_counts"]
        for entry in results.statistics
        if entry["name"] == case.dataset and entry["view"] == "released"
    ]
    return exact(100 * counts[0][MISSING_YEAR] / sum(counts[0].values()) if counts else None)


def rows_with_a_node(results: Results, case: Place) -> Measured | None:
    """Number of training rows that read the centre of a star of four nodes, including its own."""
    star = np.zeros((4, 4), np.float32)
    star[0, 1:] = star[1:, 0] = 1
    lists = owned_lists(scipy.sparse.csr_matrix(star), 1, Streams.of({"seed": 0}))
    return exact(float(lists[:, [0]].sum() + 1))


def moved_by_a_hub(results: Results, case: Place) -> Measured | None:
    """Change of the sum that DP-GNN's code clips, by one node that is on the lists of 299
    others, with D = 1 and clip norm 1, whose features change sign."""
    from private_graphs.methods.noisy_sums import started
    from private_graphs.studies.progap.methods.dp_gnn import StarNet, row_sums
    from private_graphs.training.stacks import SparseRows

    n, streams = 300, Streams.of({"seed": 0})
    lists = np.zeros((n, n), np.float32)
    lists[1:, 0] = 1
    features = np.random.default_rng(0).standard_normal((n, 4))
    network = StarNet(4, 2, 1, [scipy.sparse.csr_matrix(lists)], "layer")
    stack, sums = started(network, [streams]), []
    for hub in (4.0, -4.0):
        features[0] = hub
        rows = SparseRows(scipy.sparse.csr_matrix(features))
        clipped = row_sums(rows, np.arange(1, n), np.arange(1, n) % 2, network, n - 1)
        sums.append(clipped(stack, [np.arange(n - 1)])[0])
    return exact(float((sums[1] - sums[0]).norm()))


def kept_by_repeating(results: Results, case: Place) -> Measured | None:
    """Ratio of the entries after two bounds to those after one: random graph, 400 nodes, D = 10."""
    draw, streams = np.random.default_rng(0), Streams.of({"seed": 0})
    upper = np.triu(draw.random((400, 400)) < draw.random(400) ** 2, 1)
    once = owned_lists(scipy.sparse.csr_matrix((upper | upper.T).astype(np.float32)), 10, streams)
    twice = owned_lists(once.T.tocsr(), 10, streams)
    return exact(twice.nnz / once.nnz)


CLAIMS = (
    *(
        Claim(f"{level}_gain_fb100", partial(above_rivals, level, ("gap",)), within=POINTS,
              exhibit="table2", because=NOT_HERE)
        for level in ("edge", "node")
    ),
    *(
        Claim(f"{level}_first", partial(above_rivals, level, RIVALS[level]), least=0,
              exhibit="table2")
        for level in ("edge", "node")
    ),
    Claim("plain_above_gap", partial(above_rivals, "none", ("gap",)), least=0, exhibit="table2",
          protocols=("released",)),
    Claim("plain_like_sage", partial(above_rivals, "none", ("edge_rand",)), -POINTS,
          exhibit="table2", protocols=("released",), because=DEPTH_FIXED),
    *(
        Claim(f"{level}_all_budgets", partial(above_gap, level), least=0, exhibit="figure2")
        for level in ("edge", "node")
    ),
    *(
        Claim(f"{level}_{name}", partial(deeper, level, *hops), least=0, exhibit="figure4")
        for level in ("edge", "node")
        for name, hops in {"deeper": (5, 1), "shallower": (1, 5)}.items()
    ),
    *(
        Claim(f"{level}_generalises", partial(ahead, level), most=POINTS, exhibit="figure3",
              because=NOT_RECORDED)
        for level in ("edge", "node")
    ),
    Claim("all_budgets_printed", printed_above_gap, least=0, protocols=("",), per_graph=False,
          because=IN_PRINT),
    Claim("diminishing", diminishing, least=0, exhibit="figure4"),
    Claim("edge_epsilon", price_directed_edge, most=1 + 1e-9, exhibit="table2", about="prices"),
    Claim("node_epsilon", price_all_edges, most=8, exhibit="table2", because=OWNED, about="prices"),
    Claim("friendship", partial(proved_epsilon, "edge"), most=1, exhibit="table2", because=DIRECTED,
          protocols=("released", "paper"), at={"epsilon": 1},
          question="Is ε = 1 that of a friendship too, which is added or removed (ProGAP)?"),
    Claim("list_removed", price_removal, most=8, exhibit="table2", protocols=("released",),
          at={"epsilon": 8},
          question="Is ε = 8 that of a person with the list of friends they keep, who is removed "
          "(ProGAP)?"),
    Claim("list_replaced", partial(proved_epsilon, "node"), most=8, exhibit="table2",
          protocols=("released",), at={"epsilon": 8},
          question="And of a person who is replaced?"),
    Claim("edge_rand_friendship", partial(true_epsilon, "edge", "edge_rand"), most=1,
          exhibit="table2", because=TWICE, protocols=("released", "paper"), at={"epsilon": 1},
          question="Is ε = 1 that of a friendship (EdgeRand)?"),
    Claim("compared_runs", compared_runs, most=1, protocols=("",), per_graph=False,
          because=COMPARED,
          question="Is ε = 1 of a friendship that of all runs that a row was chosen from (20 "
          "configurations with 10 repeats)?"),
    Claim("both_directions", both_directions, most=0.9, protocols=("",), per_graph=False,
          because=TWICE, at={"epsilon": 1},
          question="Do the two directions of a friendship together show at most 0.9 (EdgeRand at "
          "ε = 1)?"),
    Claim("features_without_noise", features_without_noise, least=0, protocols=("",),
          per_graph=False, because=NOISE_HELPS,
          question="Is the printed perceptron without DP as good as with it (points above it where "
          "they are fewest)?"),
    Claim("features_alone", longer_training, most=POINTS, exhibit="table2", protocols=("sound",),
          question="Is the perceptron after 100 steps what features alone give (points that longer "
          "training adds)?"),
    Claim("class_year", missing_years, most=0, exhibit="table1", protocols=("released",),
          because=NEGATIVE, at={"dataset": "fb100-part"},
          question="Are the classes of FB-100 years (percent of training nodes whose year is "
          "missing)?"),
    Claim("rows_of_a_node", rows_with_a_node, most=2, protocols=("",), per_graph=False,
          because=LISTED,
          question="Is a node in at most D + 1 training rows (DP-GNN at D = 1)?"),
    Claim("clipped_rows", moved_by_a_hub, most=4, protocols=("",), per_graph=False,
          because=OPACUS,
          question="Does a node move a clipped sum by at most 4 (DP-GNN at D = 1, clip norm 1)?"),
    Claim("lists_anew", kept_by_repeating, least=1, protocols=("",), per_graph=False,
          because=AGAIN,
          question="Does every repetition bound the same graph (entries of the second over those "
          "of the first)?"),
)  # fmt: skip
"""Rules by ``id`` of ``studies/progap/published/text_claims.csv``."""
