"""Claims of the text of Chapter 5, as rules over rows.

Differences are paired by seed: runs of one seed share test nodes and sample. A claim with several
parts holds if all of them do; one of "some cases" holds if all parts of one panel do, corrected for
the number of panels (``report.claims.highest``). The twelve claims of the text are tested jointly
at 5 % (Holm 1979): the interval of the k-th smallest p-value has a level of 1 - 5 %/(12 - k + 1),
later ones the same if one before it stays undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import pandas as pd
from scipy.special import stdtr

from private_graphs.privacy.secret_samples import amplified_epsilon
from private_graphs.report.claims import (
    Claim,
    Measured,
    Place,
    exact,
    highest,
    interval,
    lowest,
)
from private_graphs.report.results import Results
from private_graphs.studies.dpappr.points import ROWS
from private_graphs.studies.dpappr.tables import edges_left

GAUSSIAN, CHOSEN, VALUES = ROWS
_LEVEL = 0.05
Parts = list[pd.Series]
"""Differences by seed; a claim holds if all are positive."""
Panels = list[Parts]
"""A claim holds if all parts of some panel are positive; most claims have one panel."""


def _scores(
    runs: Results, group: str, method: str, value: str = "test_accuracy", **at: float
) -> pd.Series:
    """Return a column of the runs with given settings and ε, by seed; empty without runs."""
    series = runs.scores(value, group=group, method=method, **at).astype(float)
    return series.iloc[:0] if series.index.has_duplicates else series


def _values(runs: Results, group: str, name: str) -> list[float]:
    """Return the values of a column in a group, sorted."""
    return sorted(runs.scores(name, group=group).dropna().astype(float).unique())


def _budgets(runs: Results) -> Iterable[tuple[float, float, list[float]]]:
    """Return (K, ε of training, finite ε of the rows) of the panels that were run."""
    for top in _values(runs, "appr_budgets", "top"):
        for training in _values(runs, "appr_budgets", "training_epsilon"):
            at = {"top": top, "training_epsilon": training}
            rows = runs.scores("epsilon", group="appr_budgets", method=GAUSSIAN, **at)
            budgets = (rows - training).unique()
            if len(finite := sorted(budgets[np.isfinite(budgets)])) > 1:
                yield top, training, finite


def _at(runs: Results, method: str, top: float, training: float, rows: float) -> pd.Series:
    return _scores(runs, "appr_budgets", method, top=top, training_epsilon=training,
                   epsilon=rows + training)  # fmt: skip


def _mean(series: Iterable[pd.Series]) -> pd.Series:
    """Return the mean by seed over the panels that have the seed."""
    parts = [part for part in series if len(part)]
    return pd.concat(parts, axis=1).mean(axis=1, skipna=False) if parts else pd.Series(dtype=float)


def _gap(runs: Results, one: tuple[str, int], base: tuple[str, int]) -> pd.Series:
    """Return the mean by seed, over all panels, of the difference of two points: each a method,
    and the number of its budget."""
    return _mean(
        _at(runs, one[0], top, training, rows[one[1]])
        - _at(runs, base[0], top, training, rows[base[1]])
        for top, training, rows in _budgets(runs)
    )


def _rise(runs: Results, method: str) -> pd.Series:
    return _gap(runs, (method, -1), (method, 0))


def rise(runs: Results) -> Parts:
    """Claim 1, over all panels."""
    up = [_rise(runs, method) for method in (GAUSSIAN, VALUES)]
    return [*up, *(growth - _rise(runs, CHOSEN) for growth in up)]


def small_budgets(runs: Results) -> Parts:
    """Claim 2."""
    pairs = ((CHOSEN, GAUSSIAN), (CHOSEN, VALUES), (VALUES, GAUSSIAN))
    return [_gap(runs, (one, 0), (base, 0)) for one, base in pairs]


def large_budgets(runs: Results) -> Parts:
    """Claim 3."""
    return [_gap(runs, (GAUSSIAN, -1), (base, -1)) for base in (CHOSEN, VALUES)]


def above_dpsgd(runs: Results) -> Parts:
    """Claim 4: at every K and budget."""
    return [
        _at(runs, method, top, training, epsilon)
        - _scores(runs, "appr_budgets", "appr_exact", top=top, epsilon=training)
        for top, training, rows in _budgets(runs)
        for epsilon in rows
        for method in ROWS
    ]


def below_features(runs: Results) -> Panels:
    """Claim 5: the panels in any of which FEATURES leads over all three."""
    return [
        [
            _scores(runs, "appr_budgets", "appr_features", epsilon=training)
            - _at(runs, method, top, training, rows[0])
            for method in ROWS
        ]
        for top, training, rows in _budgets(runs)
    ]


def training_matters(runs: Results) -> Parts:
    """Claim 6: gain from ε = 1 to ε = 4 of training, minus the same gain of the rows."""
    gains = []
    for method in ROWS:
        for top in _values(runs, "appr_budgets", "top"):
            full = _at(runs, method, top, 4, 4)
            less_training, less_rows = _at(runs, method, top, 1, 4), _at(runs, method, top, 4, 1)
            gains.append((full - less_training) - (full - less_rows))
    return [_mean(gains)]


def more_neighbours(runs: Results) -> Parts:
    """Claim 7: fall from the largest to the smallest budget, at K = 16 minus at K = 4."""

    def fall(k: float) -> pd.Series:
        return _mean(
            _at(runs, method, top, training, rows[-1]) - _at(runs, method, top, training, rows[0])
            for top, training, rows in _budgets(runs)
            if top == k
            for method in ROWS
        )

    return [fall(16) - fall(4)]


def degrees_hidden(runs: Results) -> Parts:
    """Claim 8: errors, then the accuracy of DPSGD."""
    group, parts = "appr_degrees", []
    for epsilon in _values(runs, group, "epsilon"):
        features = _scores(runs, group, "appr_features", "degree_rmse", epsilon=epsilon)
        for top in _values(runs, group, "top"):
            at = {"top": top, "epsilon": epsilon}
            largest = _scores(runs, group, "appr_exact", "degree_rmse", **at)
            lowest = _scores(runs, group, "appr_exact", **at)
            for method in ROWS:
                error = _scores(runs, group, method, "degree_rmse", **at)
                parts += [error - features, largest - error]
                parts.append(_scores(runs, group, method, **at) - lowest)
    return parts


def classes_separate(runs: Results) -> Parts:
    """Claim 9: silhouette at the largest minus at the smallest budget."""
    group = "appr_degrees"
    budgets = _values(runs, group, "epsilon")
    if len(budgets) < 2:
        return []
    return [
        _mean(
            _ends(runs, group, method, "epsilon", budgets[0], budgets[-1], "silhouette", top=top)
            for top in _values(runs, group, "top")
        )
        for method in (GAUSSIAN, VALUES)
    ]


def _ends(
    runs: Results, group: str, method: str, name: str, low: float, high: float,
    value: str = "test_accuracy", **at: float,
) -> pd.Series:  # fmt: skip
    lower, upper = (_scores(runs, group, method, value, **at, **{name: end}) for end in (low, high))
    return upper - lower


def batch_size(runs: Results) -> Parts:
    """Claim 10: largest batch minus smallest."""
    sizes = _values(runs, "appr_batches", "batch")
    if len(sizes) < 2:
        return []
    ends = partial(_ends, runs, "appr_batches", name="batch", low=sizes[0], high=sizes[-1])
    return [*(ends(method) for method in ROWS), -ends("appr_exact")]


def row_clip(runs: Results) -> Parts:
    """Claim 11: best clip according to the text, minus the largest."""
    group = "appr_row_clips"
    parts = [_ends(runs, group, GAUSSIAN, "row_clip", 1.0, 0.01)]
    return parts + [_ends(runs, group, kind, "entry_clip", 1.0, 0.001) for kind in (CHOSEN, VALUES)]


def gradient_clip(runs: Results) -> Parts:
    """Claim 12: C = 1 minus both ends."""
    clips = _values(runs, "appr_clips", "clip")
    if len(clips) < 3:
        return []
    return [
        _mean(_ends(runs, "appr_clips", method, "clip", end, 1.0) for method in ROWS)
        for end in (clips[0], clips[-1])
    ]


def every(rule: Callable[[Results], Parts]) -> Callable[[Results], Panels]:
    """Return the rule of a claim whose parts must all be positive, as one panel."""

    def panels(runs: Results) -> Panels:
        parts = rule(runs)
        return [parts] if parts else []

    return panels


RULES: dict[str, tuple[Callable[[Results], Panels], str]] = {
    "rise": (every(rise), "figure1"),
    "small_budgets": (every(small_budgets), "figure1"),
    "large_budgets": (every(large_budgets), "figure1"),
    "above_dpsgd": (every(above_dpsgd), "figure1"),
    "below_features": (below_features, "figure1"),
    "training_matters": (every(training_matters), "figure1"),
    "more_neighbours": (every(more_neighbours), "figure1"),
    "degrees_hidden": (every(degrees_hidden), "figure4"),
    "classes_separate": (every(classes_separate), "figure4"),
    "batch_size": (every(batch_size), "figure8"),
    "row_clip": (every(row_clip), "figure10"),
    "gradient_clip": (every(gradient_clip), "figure12"),
}
"""Claims of the text, each with the exhibit that shows it."""


def _known(panels: Panels) -> Panels:
    return [[part.dropna() for part in parts] for parts in panels]


def _whole(panels: Panels) -> bool:
    """Return whether there is a panel, and every part of all panels has a seed."""
    return bool(panels) and all(parts and all(map(len, parts)) for parts in panels)


def _p_value(panels: Panels) -> float:
    """Return the smallest level at which ``highest`` decides a claim.

    It is decided if all parts of a panel are above 0, or some part of every panel is below.
    """
    above, below = [], []
    for parts in panels:
        stats = [(float(part.mean()), _two_sided(part)) for part in parts]
        above.append(max(p if mean >= 0 else 1.0 for mean, p in stats))
        below.append(min(p if mean < 0 else 1.0 for mean, p in stats) * len(parts))
    return min(min(above) * len(panels), max(below), 1.0)


def _two_sided(part: pd.Series) -> float:
    """Return the level at which Student's interval of the mean reaches 0."""
    if len(part) < 2:
        return 1.0
    mean, error = part.mean(), part.std(ddof=1) / math.sqrt(len(part))
    return float(2 * stdtr(len(part) - 1, -abs(mean) / error)) if error > 0 else 0.0


