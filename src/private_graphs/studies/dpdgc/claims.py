"""Claims of DPDGC's Table 2 and abstract, as rules over rows. The paper's text was not read."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from private_graphs.privacy.accountants import gdp_epsilon
from private_graphs.report.claims import (
    Claim,
    Measured,
    Place,
    exact,
    interval,
    lowest,
)
from private_graphs.report.results import Results

GROUPS = {"none": "no_noise", "edge": "edges", "n1": "neighbours", "node": "nodes"}
"""Run groups by level."""
SEEN = 1e3
"""Standard deviations from which a change is seen for certain: δ of any ε up to 400,000 is 1."""
POINTS = 1.0
"""Largest difference of accuracies that count as equal, in percent points."""

THROWN_AWAY = (
    "The scaling of the weights changes a copy that is thrown away: the noise is 1e-8 where one "
    "edge moves the embedding by the weights of a node."
)
UNBOUNDED = (
    "One changed node moves the gradients of all that list it; the noise of a sum is made for the "
    "square root of their number."
)
NOISE_OF_STEPS = (
    "Both pay for DP-SGD on a node's own features and label; the perceptron pays for nothing else."
)
MORE_RELEASES = "It also releases the embedding and the encoder's steps: its steps get more noise."
SCALE = "The noise scale is that of dp-accounting's Rényi accountant; the code's is another."
NOT_RUN = "Not run: PubMed without DP is not recorded; the command of Table 2 makes it."
BELOW = {("none", "cora"): "", ("none", "pubmed"): NOT_RUN}
"""What stands below a claim on accuracy, where it is no noise scale."""
NO_NOISE = "As released the adjacency is read without noise that counts."


def accuracies(results: Results, group: str, method: str, **where: Any) -> pd.Series:
    """Return test accuracy in percent by seed."""
    return 100 * results.scores(study="dpdgc", group=group, method=method, **where)


def above(level: str, rival: str, results: Results, case: Place) -> Measured | None:
    """Accuracy of DPDGC minus a rival's, in points over the runs.

    A rival that reads no edge has one run: whether DPDGC is above it is decided by DPDGC's runs.
    """
    scores, rivals = (accuracies(results, GROUPS[level], name) for name in ("dpdgc", rival))
    if rivals.empty or scores.empty:
        return None
    return interval(scores - (rivals.iloc[0] if len(rivals) == 1 else rivals))


def below_perceptron(results: Results, case: Place) -> Measured | None:
    """Accuracy of the perceptron by DP-SGD minus DPDGC's, in points."""
    scores, rivals = (accuracies(results, GROUPS["node"], name) for name in ("dpdgc", "mlp_steps"))
    return interval(rivals - scores)


def more_neighbours(results: Results, case: Place) -> Measured | None:
    """Smallest of the differences N_1 - N_5, N_5 - N_25, N_25 - node, in points."""
    steps = [accuracies(results, GROUPS["n1"], "dpdgc", neighbours=k) for k in (1, 5, 25)]
    steps.append(accuracies(results, GROUPS["node"], "dpdgc"))
    return lowest([one - next_one for one, next_one in pairwise(steps)])


def accuracy(level: str, results: Results, case: Place) -> Measured | None:
    """Accuracy of DPDGC in percent."""
    return interval(accuracies(results, GROUPS[level], "dpdgc"))


def epsilon_of(level: str, results: Results, case: Place) -> Measured | None:
    """Interval from the ε of the embedding alone, for one friendship, to the proved ε.

    Who has the weights sees a friendship move the embedding by ``edge_shift`` standard deviations,
    which is exactly Gaussian.
    """
    at = {"group": GROUPS[level], "method": "dpdgc", "epsilon": case.said["epsilon"]}
    rows = results.at(**at)
    if rows.empty:
        return None
    statement, shift = results.statement(rows["statement_id"].iloc[0]), rows["edge_shift"].min()
    measured = gdp_epsilon(float(shift), statement["delta"]) if shift < SEEN else math.inf
    proved = statement["epsilon_proved"]
    proved = math.inf if proved is None else proved
    return Measured(measured if math.isinf(proved) else proved, measured, proved)


def hub_shift(results: Results, case: Place) -> Measured | None:
    """Change of the embedding by one edge of a hub with 10,000 neighbours over that of a hub with
    one, at weights of norm 1."""
    shifts = []
    for degree in (1, 10_000):
        star = scipy.sparse.lil_array((degree + 1, degree + 1))
        star[0, 1:] = star[1:, 0] = 1
        weights = np.eye(2)[np.arange(degree + 1) % 2]
        before = star.tocsr() @ weights
        star[0, 1] = star[1, 0] = 0
        shifts.append(np.linalg.norm(before - star.tocsr() @ weights))
    return exact(float(shifts[1] / shifts[0]))


CLAIMS = (
    *(
        Claim(f"above_{rival}_edge_{graph}", partial(above, "edge", rival), least=0,
              exhibit="table2", because=NO_NOISE)
        for rival in ("gap", "mlp")
        for graph in ("cora", "pubmed")
    ),
    Claim("k_matters", more_neighbours, least=0, exhibit="table2", because=NO_NOISE),
    Claim("perceptron_best", below_perceptron, least=0, exhibit="table2", because=NOISE_OF_STEPS),
    *(
        Claim(f"accuracy_{level}_{graph}", partial(accuracy, level), within=POINTS,
              exhibit="table2", protocols=("released",), because=BELOW.get((level, graph), SCALE))
        for level in ("none", "edge", "node")
        for graph in ("cora", "pubmed")
    ),
    Claim("noise_free_of_degree", hub_shift, most=1 + 1e-9, protocols=("",), per_graph=False),
    Claim("edge_epsilon", partial(epsilon_of, "edge"), most=1, exhibit="edges_read",
          because=THROWN_AWAY, about="prices"),
    *(
        Claim(f"{name}_epsilon", partial(epsilon_of, level), most=16, exhibit="table2",
              because=f"{THROWN_AWAY} {UNBOUNDED}", about="prices")
        for name, level in (("nk", "n1"), ("node", "node"))
    ),
    Claim("same_classifier", partial(above, "edge", "dpdgc_alone"), least=0, exhibit="table2",
          because=NO_NOISE,
          question="Is it at edge level above its own classifier without the adjacency (points)?"),
    Claim("same_classifier_node", partial(above, "node", "dpdgc_alone_steps"), least=0,
          exhibit="table2", because=MORE_RELEASES,
          question="Is it at node level above its own classifier without the adjacency (points)?"),
)  # fmt: skip
"""Rules by ``id`` of ``studies/dpdgc/published/text_claims.csv``."""
