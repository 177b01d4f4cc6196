"""Link and word inference: what is there is seen, planted leaks are found, proofs hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit

from private_graphs.attacks import links, words
from private_graphs.attacks.decoding import decoded
from private_graphs.attacks.leaks import Guarantee, Guesses, run_job
from private_graphs.attacks.membership import rates
from private_graphs.core.errors import UserError
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.graphs.normalise import gcn_propagation
from private_graphs.privacy.accountants import gdp_epsilon
from private_graphs.privacy.queries import GaussianQuery
from private_graphs.report.link_leaks import link_blocks
from private_graphs.running.jobs import Job, LeakAttack


def graph(n: int = 90, degree: int = 3, seed: int = 0) -> GraphDataset:
    """Return a graph of three classes with words of their own, each document with a rare word."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    common = generator.random((n, 30)) < np.where(np.arange(30) // 10 == labels[:, None], 0.5, 0.1)
    rare = np.eye(n, dtype=bool)
    features = sp.csr_matrix(np.hstack([common, rare]).astype(np.float32))
    ends = np.sort(generator.integers(0, n, (2, degree * n // 2)), axis=0)
    edges = np.unique(ends[:, ends[0] < ends[1]], axis=1)
    sides = np.arange(n) // 3 % 5
    masks = sides < 3, sides == 3, sides == 4
    return GraphDataset.generated("graph", ["a", "b", "c"], features, edges, labels, masks)


def measured(
    attack: str, method: str, scenario: str, dataset: GraphDataset, *, epsilon: float = np.inf,
    models: int = 16, **settings,
) -> dict[tuple[str, str, str, str], float]:  # fmt: skip
    """Run an attack; return its numbers by what is seen, score, measure and whom it is about."""
    job = Job(
        study="s", group="g", name=method, dataset="graph", method=method, scenario=scenario,
        protocol="released" if method == "gcn" else "sound", epsilons=(epsilon,),
        settings=settings, max_edges=dataset.n_edges if scenario in ("edges", "links") else None,
        leaks=LeakAttack(attack=attack, shadows=models),
    )  # fmt: skip
    found = run_job(job, dataset)["measured"]
    return {(e["sees"], e["score"], e["measure"], e["who"]): e["value"] for e in found}


# --- links ---------------------------------------------------------------------------------------


def test_influence_is_that_of_queries_with_changed_features():
    dataset, generator = graph(20), np.random.default_rng(1)
    shapes = (dataset.n_features, 8), (8,), (8, 3), (3,)
    model = links.QueriedGcn(*(generator.standard_normal(shape) for shape in shapes))
    features = dataset.features.to_scipy().astype(np.float64)
    propagation = gcn_propagation(dataset.edge_index, dataset.n_nodes)
    found = model.influence(features, propagation).toarray()
    before = model.logits(features, propagation)
    for node in (0, 7):
        changed = features.toarray()
        changed[node] *= 1 + 1e-4
        moved = (model.logits(changed, propagation) - before) / 1e-4
        assert found[:, node] == pytest.approx(np.linalg.norm(moved, axis=1), rel=1e-5, abs=1e-7)


def test_a_model_that_reads_private_edges_tells_them_and_one_that_reads_none_does_not():
    found = measured("links", "gcn", "nodes", graph(), epochs=30, dropout=0.0)
    everyone, coins = links.ALL_PAIRS, links.COINS
    assert found[links.QUERIES, "influence", "auc", everyone] > 0.98
    assert found[links.QUERIES, "influence", "precision", everyone] > 0.5
    assert found[links.QUERIES, "influence", "auc", coins] > 0.9
    assert 0.4 < found[links.TEXTS, "posteriors", "auc", everyone] < 0.6, "no homophily here"
    assert 0.4 < found[links.PARAMETERS, "posteriors", "auc", coins] < 0.6


def test_pairs_count_equal_scores_half_and_sampled_pairs_for_many():
    linked, others = np.array([[0, 1], [1, 2]]), np.array([[0, 0], [2, 3]])
    values = {(0, 1): 3.0, (1, 2): 1.0, (0, 2): 1.0, (0, 3): 0.0}

    def score(pairs: np.ndarray) -> np.ndarray:
        return np.array([values[tuple(pair)] for pair in pairs.T])

    auc, precision = (e.value for e in links.Pairs(linked, others).measured("s", "s", score))
    assert (auc, precision) == (0.875, 0.75)
    _, precision = (e.value for e in links.Pairs(linked, others, 9.0).measured("s", "s", score))
    assert precision == pytest.approx(0.55), "one of the ten pairs with equal scores is guessed"


@pytest.mark.parametrize("group", [links.matching, links.stars])
def test_groups_of_edges_share_no_node(group):
    dataset = graph()
    found = group(dataset.edge_index, dataset.n_nodes, np.random.default_rng(0))
    owners = [set(found[(dataset.edge_index == node).any(axis=0)]) - {-1}
              for node in range(dataset.n_nodes)]  # fmt: skip
    assert max(map(len, owners)) == 1
    assert found.max() > 10


def test_who_knows_all_other_edges_sees_what_pure_epsilon_allows_and_no_more():
    found = measured("links", "label_counts", "edges", graph(300, 6), epsilon=1.0, models=6)
    key = (links.RELEASES, "likelihood")
    allowed = found[*key, "allowed_auc", links.COINS]
    assert allowed == pytest.approx(np.e / (1 + np.e), abs=1e-3)
    assert abs(found[*key, "auc", links.COINS] - allowed) < 0.1
    hubs = found[*key, "auc", "all 5 to 9 edges of a node"]
    assert hubs > allowed + 0.05, "d edges are d times epsilon"


def test_counts_without_noise_at_a_stated_epsilon_are_found(monkeypatch):
    from private_graphs.mechanisms import exact

    monkeypatch.setattr(
        exact, "discrete_laplace", lambda generator, steps, shape: np.zeros(shape, np.int64)
    )
    with pytest.raises(UserError, match="breaks its proof"):
        measured("links", "label_counts", "edges", graph(), epsilon=1.0, models=4)


@pytest.mark.parametrize(
    ("method", "scenario"), [("edge_votes", "edges"), ("edge_rand", "links"), ("gap", "links")]
)
def test_releases_are_attacked_by_the_rows_of_both_ends(method, scenario):
    dataset, settings = graph(), {"epochs": 2} if scenario == "links" else {}
    job = Job(
        study="s", group="g", name=method, dataset="graph", method=method, scenario=scenario,
        epsilons=(30.0,), settings=settings, max_edges=dataset.n_edges,
        leaks=LeakAttack(attack="links", shadows=4),
    )  # fmt: skip
    group = links.matching(dataset.edge_index, dataset.n_nodes, np.random.default_rng(0))
    coins, ratios = links.Informed(job, dataset, group).runs(4, links.Context())
    auc, *_ = rates(ratios, coins)["auc"]
    assert auc > {"edge_votes": 0.65, "edge_rand": 0.99, "gap": 0.95}[method]


@pytest.mark.parametrize(
    ("method", "scenario", "epsilon"),
    [("label_counts", "edges", 3.0), ("edge_votes", "edges", 8.0), ("gap", "links", 4.0)],
)
def test_an_attack_is_as_sure_as_it_is_right(method, scenario, epsilon, monkeypatch):
    """Of noisy values in several rounds too, where later ones follow from earlier ones: both runs
    of a likelihood ratio have the same."""
    seen: list[links.SeenReleases] = []

    class Noted(links.SeenReleases):
        def __init__(self, tape=None):
            super().__init__(tape)
            seen.append(self)

    monkeypatch.setattr(links, "SeenReleases", Noted)
    dataset, settings = graph(), {"epochs": 1, "hops": 2} if method == "gap" else {}
    job = Job(
        study="s", group="g", name=method, dataset="graph", method=method, scenario=scenario,
        epsilons=(epsilon,), settings=settings, max_edges=dataset.n_edges,
        leaks=LeakAttack(attack="links", shadows=8),
    )  # fmt: skip
    group = links.matching(dataset.edge_index, dataset.n_nodes, np.random.default_rng(0))
    coins, ratios = links.Informed(job, dataset, group).runs(8, links.Context())
    assert len(np.unique(coins, axis=0)) == len(np.unique(ratios, axis=0)) == 8, "runs differ"
    for first, second in zip(seen[::2], seen[1::2], strict=True):
        both = list(zip(first.kept, second.kept, strict=True))
        assert all(np.array_equal(one.noisy, other.noisy) for one, other in both)
        assert not any(np.array_equal(one.exact, other.exact) for one, other in both)
    belief = expit(ratios)
    spread = np.sqrt((belief * (1 - belief) * ratios**2).sum())
    assert abs(((coins - belief) * ratios).sum()) < 4 * spread


def test_what_all_guesses_show_is_held_against_the_proof_at_their_own_delta():
    query = GaussianQuery(count=1, sensitivity=1.0, unit="edge_undirected", relation="add_remove",
                          reason="test", noise_std=2.0, clipping="row")  # fmt: skip
    guarantee = Guarantee("edge_undirected", "add_remove", 1e-5, (query,), 2.0, None, 0.5)
    coins = np.random.default_rng(0).random((10, 200)) < 0.5
    scores = np.where(np.random.default_rng(1).random(coins.shape) < 0.6, 1, -1) * (2 * coins - 1)
    found = {each.measure: each.value for each in
             links.shown(scores, coins, guarantee, links.RELEASES, "s", "all")}  # fmt: skip
    right = int(((scores > 0) == coins).sum())
    assert found["epsilon_shown_everybody"] == Guesses(2000, 2000, right).epsilon(1e-12) > 0
    assert found["epsilon_shown_tiny_proved"] == pytest.approx(gdp_epsilon(0.5, 1e-12))


# --- words ---------------------------------------------------------------------------------------


def test_rare_words_leave_and_come_back():
    dataset = graph()
    rare = words.RareWords.of(dataset)
    assert set(rare.nodes) == set(np.flatnonzero(dataset.train_mask))
    there = dataset.features.to_scipy()
    gone = rare.read(np.zeros(len(rare.nodes), bool)).features.to_scipy()
    assert (there - gone).nnz == len(rare.nodes)
    assert not (there - rare.read(np.ones(len(rare.nodes), bool)).features.to_scipy()).nnz


def test_words_are_seen_without_dp_and_hardly_at_a_proved_epsilon():
    dataset, who = graph(180), "all"
    seen = measured("words", "gcn", "nodes", dataset, epochs=40, models=12)
    assert seen[words.BOTH, "online", "auc", who] > 0.7
    seen = measured("words", "dp_linear", "text", dataset, models=4)
    assert (words.BOTH, "online", "auc", who) in seen
    key = (words.RELEASES, "decoding")
    exact = measured("words", "class_sums", "text", dataset, models=4)
    assert exact[*key, "auc", who] > 0.6
    noisy = measured("words", "class_sums", "text", dataset, epsilon=1.0, models=64)
    assert abs(noisy[*key, "auc", who] - 0.5) < 0.04
    shown = noisy[*key, "epsilon_shown_tiny", who]
    assert shown <= noisy[*key, "epsilon_shown_tiny_proved", who]


def test_decoding_is_exact_without_noise_and_calibrated_with_it():
    generator = np.random.default_rng(0)
    terms = sp.csr_matrix(generator.standard_normal((40, 60)))
    coins = generator.random((400, 40)) < 0.5
    assert ((decoded(terms, coins @ terms, 0.0) > 0) == coins).all()
    noisy = coins @ terms + 6 * generator.standard_normal((400, 60))
    ratios = decoded(terms, noisy, 6.0)
    sure = ratios > 1
    assert coins[sure].mean() == pytest.approx((1 / (1 + np.exp(-ratios[sure]))).mean(), abs=0.03)


# --- tables --------------------------------------------------------------------------------------


def test_tables_show_texts_beside_models_what_is_allowed_and_hubs():
    names = {"study": "s", "group": "g", "job": "j", "dataset": "cora", "method": "counts"}
    common = names | dict.fromkeys(("epsilon", "epsilon_claimed", "accuracy"), 1)
    common["epsilon_proved"] = 1.201
    of = {"score": "likelihood", "sees": links.RELEASES, "low": None, "high": None}
    rows = pd.DataFrame([
        common | of | {"who": links.ALL_PAIRS, "sees": links.TEXTS, "measure": "auc", "value": 0.8},
        common | of | {"who": links.COINS, "measure": "auc", "value": 0.7, "low": 0.6, "high": 1},
        common | of | {"who": links.COINS, "measure": "allowed_auc", "value": 0.731},
        common | of | {"who": links.COINS, "measure": "epsilon_shown_tiny", "value": 0.757},
        common | of | {"who": "all 5 to 9 edges of a node", "measure": "auc", "value": 0.93},
    ])  # fmt: skip
    pairs, coins, hubs = link_blocks(rows, lambda row: row["method"], str.title)
    cells = [
        {column.show(row) for column in block.columns}
        for block in (pairs, coins, hubs)
        for row in block.frame.to_dict("records")
    ]
    assert "texts" in cells[0]
    assert {"0.700", "0.600 to 1.000", "0.731", "1.21", "> 0.75 (1e-12)"} <= cells[1]
    assert "0.930" in cells[2]
