"""What people would pick instead of ``private-graphs classify``, on the same texts.

    python benchmarks/comparison.py --data letters,cora --methods word_sums,naive_bayes
    python benchmarks/comparison.py    # what the CSV has not yet, of all data and methods

measures, adds to docs/benchmarks/comparison.csv, and writes docs/comparison.md from it.

Invented letters (``examples/make_letters.py``, ``hospital_letters.py``), one-line descriptions of
Debian's packages by section (``one_line_descriptions.parquet``), and papers as words. All methods
train on the same private documents and are scored on the same others; δ is the default of
``declare``. 500 further documents choose among the settings of every method that has settings, as
if they were public and free; ours have none.

diffprivlib is optional: without it its row is left out. Version 0.6.6 cannot be imported beside
scikit-learn 1.9; put both into a folder of their own, which only this command sees:

    pip install --target other --no-deps diffprivlib==0.6.6 scikit-learn==1.5.2
    PYTHONPATH=other python benchmarks/comparison.py --methods diffprivlib
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import itertools
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import hospital_letters
import numpy as np
import pandas as pd
import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv
from torch_geometric.utils import subgraph

import private_graphs
from private_graphs.core.streams import Streams
from private_graphs.documents.declaration import default_delta
from private_graphs.documents.hashing import HashedWords
from private_graphs.documents.unit_means import ClassSums
from private_graphs.documents.unit_sums import PublicTexts, Terms, scores_of
from private_graphs.mechanisms.door import Door
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.privacy.calibration import pld_noise

ROOT = Path(__file__).resolve().parents[1]
EPSILONS, DRAWS, TESTED, CHOOSING = (1.0, 4.0), 5, 1000, 500
CELLS = ROOT / "docs" / "benchmarks" / "comparison.csv"
COLUMNS = 512
"""Hashed columns of the other methods."""
STEPS_OF_AN_EPOCH = 10
LINEAR = tuple(itertools.product((0.5, 2.0, 8.0), (5, 20), (0.5, 1.0)))
"""Learning rates, epochs and clip norms of the linear layer."""
CONVOLUTION = tuple(itertools.product((0.01, 0.1, 1.0), (10, 40), (0.1, 1.0)))
"""Learning rates, steps and clip norms of the graph convolution."""
OBJECTIVE = tuple(itertools.product((16, 64, 256), (0.01, 1.0, 100.0, 1e4)))
"""Hashed columns and inverse regularisation of diffprivlib."""


NAIVE = tuple(itertools.product((512, 4096), (0.3, 1.0, 3.0, 10.0, 30.0)))
"""Hashed columns and smoothing of naive Bayes."""


@dataclass(frozen=True, eq=False)
class Texts:
    """Documents in three parts: to train on (private), to choose with, to score on."""

    name: str
    texts: list[str]
    labels: np.ndarray
    trained: np.ndarray
    choosing: np.ndarray
    tested: np.ndarray
    links: np.ndarray | None = None
    """(2, E), each link once."""
    owners: np.ndarray | None = None
    """Persons, where these are the units."""

    @property
    def labelled(self) -> np.ndarray:
        """Return the training documents with a class."""
        return self.trained[self.labels[self.trained] >= 0]

    @property
    def n_units(self) -> int:
        return len(self.trained if self.owners is None else np.unique(self.owners[self.trained]))

    @property
    def n_classes(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def delta(self) -> float:
        return default_delta(self.n_units)

    @cache  # noqa: B019 - they live as long as the program
    def rows(self, columns: int, signed: bool = True):
        """Return sparse rows of hashed words."""
        return HashedWords(columns, signed=signed).rows(self.texts)

    def dense(self, columns: int) -> torch.Tensor:
        """Return these rows as a tensor."""
        return torch.from_numpy(self.rows(columns).toarray().astype(np.float32))


def letters(size: int, seed: int | None = None) -> Texts:
    """Return invented letters; with a ``seed`` others than those that are compared."""
    spec = importlib.util.spec_from_file_location("make", ROOT / "examples" / "make_letters.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.SEED = seed or script.SEED
    rows, _, truth = script.tables(size, False)
    names = list(script.DEPARTMENTS)
    trained, choosing, tested = np.split(np.arange(size), [size - TESTED - CHOOSING, size - TESTED])
    return Texts(
        "letters", [f"{row[2]}\n{row[3]}" for row in rows],
        np.array([names.index(name) for _, name in truth]), trained, choosing, tested,
    )  # fmt: skip


def papers(name: str) -> Texts:
    """Return the words of papers and the links among them; raw files come from the mirror."""
    from private_graphs.datasets.protocols import PROTOCOLS
    from private_graphs.features.load import load_dataset

    built = load_dataset(name, None, PROTOCOLS["sound"].data, ROOT / "data" / "raw",
                         os.environ.get("PRIVATE_GRAPHS_MIRROR"))  # fmt: skip
    ends, words = built.features.indptr, built.features.indices
    texts = [
        " ".join(f"w{word}" for word in words[start:end]) for start, end in itertools.pairwise(ends)
    ]
    parts = (built.train_mask, built.validation_mask, built.test_mask)
    return Texts(name, texts, np.asarray(built.labels), *map(np.flatnonzero, parts),
                 np.asarray(built.edge_index))  # fmt: skip


def hospital(persons: bool) -> Texts:
    """Return invented letters of a hospital, whose units are patients or letters."""
    draws = np.random.default_rng(7)
    parts = [hospital_letters.letters(hospital_letters.patients(draws), draws)]
    parts += [hospital_letters.letters(np.full(n // 2, 2), draws, 1000 * n)
              for n in (CHOOSING, TESTED + 600)]  # fmt: skip
    ends = np.cumsum([0, *(len(each.texts) for each in parts)])
    labels = np.concatenate([parts[0].given, *(each.departments for each in parts[1:])])
    return Texts(
        "hospital, patients" if persons else "hospital", sum((each.texts for each in parts), []),
        labels, *(np.arange(*pair) for pair in itertools.pairwise(ends)),
        owners=np.concatenate([each.patients for each in parts]) if persons else None,
    )  # fmt: skip


def descriptions() -> Texts:
    """Return one-line descriptions of Debian's packages, in eight sections."""
    table = pd.read_parquet(ROOT / "benchmarks" / "one_line_descriptions.parquet")
    codes, _ = pd.factorize(table["label"], sort=True)
    train, rest = (np.flatnonzero((table["part"] == "train") == own) for own in (True, False))
    return Texts("descriptions", table["text"].tolist(), codes, train, rest[:CHOOSING],
                 rest[CHOOSING:])  # fmt: skip


