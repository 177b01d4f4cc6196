"""Claims of the text of LREC 2022, as rules over rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from private_graphs.methods.gcn_protocols import PRINTED_EPOCHS, PROTOCOLS
from private_graphs.report.claims import (
    Claim,
    Measured,
    Place,
    choice,
    correlation,
    exact,
    interval,
    learned,
    lowest,
    provided,
    shown_to_proved,
)
from private_graphs.report.results import Results
from private_graphs.report.words import missing
from private_graphs.studies.lrec2022.confusion import confusion
from private_graphs.studies.lrec2022.figures import hard_shares, wrong_nodes
from private_graphs.studies.lrec2022.tables import noise_row

POINTS = 0.02
"""Largest difference of scores that count as equal: two points."""
SHARE = 5
"""Largest difference of equal shares, in percent of some hundred nodes."""
Rule = Callable[[Results, Place], Measured | None]


def runs_at(results: Results, groups: str, **where: Any) -> pd.DataFrame:
    """Return the selected runs by seed, from the first of ``groups`` that has some.

    A group belongs to this study, or is named with its own: ``preprint2021.untuned``.
    """
    rows = results.runs[_of_first_group(results, groups, **where)]
    return rows.set_index("seed", drop=False).sort_index()


def scores(results: Results, groups: str, **where: Any) -> pd.Series:
    """Return test micro-F1 of ``runs_at`` by seed, without a copy of all columns."""
    mask = _of_first_group(results, groups, **where)
    seeds, values = (results.runs[name][mask] for name in ("seed", "test_micro_f1"))
    return values.set_axis(seeds).sort_index()


def _of_first_group(results: Results, groups: str, **where: Any) -> np.ndarray:
    """Return which rows are selected runs of the first of ``groups`` that has some."""
    masks = [_of_group(results, group, **where) for group in groups.split(",")]
    return next(filter(np.any, masks), masks[-1])


def _of_group(results: Results, group: str, **where: Any) -> np.ndarray:
    """Return which rows are selected runs of the GCN in a run group."""
    study, _, name = group.rpartition(".")
    at = {"study": study or "lrec2022", "group": name, "method": "gcn", "splits": 1}
    selected = results.runs["selected"].fillna(True).astype(bool).to_numpy()
    return selected & results.mask(**at | {"train_fraction": 1} | where)


def printed_point(groups: str, **where: Any) -> Rule:
    """Return the rule of a score at the claim's point, over the runs of all ``groups``."""

    def measure(results: Results, case: Place) -> Measured | None:
        names = ("optimizer", "train_fraction", "splits", "epsilon")
        point = {name: case.said[name] for name in names if not missing(case.said[name])}
        # Each group has independent draws, so that runs of one setting in several groups add up.
        pooled = [_of_group(results, name, **point, **where) for name in groups.split(",")]
        return interval(results.runs["test_micro_f1"][np.logical_or.reduce(pooled)])

    return measure


def gain(groups: str, this: dict[str, Any], base: dict[str, Any], optimizer: str = "sgd") -> Rule:
    """Return the rule of an optimizer's difference of scores by seed: ``this`` minus ``base``."""

    def measure(results: Results, case: Place) -> Measured | None:
        one, two = (
            scores(results, groups, **{"optimizer": optimizer, **at}) for at in (this, base)
        )
        return interval(one - two)

    return measure


def change(groups: str, this: dict[str, Any], base: dict[str, Any], optimizer: str = "sgd") -> Rule:
    """Return the rule of ``gain`` for a claim of no change, or little.

    Such a claim is true of a model that learns nothing: it is undecided unless one of the two
    scores is above the majority class.
    """

    def measure(results: Results, case: Place) -> Measured | None:
        runs = (runs_at(results, groups, optimizer=optimizer, **at) for at in (this, base))
        return provided(gain(groups, this, base, optimizer)(results, case), learned(*runs))

    return measure


def printed_above_sgd(results: Results, case: Place) -> Measured | None:
    """Printed score of private Adam minus private SGD in Table 1, at its smallest."""
    printed = results.published("table1").query("epsilon < inf")
    table = printed.pivot_table("test_micro_f1", ["dataset", "setting", "epsilon"], "optimizer")
    return exact(float((table["adam"] - table["sgd"]).min()))