def holm(panels: dict[str, Panels]) -> dict[str, Measured]:
    """Return every claim with the interval of its rank among ``len(RULES)``."""
    order = sorted((_p_value(group), name) for name, group in panels.items())
    intervals, stopped = {}, None
    for turn, (p_value, name) in enumerate(order):
        level = stopped or _LEVEL / (len(RULES) - turn)
        if p_value > level:
            stopped = level
        intervals[name] = highest(panels[name], level)
    return intervals


_FOUND: list[tuple[pd.DataFrame, dict[str, Measured]]] = []
"""Measurements of the last rows, cached because every claim needs all of them."""


def _measure(id_: str, results: Results, case: Place) -> Measured | None:
    for rows, measures in _FOUND:
        if rows is results.rows:
            return measures.get(id_)
    if not results.runs["method"].str.startswith("appr_").any():
        return None
    panels = {name: _known(rule(results)) for name, (rule, _) in RULES.items()}
    whole = {name: group for name, group in panels.items() if _whole(group)}
    _FOUND[:] = [*_FOUND[-15:], (results.rows, holm(whole))]
    return _FOUND[-1][1].get(id_)


def most_on_pubmed(results: Results, case: Place) -> Measured | None:
    """Lead of FEATURES at the smallest budget of the rows, over all panels and methods: on
    PubMed minus that on the other graph with the smallest difference."""
    leads = {}
    for name, rows in results.runs.groupby("dataset"):
        leads[name] = _mean(
            lead for panel in below_features(results.with_rows(rows)) for lead in panel
        )
    other_leads = [lead for name, lead in leads.items() if name != "pubmed" and len(lead)]
    if len(leads.get("pubmed", ())) == 0 or not other_leads:
        return None
    return lowest([(leads["pubmed"] - lead).dropna() for lead in other_leads])