def _table(data: Texts, rows: np.ndarray, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    owners = np.arange(len(data.texts)) if data.owners is None else data.owners
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "text", "label", "owner"])
        writer.writerows(
            [f"d{row}", data.texts[row], f"c{data.labels[row]}" if data.labels[row] >= 0 else "",
             f"p{owners[row]}"] for row in rows
        )  # fmt: skip


def ours(data: Texts, part: str, epsilon: float, *, public: bool, method: str) -> float:
    """Return the score of 'declare', 'classify' and 'predict'; settings: none.

    ``public``: the documents that choose settings for the other methods are public; else all units
    train, as for the other methods.
    """
    assert part == "tested"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _table(data, data.trained, folder / "n.csv")
        _table(data, data.tested, folder / "new.csv")
        _table(data, data.choosing, folder / "open" / "o.csv")
        raw = folder / "data" / "raw"
        private_graphs.declare(
            "compared", nodes=folder / "n.csv", text="text", label="label", data=raw,
            classes=[f"c{number}" for number in range(data.n_classes)],
            unit=None if data.owners is None else "owner", drop_empty=True,
            **({"public_files": folder / "open"} if public else {"test_share": 0}),
        )  # fmt: skip
        private_graphs.classify(
            "compared", method=method, epsilon=epsilon, out=folder / "out", data=raw
        )
        found = private_graphs.predict(
            folder / "out" / "release", nodes=folder / "new.csv", label="label"
        )
    assert found.accuracy is not None
    return found.accuracy


def signed_sums(data: Texts, part: str, epsilon: float) -> float:
    """Return the score of ``class_sums`` on hashed words, once the default for words."""
    owners = np.arange(len(data.texts)) if data.owners is None else data.owners
    order = data.trained[np.argsort(owners[data.trained], kind="stable")]
    none = np.zeros(0, np.int64)
    method = ClassSums.of(PublicTexts(), data.n_units, data.n_classes, epsilon, data.delta, "unit")
    door = Door.of([Streams.of({"compared": data.name}, os.urandom(32))])
    terms = Terms([data.texts[row] for row in order], data.labels[order], owners[order])
    weights, _ = method.weights(terms, Terms([], none, none), door)
    asked = getattr(data, part)
    scores = scores_of(weights, method.features, [data.texts[row] for row in asked])
    return float((scores.argmax(axis=1) == data.labels[asked]).mean())