def hard(group: str, results: Results, case: Place) -> Measured | None:
    """Percentage of the hard cases that are still wrong; under DP over all ε."""
    shares = hard_shares(results, group, case.said["train_fraction"])
    return interval(shares.groupby("seed")["kept"].mean())


def confused(true: int, predicted: int, results: Results, case: Place) -> Measured | None:
    """Percentage of a class that DP-SGD at ε = 2 predicts as another one."""
    runs = runs_at(results, "table1", optimizer="sgd", epsilon=2)
    if runs.empty:
        return None
    classes, labels = results.predictions(runs)
    return interval(100 * confusion(classes, labels, labels.max() + 1)[:, true, predicted])


def size(name: str, kind: str, results: Results, case: Place) -> Measured | None:
    """Size of a dataset with one kind of features, as loaded."""
    matches = [info for info in results.statistics
             if info["name"] == case.dataset and kind in ("", info["features_kind"])]  # fmt: skip
    return exact(matches[0][name]) if matches else None


def best_rate(results: Results, case: Place) -> Measured | None:
    """Learning rate of DP-Adam that validation chooses, and the range of single seeds' choices."""
    rows = tried_rates(results, 1)
    if rows.empty:
        return None
    chosen = rows[rows["selected"].astype(bool)]
    rate = choice(float(chosen["learning_rate"].iloc[0]), _rates(rows).values())
    return provided(rate, learned(chosen))


def tried_rates(results: Results, splits: int) -> pd.DataFrame:
    """Return runs of DP-Adam at ε = 2 on all nodes: a row per seed and learning rate."""
    rows = results.runs.query(
        "group in ('table1', 'selection') and optimizer == 'adam' and splits == @splits "
        "and epsilon == 2 and train_fraction == 1"
    )
    return rows[rows["group"] == rows["group"].max()] if len(rows) else rows  # table1 if both


def _rates(rows: pd.DataFrame) -> dict[int, float]:
    """Return the best learning rate on the validation nodes, by seed."""
    best = rows.loc[rows.groupby("seed")["validation_micro_f1"].idxmax()]
    return dict(zip(best["seed"], best["learning_rate"].astype(float), strict=True))


def larger_rates(results: Results, case: Place) -> Measured | None:
    """Learning rate of DP-Adam without splits divided by that with ten: as chosen, and by seed."""
    one, ten = tried_rates(results, 1), tried_rates(results, 10)
    if one.empty or ten.empty:
        return None
    chosen = [rows[rows["selected"].astype(bool)] for rows in (one, ten)]
    rates = [float(rows["learning_rate"].iloc[0]) for rows in chosen]
    by_seed = [_rates(rows) for rows in (one, ten)]
    ratios = [by_seed[0][seed] / by_seed[1][seed] for seed in by_seed[0] if seed in by_seed[1]]
    return provided(choice(rates[0] / rates[1], ratios), all(map(learned, chosen)))


def richer(results: Results, case: Place) -> Measured | None:
    """Loss by DP at ε = 2 with a bag of words, minus the loss with BERT."""
    at = partial(scores, results, "table2", optimizer="sgd")
    bow, bert = (
        at(features=kind, epsilon=math.inf) - at(features=kind, epsilon=2)
        for kind in ("bow", "bert")
    )
    return interval(bow - bert)


def plain_words_best(results: Results, case: Place) -> Measured | None:
    """Score of a bag of words without DP minus that of other features, at its smallest."""
    at = partial(scores, results, "table2", optimizer="sgd", epsilon=math.inf)
    return lowest([at(features="bow") - at(features=kind) for kind in ("fasttext", "bert")])


def statement(results: Results, **where: Any) -> dict[str, Any] | None:
    """Return the statement of Table 1's runs at a place, if there are any."""
    rows = runs_at(results, "table1", **where)
    return None if rows.empty else dict(results.statement(rows["statement_id"].iloc[0]))


def printed_bound(results: Results, case: Place) -> Measured | None:
    """Ratio of e^ε at the printed ε: 2 on the full graph, 1 with ten splits."""
    return exact(math.exp(2 - 1))


def split_bound(results: Results, case: Place) -> Measured | None:
    """Ratio of e^ε proved for the claim 2 on the full graph to that for the claim 1 with ten
    splits: how much larger a change of probabilities the first bound allows."""
    one = statement(results, optimizer="sgd", epsilon=2, splits=1)
    ten = statement(results, optimizer="sgd", epsilon=1, splits=10)
    return one and ten and exact(math.exp(one["epsilon_proved"] - ten["epsilon_proved"]))


