"""Bugs that break a proof, as patches of the present code, and what must notice each.

A patch replaces one piece of text, which occurs once, in one file below ``src/private_graphs``. A
catcher is a test that fails where the bug is planted; tests of ``test_release_audit.py`` are audits
of releases on few draws. ``python tests/mutants/bugs.py`` writes the table of docs/audits.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "audits.md"
BEGIN, END = "<!-- begin: bugs -->", "<!-- end: bugs -->"


def audit(method: str, classes: int) -> str:
    """Return the test that audits the releases of a method on few draws."""
    return f"tests/attacks/test_release_audit.py::test_releases_are_as_claimed[{method}-{classes}]"


def test(name: str) -> str:
    """Return a test by ``folder/file::name``, without ``tests/``, ``test_`` and ``.py``."""
    path, _, function = name.partition("::")
    folder, slash, file = path.rpartition("/")
    return f"tests/{folder}{slash}test_{file}.py::test_{function}"


@dataclass(frozen=True)
class Bug:
    """One patch and its catchers."""

    name: str
    words: str
    path: str
    old: str
    new: str
    catchers: tuple[str, ...]
    fast: bool = False
    """Whether ``make test`` plants it; ``make test-all`` plants all."""

    def patched(self, text: str) -> str:
        """Return ``text`` with the bug; ValueError unless the old text occurs once."""
        if text.count(self.old) != 1 or self.old == self.new:
            raise ValueError(
                f"bug {self.name}: its old text is {text.count(self.old)} times in {self.path}; "
                "expected once: plant the same bug where the code went"
            )
        return text.replace(self.old, self.new)


_NOISY = "sums + discrete_gaussian(generator, self.steps, sums.shape)"
_DESCEND = "row += std * generator.standard_normal(len(row))"
_RELEASE = "    return lattice.noisy(sums, generator)"
_PUBLIC = "public_adjacency=edges[public][:, public] if"
_STATE = "noise_std=np.array(noise, dtype=np.float64)"
_PUBLIC_MAP = test("methods/public_text::the_map_is_the_same_for_other_training_nodes")

BUGS = (
    Bug(
        "1",
        "class sums: sensitivity halved",
        "methods/class_sums.py",
        "return max(math.sqrt(2.0), same)",
        "return max(math.sqrt(2.0), same) / 2",
        (audit("class_sums", 3), test("methods/class_sums::the_sensitivity_is_attained")),
        fast=True,
    ),
    Bug(
        "2",
        "class sums: no constant coordinate, sensitivity still √2",
        "methods/class_sums.py",
        "    share = bias_square(n_classes)\n    constant",
        "    share = 0.0\n    constant",
        (audit("class_sums", 7), test("methods/class_sums::the_sensitivity_is_attained")),
    ),
    Bug(
        "3",
        "class sums: one column of noise for all classes",
        "methods/lattice.py",
        _NOISY,
        "sums + discrete_gaussian(generator, self.steps, (*sums.shape[:-1], 1))",
        (audit("class_sums", 3),),
    ),
    Bug(
        "4",
        "class sums: the replicas of a batch share their noise",
        "methods/class_sums.py",
        'r.streams.generator("class_sums")',
        'requests[0].streams.generator("class_sums")',
        (audit("class_sums", 2), audit("class_sums_public", 3)),
        fast=True,
    ),
    Bug(
        "5",
        "noisy choice without noise",
        "methods/choice.py",
        'exponential_choice(request.streams.generator("choice"), hits, events[0].scale)',
        "int(hits.argmax())",
        (audit("noisy_choice", 3),),
        fast=True,
    ),
    Bug(
        "6",
        "noisy choice at half the scale that its event states",
        "methods/choice.py",
        "hits, events[0].scale)",
        "hits, events[0].scale / 2)",
        (audit("noisy_choice", 7),),
    ),
    Bug(
        "7b",
        "validation scores on labels that are not known",
        "run.py",
        "validation = scores(known, outcome.validation_predictions[request.known])",
        "validation = scores(self.task.validation_labels, outcome.validation_predictions)",
        (
            test(
                "run::validation_labels_that_are_not_known_change_no_column[class_sums-text-sound]"
            ),
        ),
    ),
    Bug(
        "8",
        "gradients clipped after summing, in place of each node's",
        "methods/node_gradients.py",
        "    found = np.minimum(1.0, safe / np.sqrt(squared_norms))",
        "    found = np.minimum(1.0, safe / np.sqrt(squared_norms.mean()))\n"
        "        found = np.full(squared_norms.shape, found)",
        (test("methods/node_gradients::clipped_sums_equal_those_of_torch_gradients"),),
    ),
    Bug(
        "9",
        "DP gradients: noise times the clip norm twice",
        "methods/text_gradients.py",
        "np.array(noises) * steps.clip_norm,",
        "np.array(noises) * steps.clip_norm**2,",
        (audit("dp_linear", 2), audit("dp_mlp", 3)),
    ),
    Bug(
        "10",
        "DP gradients: noise calibrated for a node that vanishes, not a replaced one",
        "methods/text_gradients.py",
        'return gdp_noise(request.epsilon, steps.count, delta, "replace")',
        'return gdp_noise(request.epsilon, steps.count, delta, "add_remove")',
        (audit("dp_linear", 3), test("methods/dp_linear::events_are_priced_at_the_request")),
    ),
    Bug(
        "11",
        "edge votes: the same noise in every round",
        "methods/edge_votes.py",
        "beliefs[-1], lattice, noise))",
        'beliefs[-1], lattice, request.streams.generator("noise")))',
        (audit("edge_votes", 2), audit("edge_votes", 7)),
        fast=True,
    ),
    Bug(
        "12",
        "edge votes: noise for one round in each of three",
        "methods/edge_votes.py",
        _RELEASE,
        "    few = lattice.steps * 4 // 7\n"
        "    return LatticeGaussian(lattice.spacing, few, 1.0, 1).noisy(sums, generator)",
        (audit("edge_votes", 3),),
    ),
    Bug(
        "13",
        "rows of training nodes read edges among training nodes",
        "methods/public_text.py",
        "        return unit_rows(rows + task.train_to_public[nodes] @ self.met)",
        "        more = reweighted(task.train_features, self.weights)\n"
        "        rows = rows + task.train_adjacency[nodes] @ more\n"
        "        return unit_rows(rows + task.train_to_public[nodes] @ self.met)",
        (test("methods/public_text::a_replaced_training_node_changes_its_own_row_alone"),),
    ),
    Bug(
        "14",
        "document weights counted on training texts too",
        "methods/public_text.py",
        "        weights = inverse_document_weights(plain)",
        "        both = scipy.sparse.vstack([plain, task.train_features])\n"
        "        weights = inverse_document_weights(scipy.sparse.csr_matrix(both))",
        (_PUBLIC_MAP,),
    ),
    Bug(
        "15",
        "no secret in the noise where the operating system's entropy is asked for",
        "result.py",
        'return os.urandom(32) if noise_source == "os_entropy" else None',
        "return None",
        (
            test(
                "run::noise_of_the_operating_system_differs_every_time_and_tells_no_hash[class_sums-text]"
            ),
        ),
    ),
    Bug(
        "16",
        "GCN: all replicas draw their noise from the key of the first",
        "training/engine.py",
        'np.stack([each.streams.key("noise") for each in replicas])',
        'np.stack([replicas[0].streams.key("noise") for each in replicas])',
        (audit("gcn_epoch_sum", 2), audit("gcn_poisson", 3)),
    ),
    Bug(
        "17",
        "GCN, Poisson: one set of coins for all steps of an epoch",
        "training/engine.py",
        "self.orders[a].random((self.splits, self.splits)) < 1 / self.splits for a in active",
        "np.repeat(self.orders[a].random((1, self.splits)), self.splits, 0) < 1 / self.splits\n"
        "            for a in active",
        (audit("gcn_poisson", 2),),
    ),
    Bug(
        "18",
        "GCN: noise of factor .7 in the kernel, the plan as before",
        "training/engine.py",
        "        self.backend = self._backend(state)",
        "        state.noise_std[:] *= 0.7\n        self.backend = self._backend(state)",
        (audit("gcn_epoch_sum", 3), audit("gcn_poisson", 7)),
    ),
    Bug(
        "19",
        "class sums and edge votes: noise of factor .85",
        "methods/lattice.py",
        _NOISY,
        "sums + discrete_gaussian(generator, self.steps * 17 // 20, sums.shape)",
        (audit("class_sums", 2), audit("class_sums_text", 7), audit("edge_votes", 3)),
    ),
    Bug(
        "20",
        "DP gradients: noise of factor .85",
        "methods/node_gradients.py",
        _DESCEND,
        _DESCEND.replace("std *", "0.85 * std *"),
        (audit("dp_linear", 7), audit("dp_mlp", 2)),
    ),
    Bug(
        "21",
        "DP gradients: noise drawn once and used in every step",
        "methods/node_gradients.py",
        _DESCEND,
        "again = np.random.Generator(type(generator.bit_generator)())\n"
        "                again.bit_generator.state = generator.bit_generator.state\n"
        "                row += std * again.standard_normal(len(row))",
        (test("attacks/release_audit::the_noise_of_two_steps_adds_up"),),
    ),
    Bug(
        "26",
        "public graph: edges between public nodes that share a training neighbour",
        "tasks.py",
        _PUBLIC,
        "public_adjacency=(edges + edges @ edges).sign()[public][:, public] if",
        (test("tasks::the_public_graph_is_the_edges_between_public_nodes"),),
    ),
    Bug(
        "27",
        "public graph: degrees count training neighbours",
        "tasks.py",
        _PUBLIC,
        "public_adjacency=scipy.sparse.csr_matrix(scipy.sparse.diags(1.0 / (1 + edges[public].sum("
        "axis=1).A1)) @ edges[public][:, public]) if",
        (test("tasks::the_public_graph_is_the_edges_between_public_nodes"),),
    ),
    Bug(
        "28",
        "DP gradients: replicas share their noise",
        "methods/node_gradients.py",
        _DESCEND,
        "if generator is generators[0]:\n"
        "                    common = std * generator.standard_normal(len(row))\n"
        "                row += common",
        (audit("dp_linear", 2), audit("dp_mlp", 7)),
    ),
    Bug(
        "29",
        "DP gradients: the last coordinates get no noise",
        "methods/node_gradients.py",
        _DESCEND,
        "row[:-2] += std * generator.standard_normal(len(row) - 2)",
        (audit("dp_linear", 3), audit("dp_mlp", 2)),
    ),
    Bug(
        "30",
        "edge votes: the first row without noise",
        "methods/edge_votes.py",
        _RELEASE,
        "    noisy = lattice.noisy(sums, generator)\n"
        "    noisy[0] = sums[0] * lattice.spacing\n"
        "    return noisy",
        (audit("edge_votes", 2),),
    ),
    Bug(
        "31",
        "label counts: noise of training rows for one changed row, though an edge moves two",
        "methods/label_counts.py",
        "discrete_laplace(generator, 2 * steps, ",
        "discrete_laplace(generator, steps, ",
        (
            test(
                "methods/label_counts::"
                "noise_is_the_discrete_laplace_of_the_price_and_of_twice_the_scale_in_training_rows"
            ),
        ),
    ),
)


def table() -> str:
    """Return the bugs and what catches each, as Markdown."""
    lines = ["| bug | planted in | caught by |", "| --- | --- | --- |"]
    for bug in BUGS:
        found = []
        for catcher in bug.catchers:
            audited = re.search(r"as_claimed\[(\w+)-(\d)\]", catcher)
            if audited:
                found.append(f"`audit --release --method {audited[1]}`, {audited[2]} classes")
            else:
                found.append("`" + catcher.rpartition("::")[2].removeprefix("test_") + "`")
        lines.append(f"| {bug.name}: {bug.words} | `{bug.path}` | {'; '.join(found)} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the text of docs/audits.md with the present table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