def noise_of_batch(results: Results, case: Place) -> Measured | None:
    """Exponent of the growth of noise with the batch size, from smallest to largest batch."""
    rows = results.at(method=GAUSSIAN, group="appr_batches").dropna(subset=["noise_multiplier"])
    noise = rows.groupby("batch")["noise_multiplier"].first() if len(rows) else rows
    if len(noise) < 2:
        return None
    sizes = noise.index.astype(float)
    return exact(math.log(noise.iloc[-1] / noise.iloc[0]) / math.log(sizes[-1] / sizes[0]))


def theorem8(results: Results, case: Place) -> Measured | None:
    """Change of the sum if one node is replaced that alone is mixed by 70 target nodes."""
    import scipy.sparse

    from private_graphs.training.roots import HIDDEN, Roots, clipped_sum

    pi, sums = scipy.sparse.csr_matrix(np.full((70, 1), 1 / 70)), []
    theta = np.r_[np.ones(HIDDEN), np.zeros(2 * HIDDEN)]
    for value in (140.0, 0.0):
        x = scipy.sparse.csr_matrix(np.array([[value]]))
        roots = Roots.of(x, pi, np.zeros(70, np.int64), np.float64)
        sums.append(clipped_sum(roots, theta, 1.0)[0])
    return exact(float(np.linalg.norm(sums[0] - sums[1])))