def true_epsilon(results: Results, case: Place) -> Measured | None:
    """Interval from the attack's lower bound to the proved ε, for DP-SGD runs with this claim."""
    document = statement(
        results, optimizer="sgd", epsilon=case.said["epsilon"], splits=case.said["splits"]
    )
    return document and shown_to_proved(document)


def reached(results: Results, case: Place) -> Measured | None:
    """ε of the noise for ε = 1 on the full graph: by the formula, or as proved."""
    protocol = PROTOCOLS[case.protocol]
    row = noise_row(1, "sgd", PRINTED_EPOCHS["sgd"], protocol, results.study.delta)
    formula = protocol.calibration == "published"
    return exact(row["epsilon_formula" if formula else "epsilon_proved"])


def alike(results: Results, case: Place) -> Measured | None:
    """Correlation over test nodes of errors under DP (ε = 2) and errors with 10 % of the nodes."""
    private = runs_at(results, "B", optimizer="sgd", epsilon=2)
    little = runs_at(results, "A", optimizer="sgd", train_fraction=0.1)
    seeds = private.index.intersection(little.index)
    one, two = (wrong_nodes(results, rows.loc[seeds]) for rows in (private, little))
    pairs = [np.corrcoef(*pair)[0, 1] for pair in zip(one, two, strict=True)]
    return provided(correlation(pairs, one.shape[1]), learned(private)) if pairs else None


def price_of_rates(results: Results, case: Place) -> Measured | None:
    """ε of all runs of six learning rates divided by that of one rate with as many seeds."""
    six, one = (statement(results, optimizer=name, epsilon=2) for name in ("adam", "sgd"))
    return six and one and exact(six["epsilon_all_runs"] / one["epsilon_all_runs"])


def kept_score(results: Results, case: Place) -> Measured | None:
    """Score of private Adam with ten splits at this ε, divided by that of Adam without DP."""
    private = scores(results, "table1", optimizer="adam", splits=10, epsilon=case.said["epsilon"])
    plain = scores(results, "table1", optimizer="adam", epsilon=math.inf)
    return interval(private / plain)


def mnist_scores(results: Results, epsilon: float, branch: str | None) -> pd.Series:
    """Return test micro-F1 of the row of Table 4 with this ε, by seed."""
    at = {"study": "lrec2022", "group": "table4", "epsilon": epsilon, "noise_on": branch}
    return results.scores("test_micro_f1", **at)


def mnist_point(branch: str | None, results: Results, case: Place) -> Measured | None:
    """Score of a row of Table 4."""
    return interval(mnist_scores(results, case.said["epsilon"], branch))


def mnist_fall(
    branch: str | None, epsilons: tuple[float, ...], results: Results, case: Place
) -> Measured | None:
    """Smallest fall of the score, by seed, from a row of Table 4 to the next of ``epsilons``."""
    rows = pd.concat([mnist_scores(results, epsilon, branch) for epsilon in epsilons], axis=1)
    falls = -rows.dropna().diff(axis=1).iloc[:, 1:]
    return interval(falls.min(axis=1))