def naive_bayes(data: Texts, part: str, epsilon: float, columns: int, smoothing: float) -> float:
    """Return the score of naive Bayes on noisy sums of non-negative rows, sensitivity sqrt 2."""
    rows, own = data.rows(columns, False), data.labelled
    sums = rows[own].T @ np.eye(data.n_classes)[data.labels[own]]
    noise = np.random.default_rng().standard_normal(sums.shape)
    sums = np.maximum(sums + np.sqrt(2) / gdp_mu(epsilon, data.delta) * noise, 0)
    sums += smoothing * max(sums.mean(), 1e-3)
    asked = getattr(data, part)
    found = (rows[asked] @ np.log(sums / sums.sum(axis=0))).argmax(axis=1)
    return float((found == data.labels[asked]).mean())


def opacus_linear(
    data: Texts, part: str, epsilon: float, rate: float, epochs: int, clip: float
) -> float:
    """Return the score of a linear layer by Opacus, with the noise of the relation replace."""
    inputs, labels = data.dense(COLUMNS), torch.from_numpy(data.labels)
    noise = pld_noise(epsilon, epochs * STEPS_OF_AN_EPOCH, 1 / STEPS_OF_AN_EPOCH, data.delta,
                      "replace")  # fmt: skip
    model = torch.nn.Linear(COLUMNS, data.n_classes)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(inputs[data.labelled], labels[data.labelled]),
        batch_size=-(-len(data.labelled) // STEPS_OF_AN_EPOCH),
    )
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=rate), data_loader=loader,
        noise_multiplier=noise, max_grad_norm=clip,
    )  # fmt: skip
    for _ in range(epochs):
        for some, wanted in loader:
            optimizer.zero_grad()
            cross_entropy(model(some), wanted).backward()
            optimizer.step()
    asked = getattr(data, part)
    with torch.no_grad():
        return float((model(inputs[asked]).argmax(dim=1) == labels[asked]).float().mean())


def opacus_gcn(
    data: Texts, part: str, epsilon: float, rate: float, steps: int, clip: float
) -> float:
    """Return the score of a graph convolution of PyG with Opacus's optimizer.

    A document reaches the gradients of its neighbours, so that only the gradient of the whole graph
    can be clipped: one "sample" of norm C, which a replaced document moves by 2 C. The training
    graph has private documents alone, and predictions read no link to them.
    """
    inputs, labels = data.dense(COLUMNS), torch.from_numpy(data.labels)
    links = torch.from_numpy(data.links)
    links = torch.cat([links, links.flip(0)], dim=1)
    model = GCNConv(COLUMNS, data.n_classes)
    optimizer = DPOptimizer(
        torch.optim.Adam(model.parameters(), lr=rate), max_grad_norm=clip,
        noise_multiplier=pld_noise(epsilon, steps, 1.0, data.delta, "replace"),
        expected_batch_size=1,
    )  # fmt: skip

    def scored(nodes: np.ndarray) -> torch.Tensor:
        own, _ = subgraph(torch.from_numpy(nodes), links, relabel_nodes=True,
                          num_nodes=len(labels))  # fmt: skip
        return model(inputs[nodes], own)

    for _ in range(steps):
        optimizer.zero_grad()
        model.zero_grad()
        cross_entropy(scored(data.trained), labels[data.trained]).backward()
        for each in model.parameters():
            each.grad_sample = each.grad[None]
        optimizer.step()
    asked = getattr(data, part)
    with torch.no_grad():
        return float((scored(asked).argmax(dim=1) == labels[asked]).float().mean())


def diffprivlib(data: Texts, part: str, epsilon: float, columns: int, inverse: float) -> float:
    """Return the score of diffprivlib's logistic regression (objective perturbation)."""
    from diffprivlib.models import LogisticRegression

    rows = data.rows(columns).toarray()
    model = LogisticRegression(epsilon=epsilon, data_norm=1.0, C=inverse, max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows[data.labelled], data.labels[data.labelled])
    asked = getattr(data, part)
    return float(model.score(rows[asked], data.labels[asked]))


