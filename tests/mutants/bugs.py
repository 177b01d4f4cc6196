"""Bugs that break a proof, as patches of the present code, and what must notice each.

A patch replaces one piece of text, which occurs once, in one file below ``src/private_graphs``. A
catcher is a test that fails where the bug is planted.
``python tests/mutants/bugs.py`` writes the table of docs/audits.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "audits.md"
BEGIN, END = "<!-- begin: bugs -->", "<!-- end: bugs -->"


def audit(mechanism: str) -> str:
    """Return the test that audits a mechanism on few draws."""
    return f"tests/attacks/test_mechanism_audit.py::test_mechanisms_are_as_claimed[{mechanism}]"


def replay(method: str, scenario: str) -> str:
    """Return the test that replays a method under ``sound`` on a few neighbours."""
    name = "test_sound_methods_pass"
    return f"tests/mechanisms/test_replay.py::{name}[{method}-{scenario}-sound]"


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


_PUBLIC = "public_adjacency=edges[public][:, public] if"
_PUBLIC_MAP = test("methods/public_text::the_map_is_the_same_for_other_training_nodes")
_DISCRETE = "discrete_gaussian(lane.generator(stream), steps, row.shape)"
_NORMAL = "lane.generator(stream).standard_normal(row.shape, dtype=dtype)"
_STEP = "lane.generator(self.noise).standard_normal(dtype=self.dtype, out=row)"
_SUM = "array += self.stds[:, None] *"

BUGS = (
    Bug(
        "1",
        "class sums: sensitivity halved",
        "methods/class_sums.py",
        "return max(math.sqrt(2.0), same)",
        "return max(math.sqrt(2.0), same) / 2",
        (replay("class_sums", "text"), test("methods/class_sums::the_sensitivity_is_attained")),
        fast=True,
    ),
    Bug(
        "2",
        "class sums: no constant coordinate, sensitivity still √2",
        "methods/class_sums.py",
        "    share = bias_square(n_classes)\n    constant",
        "    share = 0.0\n    constant",
        (test("methods/class_sums::the_sensitivity_is_attained"),),
    ),
    Bug(
        "3",
        "lattice noise: one column of noise for all",
        "mechanisms/door.py",
        _DISCRETE,
        "discrete_gaussian(lane.generator(stream), steps, (*row.shape[:-1], 1))",
        (audit("gaussian_lattice"),),
    ),
    Bug(
        "4",
        "lattice noise: the replicas of a batch share their noise",
        "mechanisms/door.py",
        _DISCRETE,
        "discrete_gaussian(self.lanes[0].streams.generator(stream), steps, row.shape)",
        (audit("gaussian_lattice"),),
        fast=True,
    ),
    Bug(
        "5",
        "exponential mechanism without noise",
        "mechanisms/door.py",
        "index = exponential_choice(lane.generator(stream), own, query.scale)",
        "index = int(own.argmax())",
        (audit("choose"),),
        fast=True,
    ),
    Bug(
        "6",
        "exponential mechanism at half the scale that its event states",
        "mechanisms/door.py",
        "lane.generator(stream), own, query.scale)",
        "lane.generator(stream), own, query.scale / 2)",
        (audit("choose"),),
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
        "training/dpsgd.py",
        "        factors = (safe / squared_norms**0.5).clip(max=1.0)",
        "        factors = (safe / (0 * squared_norms + squared_norms.mean())**0.5).clip(max=1.0)",
        (test("methods/node_gradients::clipped_sums_equal_those_of_torch_gradients"),),
    ),
    Bug(
        "9",
        "steps: noise times the clip norm twice",
        "mechanisms/door.py",
        "return query.noise_multiplier * query.clip_norm",
        "return query.noise_multiplier * query.clip_norm**0",
        (audit("compiled_steps_float32"), audit("torch_steps")),
    ),
    Bug(
        "10",
        "DP gradients: noise calibrated for a node that vanishes, not a replaced one",
        "methods/text_gradients.py",
        'gdp_noise(request.epsilon, steps.count, task.delta, "replace")',
        'gdp_noise(request.epsilon, steps.count, task.delta, "add_remove")',
        (test("methods/dp_linear::events_are_priced_at_the_request"),),
    ),
    Bug(
        "11",
        "the same noise in every round",
        "mechanisms/door.py",
        _NORMAL,
        "lane.streams.generator(stream).standard_normal(row.shape, dtype=dtype)",
        (audit("gaussian"), audit("gaussian_float32")),
        fast=True,
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
        (_PUBLIC_MAP, replay("class_sums", "text"), replay("dp_linear", "text")),
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
        "mechanisms/door.py",
        "lane.key(self.noise) for lane in self.door.lanes",
        "self.door.lanes[0].streams.key(self.noise) for _ in self.door.lanes",
        (audit("compiled_steps_float32"),),
    ),
    Bug(
        "17",
        "one set of coins for all steps",
        "mechanisms/door.py",
        "else _rate(query), lane.generator(self.coins)",
        "else _rate(query), lane.streams.generator(self.coins)",
        (test("mechanisms/door::coins_are_of_the_rate_and_belong_to_positions[each]"),),
    ),
    Bug(
        "18",
        "GCN: noise of factor .7 in the kernel, the plan as before",
        "training/engine.py",
        "noise_std=self.descent.stds.copy(),",
        "noise_std=0.7 * self.descent.stds,",
        (audit("compiled_steps_float32"), audit("compiled_steps_float64")),
    ),
    Bug(
        "19",
        "lattice noise of factor .93",
        "mechanisms/door.py",
        "steps = round(query.noise_std / query.spacing)",
        "steps = round(0.93 * query.noise_std / query.spacing)",
        (audit("gaussian_lattice"),),
    ),
    Bug(
        "20",
        "noise of steps of factor .93",
        "mechanisms/door.py",
        _SUM,
        "array += 0.93 * self.stds[:, None] *",
        (audit("steps"), audit("steps_float32")),
    ),
    Bug(
        "21",
        "noise of steps drawn once and used in every step",
        "mechanisms/door.py",
        _STEP,
        _STEP.replace("lane.generator", "lane.streams.generator"),
        (audit("steps"),),
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
        "steps: replicas share their noise",
        "mechanisms/door.py",
        _STEP,
        _STEP.replace("lane.generator(self.noise)", "self.door.lanes[0].generator(self.noise)")
        + "\n                row[...] = self._buffer[0]",
        (audit("steps"),),
    ),
    Bug(
        "29",
        "steps: the last coordinates get no noise",
        "mechanisms/door.py",
        _STEP,
        _STEP + "\n                row[-2:] = 0",
        (audit("steps"),),
    ),
    Bug(
        "30",
        "edge votes: the first row without noise",
        "methods/edge_votes.py",
        "    return door.gaussian(sums[None], [query])[0]",
        "    noisy = door.gaussian(sums[None], [query])[0]\n"
        "    noisy[0] = sums[0] * lattice.spacing\n"
        "    return noisy",
        (replay("edge_votes", "edges"),),
    ),
    Bug(
        "31",
        "label counts: noise of training rows for one changed row, though an edge moves two",
        "methods/label_counts.py",
        "< n_train, 2, 1)",
        "< n_train, 1, 1)",
        (
            replay("label_counts", "edges"),
            test(
                "methods/label_counts::"
                "noise_is_the_discrete_laplace_of_the_price_and_of_twice_the_scale_in_training_rows"
            ),
        ),
    ),
    Bug(
        "32",
        "steps of all units: parameters descend along the exact sum",
        "training/dpsgd.py",
        "            total = descent.add(clipped_sum(()))",
        "            total = clipped_sum(())\n            descent.add(total.copy())",
        (replay("dp_linear", "text"), replay("dp_mlp", "graph")),
        fast=True,
    ),
    Bug(
        "33",
        "noisy sums: rows are not scaled to norm 1",
        "methods/noisy_sums.py",
        "unit = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)",
        "unit = 3 * rows",
        (replay("gap", "links"),),
    ),
    Bug(
        "34",
        "DP-GNN: the epoch that is kept is chosen by validation scores under sound too",
        "methods/dp_gnn.py",
        '            epoch="last",',
        '            epoch="best_validation",',
        (replay("dp_gnn", "lists"),),
    ),
    Bug(
        "35",
        "a run may release less than its plan says",
        "mechanisms/door.py",
        "missing = self.uses[query] < _count(query) and query not in self.capped",
        "missing = False",
        (test("mechanisms/door::more_or_less_than_planned_is_refused[1]"),),
    ),
    Bug(
        "36",
        "a run may release more than its plan says",
        "mechanisms/door.py",
        "        self.uses[query] += count\n",
        "        self.uses[query] = count\n",
        (test("mechanisms/door::more_or_less_than_planned_is_refused[3]"),),
    ),
)


def table() -> str:
    """Return the bugs and what catches each, as Markdown."""
    lines = ["| bug | planted in | caught by |", "| --- | --- | --- |"]
    for bug in BUGS:
        found = []
        for catcher in bug.catchers:
            audited = re.search(r"as_claimed\[(\w+)\]", catcher)
            replayed = re.search(r"methods_pass\[(\w+)-(\w+)-sound\]", catcher)
            if audited:
                found.append(f"`audit --mechanisms`, {audited[1]}")
            elif replayed:
                found.append(f"`audit --replay --method {replayed[1]}`, {replayed[2]}")
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