WITHOUT_DP = "table1,A,C,C_without_dp"
"""Run groups with SGD without DP: several contain the full graph, with independent draws."""
PROVING = ("paper", "sound")
"""Protocols with a finite proved ε."""
MNIST_ROWS = {
    "600_4": (POINTS, {"epsilon": 1.26, "value": 0.9}),
    "6000_4": (POINTS, {"epsilon": 4.24, "value": 0.84}),
    "60000_4": (0.04, {"epsilon": 15.13, "value": 0.45}),
    "60000_50": (0.15, {"epsilon": 0.98, "value": 0.39}),
    "60000_100": (POINTS, {"epsilon": 0.5, "value": 0.1}),
}
"""Rows of Table 4 by minibatch size and noise, with the largest difference of equal scores: two
points, or the printed standard deviation if larger."""
MNIST_FALLS = {"larger_lots": (1.26, 4.24, 15.13), "more_noise": (15.13, 0.98, 0.5)}
"""Printed ε of rows of Table 4 of which each scores lower than the one before."""
QUARTER = {"epsilon": 2, "train_fraction": 0.25}
NOT_TAKEN = (
    "The flag of the published file selects the other branch, and no ε holds for either "
    "([§12](studies/lrec2022.md#12-table-4-two-branches-of-the-code))."
)
UNCLIPPED = (
    "Nothing bounds an unclipped gradient: it grows with the weights that noise makes grow, and "
    "outruns the noise at every ε ([§9](studies/lrec2022.md#9-why-the-unclipped-gradient-won))."
)
WRONG_ANYWAY = (
    "A run that is wrong nearly everywhere is wrong on hard cases too: beside them the error on "
    "all test nodes is as high ([Figure 6](../results/site/lrec2022/figure6.html))."
)
VANISHES = (
    "The formula is for add/remove neighbouring, in the paper a neighbour is replaced "
    "([§3](studies/lrec2022.md#3-replace-neighbouring-priced-as-addremove)); the released code "
    "clips nothing ([§1](studies/lrec2022.md#1-nothing-is-clipped))."
)
LEARNS_NOTHING = (
    "A model that learns nothing errs anywhere: where DP-SGD does not score above the majority "
    "class ([Table 1](../results/site/lrec2022/table1.html)) nothing is decided."
)
SHUFFLED = (
    "The formula takes shuffled visits for Poisson samples "
    "([§4](studies/lrec2022.md#4-shuffling-is-not-poisson-sampling))."
)
FACTOR = (
    "More is proved of ten splits than of the full graph: the formula takes shuffled visits for "
    "Poisson samples ([§4](studies/lrec2022.md#4-shuffling-is-not-poisson-sampling))."
)
IN_PRINT = "The printed scores of Pokec on the full graph contradict it (Table 1)."
NOT_HERE = (
    "Not run: the files of Pokec and Reddit have not been here ([the data](data.md)); the command "
    "makes these runs."
)
CANCELLING = (
    "Numerical cancellation in the authors’ accountant (float64) "
    "([§5](studies/lrec2022.md#5-numerical-cancellation-in-the-accountant))."
)
ADDS_UP = (
    "Every run that a choice looks at is a release "
    "([§8](studies/lrec2022.md#8-seeds-and-learning-rates-add-up))."
)