def regression(data: Texts, part: str, epsilon: float, fitted: str) -> float:
    """Return the score of logistic regression on TF-IDF, without privacy."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    own, asked = getattr(data, fitted), getattr(data, part)
    words = TfidfVectorizer(sublinear_tf=True)
    rows = words.fit_transform([data.texts[row] for row in own])
    model = LogisticRegression(C=10, max_iter=500).fit(rows, data.labels[own])
    found = model.predict(words.transform([data.texts[row] for row in asked]))
    return float((found == data.labels[asked]).mean())


def largest(data: Texts, part: str, epsilon: float) -> float:
    """Return the share of the largest class."""
    labels = data.labels[getattr(data, part)]
    return float(np.bincount(labels).max() / len(labels))


@dataclass(frozen=True)
class Opponent:
    """A method of the table."""

    title: str
    score: Callable[..., float]
    settings: Sequence[tuple] = ()
    draws: int = DRAWS
    needs_links: bool = False
    persons: bool = False
    """Whether its guarantee can be one of persons."""

    def measured(self, data: Texts, epsilon: float) -> dict[str, float] | None:
        """Return the score at ε and processor seconds of one run; None where it cannot run."""
        if (self.needs_links and data.links is None) or (data.owners is not None and
                                                         not self.persons):  # fmt: skip
            return None
        best: tuple = ()
        if self.settings:
            best = max(self.settings, key=lambda each: self.score(data, "choosing", epsilon, *each))
        started = time.process_time()
        found = [self.score(data, "tested", epsilon, *best) for _ in range(self.draws)]
        seconds = (time.process_time() - started) / self.draws
        spread = float(np.std(found, ddof=1)) if self.draws > 1 else 0.0
        return {"score": float(np.mean(found)), "spread": spread, "draws": self.draws,
                "seconds": round(seconds, 1)}  # fmt: skip


def _ours(title: str, method: str, public: bool) -> Opponent:
    return Opponent(title, partial(ours, public=public, method=method), persons=True)


METHODS = {
    "word_sums": _ours("`classify`", "word_sums", False),
    "dp_linear": _ours("`classify --method dp_linear`", "dp_linear", False),
    "signed_sums": Opponent("`class_sums` on words", signed_sums, persons=True),
    "naive_bayes": Opponent("naive Bayes by hand", naive_bayes, NAIVE),
    "opacus": Opponent("Opacus, linear layer by hand", opacus_linear, LINEAR, 3),
    "opacus_gcn": Opponent("PyG + Opacus, graph convolution by hand", opacus_gcn, CONVOLUTION, 3,
                           needs_links=True),
    "diffprivlib": Opponent("diffprivlib, logistic regression", diffprivlib, OBJECTIVE, 3),
    "word_sums_public": _ours(f"`classify`, {CHOOSING} public", "word_sums", True),
    "dp_linear_public": _ours(f"`classify --method dp_linear`, {CHOOSING} public", "dp_linear",
                              True),
    "public": Opponent(f"public: TF-IDF and logistic regression on these {CHOOSING}",
                       partial(regression, fitted="choosing"), draws=1, persons=True),
    "without": Opponent("the same on all, without privacy", partial(regression, fitted="labelled"),
                        draws=1, persons=True),
    "largest": Opponent("largest class", largest, draws=1, persons=True),
}  # fmt: skip
DATA: dict[str, Callable[[], Texts]] = {
    "letters": lambda: letters(4000 + CHOOSING + TESTED),
    "hospital": lambda: hospital(False), "hospital, patients": lambda: hospital(True),
    "descriptions": descriptions,
    **{name: partial(papers, name)
       for name in ("cora", "citeseer", "cora-ml", "ms-academic", "pubmed")},
}  # fmt: skip


def measure(names: Sequence[str], methods: Sequence[str], again: bool) -> None:
    """Add cells to CSV, one after the other: what is there is measured ``again`` only if asked."""
    torch.manual_seed(int.from_bytes(os.urandom(4), "big"))
    for name in names:
        data = None
        for method, epsilon in itertools.product(methods, EPSILONS):
            cells = pd.read_csv(CELLS)
            there = (cells["data"] == name) & (cells["method"] == method) & (
                cells["epsilon"] == epsilon)  # fmt: skip
            if there.any() and not again:
                continue
            data = data or DATA[name]()
            found = METHODS[method].measured(data, epsilon)
            if found is None:
                continue
            about = {"data": name, "units": data.n_units, "classes": data.n_classes,
                     "delta": data.delta, "method": method, "epsilon": epsilon}  # fmt: skip
            print(name, method, epsilon, found, file=sys.stderr, flush=True)
            cells = pd.concat([cells[~there], pd.DataFrame([about | found])])
            places = [
                ([*DATA].index(row.data), row.epsilon, [*METHODS].index(row.method))
                for row in cells.itertuples()
            ]
            order = sorted(range(len(cells)), key=places.__getitem__)
            cells.iloc[order].to_csv(CELLS, index=False, float_format="%.4g")


def page() -> str:
    """Return docs/comparison.md."""
    cells = pd.read_csv(CELLS)
    methods = [name for name in METHODS if (cells["method"] == name).any()]
    lines = [["", "units", *(METHODS[name].title for name in methods)],
             ["---", "---:", *["---:"] * len(methods)]]  # fmt: skip
    for (name, epsilon), own in cells.groupby(["data", "epsilon"], sort=False):
        by = own.set_index("method")
        shown = [
            "–" if method not in by.index else f"{by.at[method, 'score']:.3f}"
            for method in methods
        ]  # fmt: skip
        lines.append([f"{name}, ε = {epsilon:g}", f"{by['units'].iloc[0]:,}", *shown])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    by = cells.pivot(index=["data", "epsilon"], columns="method", values="score")
    lost = by.index[by["public"] > by["word_sums_public"]]
    better_on = "nowhere here" if lost.empty else "on " + "; ".join(
        f"{name} at ε = " + " and ".join(f"{epsilon:g}" for _, epsilon in own)
        for name, own in itertools.groupby(sorted(lost), key=lambda place: place[0])
    )  # fmt: skip
    seconds = cells[cells["method"].isin(["word_sums", "word_sums_public"])]["seconds"].max()
    return f"""# Compared with what people would pick instead