def amplification(results: Results, case: Place) -> Measured | None:
    """ε = 8 after a secret sample of 9 %."""
    return exact(amplified_epsilon(8, 0.09))


def small_delta(results: Results, case: Place) -> Measured | None:
    """δ of the published rows times the number of training nodes."""
    rows = results.at(group="appr_budgets").dropna(subset=["delta"])
    if rows.empty:
        return None
    statement = results.statement(rows["statement_id"].iloc[0])
    return exact(statement["delta"] * statement["n_units"])


def edges_per_node(results: Results, case: Place) -> Measured | None:
    """Edges of the sample divided by its nodes."""
    rows = results.at(group="appr_budgets")
    if "edges_left" not in rows or rows["edges_left"].isna().all():
        return None
    sizes = edges_left(rows)
    return interval(sizes["edges_left"].astype(float) / sizes["sampled_nodes"].astype(float))


_PUBLISHED = ("released", "paper")
_BUDGETS = "the smallest and the largest ε of the rows in Figures 5.1 to 5.3"
_AT_ENDS = ("small_budgets", "large_budgets", "below_features", "more_neighbours")
"""Claims about the smallest or largest budget."""
CLAIMS = (
    *(
        Claim(name, partial(_measure, name), least=0, exhibit=exhibit, protocols=_PUBLISHED,
              not_printed=_BUDGETS if name in _AT_ENDS else "")
        for name, (_, exhibit) in RULES.items()
    ),
    Claim("most_on_pubmed", most_on_pubmed, least=0, exhibit="figure1", protocols=_PUBLISHED,
          per_graph=False, not_printed=_BUDGETS),
    Claim("noise_of_batch", noise_of_batch, within=0.05, exhibit="figure8", protocols=_PUBLISHED,
          about="prices"),
    Claim("theorem8", theorem8, most=2, protocols=("",), per_graph=False),
    Claim("amplification", amplification, most=0.72, protocols=("",), per_graph=False),
    Claim("small_delta", small_delta, most=1, exhibit="figure1", protocols=_PUBLISHED,
          question="Is δ times the number of training nodes below 1?"),
    Claim("edges_left", edges_per_node, least=1, exhibit="sampled_rows", protocols=_PUBLISHED,
          question="Has the graph that is trained on an edge for every node (edges per node)?"),
)  # fmt: skip