CLAIMS = (
    *(
        Claim(name, printed_point(WITHOUT_DP), within=POINTS, exhibit="figure1")
        for name in ("citeseer_tenth", "citeseer_whole", "pubmed_tenth", "pubmed_whole",
                     "cora_saturates")
    ),
    Claim("reddit_saturates", printed_point(WITHOUT_DP), within=POINTS, exhibit="figure1",
          because=NOT_HERE),
    Claim("cora_flat", change("A", {}, {"train_fraction": 0.5}), most=POINTS, exhibit="figure1"),
    *(
        Claim(name, printed_point("table2", features="bert"), within=POINTS, exhibit="table2",
              because=NOT_HERE)
        for name in ("pokec_sgd", "pokec_adam")
    ),
    *(
        Claim(name, printed_point(WITHOUT_DP), within=POINTS, exhibit="figure3_without_dp")
        for name in ("pubmed_no_split", "pubmed_split")
    ),
    Claim("splits_plain", gain("C,C_without_dp,table1", {"epsilon": math.inf, "splits": 100},
                               {"epsilon": math.inf}), least=0, exhibit="figure3"),
    Claim("bound_factor", printed_bound, within=0.05, protocols=("",), per_graph=False),
    Claim("proved_factor", split_bound, least=1, exhibit="table1", protocols=("paper",),
          because=FACTOR,
          question="Does splitting improve what is proved (e^ε of 2 on the full graph over that of "
          "1 with ten splits)?"),
    *(
        Claim(name, partial(hard, "A"), within=SHARE, exhibit="figure5")
        for name in ("hard_most_data", "hard_little_data")
    ),
    Claim("hard_under_dp", partial(hard, "B"), least=70, most=70 + SHARE, exhibit="figure6",
          because=WRONG_ANYWAY),
    *(
        Claim(name, partial(confused, *pair), within=SHARE, exhibit="confusion",
              because=NOT_HERE)
        for name, pair in {"reddit_10_39": (10, 39), "reddit_18_9": (18, 9),
                           "reddit_21_16": (21, 16)}.items()
    ),
    *(
        Claim(name, partial(size, *about), within=0, exhibit="table5", protocols=("",),
              because=NOT_HERE)
        for name, about in {
            "pokec_nodes": ("nodes", ""), "pokec_edges": ("edge_entries", ""),
            "pokec_bow": ("features", "bow"), "fasttext_size": ("features", "fasttext"),
            "bert_size": ("features", "bert"),
        }.items()
    ),
    Claim("randomised_response", lambda results, case: exact(math.log(0.75 / 0.25)),
          within=5e-5, protocols=("",), per_graph=False),
    Claim("sgd_robust", change("B", {"epsilon": 137}, {"epsilon": 2}), -POINTS, POINTS,
          exhibit="figure2", because=UNCLIPPED),
    Claim("adam_rates", best_rate, least=10, exhibit="table1"),
    Claim("larger_rates", larger_rates, least=1 + 1e-9, exhibit="table1"),
    *(
        Claim(f"adam_above_sgd{name}",
              gain("table1", {"optimizer": "adam", "epsilon": 2, **at}, {"epsilon": 2, **at}),
              least=0, exhibit="table1")
        for name, at in {"": {}, "_splits": {"splits": 10}}.items()
    ),
    Claim("adam_above_sgd_printed", printed_above_sgd, least=0, protocols=("",), per_graph=False,
          because=IN_PRINT,
          question="Is DP-Adam above DP-SGD in every printed row under DP (the smallest "
          "difference)?"),
    Claim("richer_features", richer, least=0, exhibit="table2", because=NOT_HERE),
    Claim("sbert_lower", gain("table2,sentence_bert", {"features": "bert", "epsilon": math.inf},
                              {"features": "sbert", "epsilon": math.inf}), least=0,
          exhibit="table2", because=NOT_HERE),
    Claim("words_best", plain_words_best, least=0, exhibit="table2", because=NOT_HERE),
    Claim("more_data_sgd", gain("B", {"epsilon": 2}, QUARTER), least=0, exhibit="figure2"),
    Claim("more_data_adam", change("B", {"epsilon": 2}, QUARTER, "adam"), most=POINTS,
          exhibit="figure2"),
    Claim("splits_score", gain("table1", {"epsilon": 2, "splits": 10}, {"epsilon": 2}), least=0,
          exhibit="table1"),
    Claim("splits_score_100", gain("table1,C", {"epsilon": 2, "splits": 100}, {"epsilon": 2}),
          least=0, exhibit="figure4"),
    Claim("full_epsilon", true_epsilon, most=2, exhibit="table1", because=VANISHES,
          about="prices"),
    Claim("splits_epsilon", true_epsilon, most=1, exhibit="table1", because=SHUFFLED,
          about="prices"),
    Claim("no_epsilon_one", reached, least=1 + 1e-3, exhibit="table3", protocols=PROVING,
          per_graph=False, because=CANCELLING, about="prices"),
    Claim("errors_differ", alike, most=0.5, exhibit="figure6", because=LEARNS_NOTHING),
    Claim("few_settings", price_of_rates, most=1, exhibit="table1", protocols=PROVING,
          because=ADDS_UP,
          question="Is ε of all runs the same whether six learning rates are compared or one is "
          "used (ratio)?"),
    Claim("kept_pokec", kept_score, within=POINTS, exhibit="table1", because=NOT_HERE),
    Claim("kept_reddit", kept_score, within=POINTS, exhibit="table1", because=NOT_HERE),
    *(
        Claim(f"mnist_{row}", partial(mnist_point, None), within=within, exhibit="table4")
        for row, (within, _) in MNIST_ROWS.items()
    ),
    *(
        Claim(f"mnist_{name}", partial(mnist_fall, None, epsilons), least=0, exhibit="table4")
        for name, epsilons in MNIST_FALLS.items()
    ),
    *(
        Claim(f"mnist_{row}_records", partial(mnist_point, "record"), within=within,
              exhibit="table4", because=NOT_TAKEN, protocols=("released",),
              at={"dataset": "mnist", **at},
              question=f"Does the other branch of the code give the printed score at ε = "
              f"{at['epsilon']} on MNIST?")
        for row, (within, at) in MNIST_ROWS.items()
    ),
    *(
        Claim(f"mnist_{name}_records", partial(mnist_fall, "record", epsilons), least=0,
              exhibit="table4", because=NOT_TAKEN, protocols=("released",),
              at={"dataset": "mnist"},
              question="Does the other branch score ever lower on MNIST at ε = "
              f"{', '.join(map(str, epsilons))}?")
        for name, epsilons in MNIST_FALLS.items()
    ),
)  # fmt: skip
"""Rules by ``id`` of ``studies/lrec2022/published/text_claims.csv``."""