The table shows the share of right answers on other documents, mean over 3 to {DRAWS} draws of the
noise ([all cells](benchmarks/comparison.csv), with standard deviations; the test documents alone
make about ± .015). The data are invented letters (`examples/make_letters.py`), invented letters of
a hospital, a quarter of them in another language (`benchmarks/hospital_letters.py`), one-line
descriptions of Debian's packages in 8 sections, and the words of papers. For all methods the
relation is replace and δ the default of `declare`; the unit is one document, or a patient with all
letters (at most 5 are kept). `python benchmarks/comparison.py` makes this page and says how to
install diffprivlib.

Naive Bayes (noisy sums of the same rows, logarithms), Opacus and diffprivlib have the best of 10 or
12 settings at each ε, chosen on {CHOOSING} further documents as if that cost nothing. `classify`
has nothing to choose. All units train (`declare --test-share 0`; by default a fifth tests, of 3,000
or more a tenth). A dash: not measured, or the method promises nothing there.

{table}

- `classify` takes {seconds:g} processor seconds at most, its tables included.
- PubMed has 500 words and many documents, and its words depend on each other: there the steps of
  `--method dp_linear` learn more than one sum. On prose they lose.
- With public documents: all of them teach ([with
  links](benchmarks.md#links-of-declared-documents)). The public model beside them, which costs
  nobody anything and learns from all {CHOOSING}, is better {better_on}.
- The [recorded results](studies/lrec2022.md) have other scores on PubMed, as they read the
  dataset's TF-IDF weights; here methods read which words a document has.
- The constants of `word_sums` were set on invented letters, Cora and PubMed, those of `dp_linear`
  [on other letters and PubMed](benchmarks.md#constants-of-classify---method-dp_linear).
- diffprivlib gives each class a share of ε, and its δ is 0: a stronger promise, which costs more.
- A graph convolution mixes documents, so that Opacus's clipping of single examples proves nothing
  for it. The column clips the gradient of the whole graph. [Methods](methods.md) lists those that
  are made for graphs.
- With persons as units Opacus's guarantee is of documents: somebody with five letters has five
  times the noise ratio. `private-graphs classify` averages them (`declare --unit`), at the same ε.
"""


def main() -> None:
    """Measure what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=",".join(DATA).replace(", ", "/"))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--again", action="store_true", help="measure what the CSV has, too")
    asked = parser.parse_args()
    names = [name.replace("/", ", ") for name in asked.data.split(",")]
    methods = asked.methods.split(",")
    if importlib.util.find_spec("diffprivlib") is None:
        methods = [name for name in methods if name != "diffprivlib"]
    measure(names, methods, asked.again)
    (ROOT / "docs" / "comparison.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
