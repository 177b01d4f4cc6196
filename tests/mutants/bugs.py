"""Bugs that break a proof, as patches of the present code, and what must notice each.

A patch replaces one piece of text, which occurs once, in one file. A catcher is a test that fails
where the bug is planted.
``python tests/mutants/bugs.py`` writes docs/planted-bugs.csv and what docs/audits.md says of it.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE, TABLE = ROOT / "docs" / "audits.md", ROOT / "docs" / "planted-bugs.csv"
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
    folder: str = "src/private_graphs"
    """Folder of the project that ``path`` is below."""

    def patched(self, text: str) -> str:
        """Return ``text`` with the bug; ValueError unless the old text occurs once."""
        if text.count(self.old) != 1 or self.old == self.new:
            raise ValueError(
                f"bug {self.name}: its old text is {text.count(self.old)} times in {self.path}; "
                "expected once: plant the same bug where the code went"
            )
        return text.replace(self.old, self.new)


def _fresh(kind: str) -> str:
    """Return the test that sees a kind of run draw the operating system's bytes."""
    return test(f"entropy::a_run_with_fresh_noise_draws_32_bytes_of_the_operating_system[{kind}]")


_PUBLIC = "public_adjacency=edges[public][:, public] if"
_PUBLIC_MAP = test("methods/public_text::the_map_is_the_same_for_other_training_nodes")
_DISCRETE = "discrete_gaussian(lane.generator(stream), steps, row.shape)"
_NORMAL = "lane.generator(stream).standard_normal(row.shape, dtype=dtype)"
_STEP = "lane.generator(self.noise).standard_normal(dtype=self.dtype, out=row)"
_SUM = "noise *= self.stds[:, None]"
_DPDGC = "studies/dpdgc/methods/dpdgc.py"
_AS_SURE = test("attacks/link_inference::an_attack_is_as_sure_as_it_is_right[gap-links-4.0]")
_OWN_DELTA = test("attacks/link_inference::"
                  "what_all_guesses_show_is_held_against_the_proof_at_their_own_delta")  # fmt: skip
_INTERVAL = test("attacks/membership::an_interval_resamples_targets_and_nodes")
_BY_SHADOWS = test("attacks/membership::"
                   "targets_are_scored_by_shadows_and_by_no_coin_of_targets")  # fmt: skip
_LEAST = test("report/site::"
              "of_several_statements_every_number_is_that_which_promises_least[0]")  # fmt: skip
_FEW_WORDS = test("report/site::"
                  "the_few_words_of_a_statement_round_a_proof_up_and_a_bound_down")  # fmt: skip
_PLANNED = "`Door` adds the noise of the planned event itself: a method has no standard deviation"
_OPENED = "`Lane.generator` opens a stream once and goes on: two calls never have the same noise"

BY_DESIGN = (
    ("noise of sums, steps or rows at a part of what the event says, in a method", _PLANNED),
    ("no noise for the density of EdgeRand, in the method", _PLANNED),
    ("one draw of noise in all steps, or for the sums of all stages, in a method", _OPENED),
    ("the coins of the first step in every step, in a method",
     "`Descent.take` refuses others than those whom the last coins chose"),
    ("one lot in all steps of an epoch", "`Descent.add` refuses a step without coins of its own"),
    ("more answers than the cap that is paid", "`Ledger.spend` counts the rows that `Door.rows` "
     "tells; the method keeps the cap, too (bug N9)"),
    ("noise calibrated for fewer releases, another δ or another relation than the event has",
     "the runner prices the plan and refuses more than was asked for (`run._refuse_excess`)"),
    ("an event that states other noise than was added", "the runner compares what is stated with "
     "what passed the door (`run.Runner.answers`)"),
)  # fmt: skip
"""Bugs that a method cannot have, and what makes them impossible."""

BUGS = (
    Bug("1", "class sums: sensitivity halved", "methods/class_sums.py",
        "return max(math.sqrt(2.0), same)", "return max(math.sqrt(2.0), same) / 2",
        (replay("class_sums", "text"),
         test("methods/class_sums::the_sensitivity_is_attained"))),
    Bug("2", "class sums: no constant coordinate, sensitivity still √2", "methods/public_rows.py",
        "    share = bias_square(n_classes)\n    constant", "    share = 0.0\n    constant",
        (test("methods/class_sums::the_sensitivity_is_attained"),)),
    Bug("2b", "class sums: residuals are not clipped", "methods/exact_sums.py",
        "    return shares * np.minimum(1, CLIP_NORM / np.maximum(sizes, CLIP_NORM))",
        "    return shares",
        (test("methods/class_sums::terms_of_the_steps_are_clipped_and_read_their_own_row"),)),
    Bug("3", "lattice noise: one column of noise for all", "mechanisms/door.py",
        _DISCRETE, "discrete_gaussian(lane.generator(stream), steps, (*row.shape[:-1], 1))",
        (audit("gaussian_lattice"),)),
    Bug("4", "lattice noise: the replicas of a batch share their noise", "mechanisms/door.py",
        _DISCRETE, _DISCRETE.replace("lane.", "self.lanes[0].streams.of_door."),
        (audit("gaussian_lattice"),)),
    Bug("6", "exponential mechanism at half the scale that its event states", "mechanisms/door.py",
        "scale = without if query is None else query.scale",
        "scale = without if query is None else query.scale / 2",
        (audit("choose_top"),)),
    Bug("7b", "validation scores on labels that are not known", "running/run.py",
        "validation |= scores(known, outcome.validation_predictions[request.known])",
        "validation |= scores(self.task.validation_labels, outcome.validation_predictions)",
        (test("run::"
              "validation_labels_that_are_not_known_change_no_column[class_sums-text-sound]"),)),
    Bug("8", "gradients clipped after summing, in place of each node's", "training/dpsgd.py",
        "        factors = safe / squared_norms**0.5\n",
        "        factors = safe / squared_norms.mean() ** 0.5 + 0 * squared_norms\n",
        (test("methods/node_gradients::clipped_sums_equal_those_of_torch_gradients"),)),
    Bug("9", "steps: noise times the clip norm twice", "mechanisms/descent.py",
        "return query.noise_multiplier * query.clip_norm",
        "return query.noise_multiplier * query.clip_norm**0",
        (audit("compiled_steps_float32"), audit("torch_steps"))),
    Bug("10", "DP gradients: noise calibrated for a node that vanishes, not a replaced one",
        "methods/node_gradients.py",
        'gdp_noise(request.epsilon, steps, task.delta, "replace")',
        'gdp_noise(request.epsilon, steps, task.delta, "add_remove")',
        (test("methods/dp_linear::events_are_priced_at_the_request"),)),
    Bug("11", "the same noise in every round", "mechanisms/door.py",
        _NORMAL, "lane.streams.of_door.generator(stream).standard_normal(row.shape, dtype=dtype)",
        (audit("gaussian"), audit("gaussian_float32"))),
    Bug("13", "rows of training nodes read edges among training nodes", "methods/public_text.py",
        "        return unit_rows(rows + task.train_to_public[nodes] @ self.met)",
        "        more = reweighted(task.train_features, self.weights)\n"
        "        rows = rows + task.train_adjacency[nodes] @ more\n"
        "        return unit_rows(rows + task.train_to_public[nodes] @ self.met)",
        (test("methods/public_text::a_replaced_training_node_changes_its_own_row_alone"),)),
    Bug("14", "document weights counted on training texts too", "methods/public_text.py",
        "        weights = inverse_document_weights(plain)",
        "        both = scipy.sparse.vstack([plain, task.train_features])\n"
        "        weights = inverse_document_weights(scipy.sparse.csr_matrix(both))",
        (_PUBLIC_MAP, replay("class_sums", "text"), replay("dp_linear", "text"))),
    Bug("15", "no secret in the noise where the operating system's entropy is asked for",
        "running/result.py",
        'return fresh_bytes() if noise_source == "os_entropy" else None', "return None",
        (test("run::"
              "noise_of_the_operating_system_differs_every_time_and_tells_no_hash[dp_linear-text]"),)),
    Bug("16", "GCN: all replicas draw their noise from the key of the first",
        "mechanisms/descent.py",
        "lane.key(self.noise) for lane in self.door.lanes",
        "self.door.lanes[0].streams.of_door.key(self.noise) for _ in self.door.lanes",
        (audit("compiled_steps_float32"),)),
    Bug("17", "one set of coins for all steps", "mechanisms/descent.py",
        "else _rate(query), lane.generator(self.coins)",
        "else _rate(query), lane.streams.of_door.generator(self.coins)",
        (test("mechanisms/door::coins_are_of_the_rate_and_belong_to_positions[each]"),)),
    Bug("18", "GCN: noise of factor .7 in the kernel, the plan as before", "training/engine.py",
        "noise_std=self.descent.stds.copy(),", "noise_std=0.7 * self.descent.stds,",
        (audit("compiled_steps_float32"), audit("compiled_steps_float64"))),
    Bug("19", "lattice noise of factor .93", "mechanisms/door.py",
        "steps = round(query.noise_std / query.spacing)",
        "steps = round(0.93 * query.noise_std / query.spacing)",
        (audit("gaussian_lattice"),)),
    Bug("20", "noise of steps of factor .93", "mechanisms/descent.py",
        _SUM, "noise *= 0.93 * self.stds[:, None]",
        (audit("steps"), audit("steps_float32"))),
    Bug("21", "noise of steps drawn once and used in every step", "mechanisms/descent.py",
        _STEP, _STEP.replace("lane.generator", "lane.streams.of_door.generator"),
        (audit("steps"),)),
    Bug("26", "public graph: edges between public nodes that share a training neighbour",
        "tasks/graph_task.py",
        _PUBLIC, "public_adjacency=(edges + edges @ edges).sign()[public][:, public] if",
        (test("tasks::the_public_graph_is_the_edges_between_public_nodes"),)),
    Bug("27", "public graph: degrees count training neighbours", "tasks/graph_task.py",
        _PUBLIC,
        "public_adjacency=scipy.sparse.csr_matrix(scipy.sparse.diags(1.0 / (1 + edges[public].sum("
        "axis=1).A1)) @ edges[public][:, public]) if",
        (test("tasks::the_public_graph_is_the_edges_between_public_nodes"),)),
    Bug("28", "steps: replicas share their noise", "mechanisms/descent.py",
        _STEP,
        _STEP.replace("lane.generator(self.noise)", "self.door.lanes[0].generator(self.noise)")
        + "\n                row[...] = self._buffer[0]",
        (audit("steps"),)),
    Bug("29", "steps: the last coordinates get no noise", "mechanisms/descent.py",
        _STEP, _STEP + "\n                row[-2:] = 0",
        (audit("steps"),)),
    Bug("30", "edge votes: the first row without noise", "methods/edge_votes.py",
        "    return door.gaussian(sums[None], [query])[0]",
        "    noisy = door.gaussian(sums[None], [query])[0]\n"
        "    noisy[0] = sums[0] * lattice.spacing\n"
        "    return noisy",
        (replay("edge_votes", "edges"),)),
    Bug("31", "label counts: noise of training rows for one changed row, though an edge moves two",
        "methods/label_counts.py",
        "< n_train, 2, 1)", "< n_train, 1, 1)",
        (replay("label_counts", "edges"),
         test("methods/label_counts::"
              "noise_is_the_discrete_laplace_of_the_price_and_of_twice_the_scale_in_training_rows"))),
    Bug("32", "steps of all units: parameters descend along the exact sum", "training/dpsgd.py",
        "            total = descent.add(clipped_sum(()))",
        "            total = clipped_sum(())\n            descent.add(total.copy())",
        (replay("dp_linear", "text"),), fast=True),
    Bug("33", "noisy sums: rows are not scaled to norm 1", "methods/noisy_sums.py",
        "unit = np.divide(rows, norms, out=np.zeros_like(rows), where=finite)",
        "unit = 3 * rows",
        (replay("gap", "links"),)),
    Bug("34", "DP-GNN: the epoch that is kept is chosen by validation scores under sound too",
        "studies/progap/methods/dp_gnn.py",
        '        epoch="last",', '        epoch="best_validation",',
        (replay("dp_gnn", "lists"),)),
    Bug("35", "a run may release less than its plan says", "mechanisms/door.py",
        "missing = self.uses[query] < _count(query) and query not in self.capped",
        "missing = False",
        (test("mechanisms/door::less_than_planned_is_refused[1]"),)),
    Bug("36", "a run may release more than its plan says", "mechanisms/door.py",
        "self.uses[query] = uses = uses + count", "self.uses[query] = uses = count",
        (test("mechanisms/door::more_than_planned_is_refused_before_it_is_drawn"),)),
    Bug("N1", "label sums: sensitivity √D for √(2D), noise and event alike",
        "methods/label_sums.py",
        "return math.sqrt(2 * self.degree)", "return math.sqrt(self.degree)",
        (replay("label_sums", "lists"),)),
    Bug("M1", "list means: entries are rounded to the nearest", "methods/list_means.py",
        "math.isqrt(LIST_SHARE / max(1, int(d)) // spacing**2)",
        "round(math.sqrt(LIST_SHARE / max(1, int(d))) / spacing)",
        (test("methods/list_means::"
              "entries_are_rounded_down_and_a_term_is_no_longer_than_one[spacing0]"),)),
    Bug("M2", "list means: features of any sign", "methods/list_means.py",
        ".maximum(0)", "",
        (test("methods/list_means::entries_are_rounded_down_and_a_term_is_no_longer_than_one"
              "[spacing0]"),)),
    Bug("M3", "label counts: both ends of an edge between asked nodes receive",
        "methods/label_counts.py",
        "scipy.sparse.triu(task.adjacency[task.n_train :, task.n_train :], 1)",
        "scipy.sparse.csr_matrix(task.adjacency[task.n_train :, task.n_train :])",
        (replay("label_counts", "edges"),)),
    Bug("M4", "list means: a score is divided by the mean length of all lists",
        "methods/list_means.py",
        "/ np.sqrt(length)[:, None]", "/ np.sqrt(length.mean())",
        (test("methods/list_means::"
              "a_score_reads_the_sums_and_the_record_of_its_own_node_alone"),)),
    Bug("M5", "label counts: exact counts weigh the second release", "methods/label_counts.py",
        "second(reading, noisy[:n], votes)", "second(reading, counts[:n] / STEPS_OF_ONE, votes)",
        (replay("label_counts", "edges"),)),
    Bug("M6", "class sums: the ridge of the steps follows from the number of labelled nodes",
        "methods/class_sums.py",
        "MOMENT_RIDGE * self.task.n_units / size", "MOMENT_RIDGE * self.task.n_train / size",
        (test("methods/class_sums::a_replay_with_residual_steps_finds_nothing[text]"),)),
    Bug("M7", "class sums: the weights of all replicas are rounded on one grid",
        "methods/class_sums.py",
        "np.linalg.norm(weights, axis=1).max(axis=1))",
        "np.linalg.norm(weights, axis=1).max() * np.ones(n_sets))",
        (test("methods/class_sums::"
              "the_sum_of_one_replica_does_not_depend_on_the_weights_of_others"),)),
    Bug("M8", "rows: structure is centred on the training nodes that are computed together",
        "methods/public_rows.py",
        "structure - self.centre, 0", "structure - structure.mean(axis=0), 0",
        (test("methods/class_sums::"
              "a_node_adds_the_same_whatever_the_others_are[graph]"),)),
    Bug("M9", "documents: columns follow from the number of labelled units",
        "documents/release.py",
        "= public, trained, ", "= public, len(np.unique(docs.unit_of[docs.labels >= 0])), ",
        (test("documents/documents::"
              "a_plan_follows_from_ids_and_is_charged_in_full[None-class_sums]"),)),
    Bug("M10", "documents: exact counts of right answers", "documents/release.py",
        "answers = ClassAnswers.of(noisy, ", "answers = ClassAnswers.of(exact * lattice.spacing, ",
        (test("documents/documents::"
              "a_replayed_release_reads_a_person_through_the_door_alone[False-class_sums]"),)),
    Bug("M11", "documents: a release on the other side is not charged", "documents/accounts.py",
        "pairs = pairs[:, was[pairs[1]]]",
        "pairs = pairs[:, was[pairs[1]] & (now.sides[pairs[0]] == side)]",
        (test("documents/documents::"
              "a_person_pays_for_all_documents_whatever_the_unit_was_called"),)),
    Bug("M12", "documents: another spelling of an id is another account", "documents/ledger.py",
        "list(map(seen, ids))", "ids",
        (test("documents/documents::another_key_and_another_spelling_reset_no_account"),)),
    Bug("M13", "documents: units are rounded together", "documents/unit_sums.py",
        "            terms = lattice.rounded(mean.data)\n",
        "            mean = scipy.sparse.csr_matrix(mean.sum(axis=0))\n"
        "            terms = lattice.rounded(mean.data)\n",
        (test("documents/documents::a_unit_is_rounded_by_itself[class_sums]"),)),
    Bug("M14", "documents: steps add up the documents of a unit", "documents/unit_steps.py",
        "on_grid(terms * self.shares[block], ", "on_grid(terms, ",
        (test("documents/documents::"
              "a_replaced_unit_moves_the_averaged_sums_by_their_sensitivity_at_most[dp_linear]"),)),
    Bug("M15", "documents: the norm that is clipped leaves out the constant of a row",
        "documents/unit_steps.py",
        "np.sqrt(squares) / 2.0**ROW_BITS",
        "np.sqrt(squares - (BIAS * 2**ROW_BITS) ** 2 + 1) / 2.0**ROW_BITS",
        (test("documents/documents::a_unit_has_the_clip_norm_in_a_step_at_most"),)),
    Bug("M16", "documents: the ledger enters the counts of a release without its steps",
        "documents/release.py", "side: Cost(mu_of(queries), ", "side: Cost(mu_of(queries[:1]), ",
        (test("documents/documents::"
              "a_plan_follows_from_ids_and_is_charged_in_full[None-dp_linear]"),)),
    Bug("M17", "documents: the links of a release are not charged", "documents/links.py",
        "return Cost(mu_of(self.events), ", "return Cost(0 * mu_of(self.events), ",
        (test("documents/documents::links_have_an_account_and_publish_the_documents"),)),
    Bug("M18", "documents: what is published is not charged", "documents/release.py",
        "return private | dict.fromkeys(public, PUBLISHED)", "return private",
        (test("documents/documents::what_a_release_published_is_protected_by_no_later_one"),)),
    Bug("M19", "documents: a hash of the table under a known key", "documents/release.py",
        "published_fingerprint(sha256_of(spec.nodes), secret)",
        'published_fingerprint(sha256_of(spec.nodes), b"a known key")',
        (test("documents/documents::"
              "an_attack_stays_private_and_sees_something_but_no_more_than_is_proved"),)),
    Bug("M20", "documents: the exact number of labelled units sets the rate of the steps",
        "documents/unit_steps.py",
        "labelled = max(float(sizes.sum()), 1.0)",
        "labelled = max(float(exact.sum() * self.count_lattice.spacing), 1.0)",
        (test("documents/documents::"
              "a_replayed_release_reads_a_person_through_the_door_alone[False-dp_linear]"),)),
    Bug("M21", "word sums: the hash of a word has a sign", "documents/unit_words.py",
        "public.words, signed=False)", "public.words, signed=True)",
        (test("methods/word_sums::"
              "terms_of_documents_have_no_negative_entry_and_norm_one_at_most"),)),
    Bug("M22", "word sums: features of any sign", "methods/word_sums.py",
        "rows = scipy.sparse.csr_matrix(features.maximum(0))", "return unit_rows(features)",
        (test("methods/word_sums::"
              "the_sensitivity_is_attained_and_opposite_features_do_not_exceed_it"),)),
    Bug("M23", "word sums: the number of labelled nodes caps the sizes", "methods/word_sums.py",
        "alone = weights = weights_of(noisy, task.n_units)",
        "alone = weights = weights_of(noisy, task.n_train)",
        (replay("word_sums", "text"),)),
    Bug("M24", "word sums: a gate that is always open", "methods/word_prior.py",
        "return float((told - alone).sum()) > 0", "return True",
        (test("methods/word_sums::"
              "public_documents_unlike_the_private_ones_change_nothing[others-20]"),)),
    Bug("M25", "documents: test units train", "documents/release.py",
        "training.released(terms_of(docs, TRAINING), ",
        "training.released(terms_of(docs, TRAINING, TEST), ",
        (test("documents/documents::"
              "a_replayed_release_reads_a_person_through_the_door_alone[False-word_sums]"),)),
    Bug("M26", "documents: the number of labelled units caps the sizes",
        "documents/release.py",
        "= public, trained, n_classes",
        "= public, int((docs.labels >= 0).sum()), n_classes",
        (test("documents/documents::"
              "a_plan_follows_from_ids_and_is_charged_in_full[None-word_sums]"),)),
    Bug("M27", "documents: links among private documents are read", "documents/rivals.py",
        "rows = docs.on(*PUBLIC)", "rows = np.flatnonzero(docs.kept)",
        (test("documents/neighbours::"
              "a_replayed_release_reads_no_link_of_a_private_document"),)),
    Bug("M28", "documents: a label votes on linked documents of its own fold",
        "documents/rivals.py",
        "np.where(asked, -1, self.terms.labels)", "self.terms.labels",
        (test("documents/neighbours::no_label_answers_about_its_own_fold"),)),
    Bug("M29", "documents: a release is tested on what it has read", "documents/rivals.py",
        "np.flatnonzero(~asked)", "np.arange(len(asked))",
        (test("documents/neighbours::no_label_answers_about_its_own_fold"),)),
    Bug("M30", "documents: a public document with a class votes by what the release says of it",
        "documents/neighbours.py",
        "unknown[:, None], softmax(scores", "scores > -1e300, softmax(scores",
        (test("documents/neighbours::"
              "documents_without_a_class_vote_by_what_a_release_says_of_them"),)),
    Bug("N3", "noisy sums: an undirected edge counted as one directed one", "methods/noisy_sums.py",
        "sensitivity=math.sqrt(2) if edge else", "sensitivity=1.0 if edge else",
        (replay("gap", "links"), replay("progap", "links"))),
    Bug("N4", "DP-GNN: D + 1 changed roots for 2D + 1", "studies/progap/methods/dp_gnn.py",
        "return min(2 * self.degree + 1, self.population)",
        "return min(self.degree + 1, self.population)",
        (test("methods/dp_gnn::"
              "a_replaced_node_moves_every_root_of_both_of_its_lists_by_twice_the_clip"),)),
    Bug("N5", "stacks: the bias of the first layer is no part of the norm that is clipped",
        "training/stacks.py",
        "squares * (view.squares + 1) if", "squares * view.squares if",
        (replay("progap", "lists"), replay("label_sums", "lists"))),
    Bug("N7", "DP-APPR: R changed gradients priced, not R + 1",
        "studies/dpappr/methods/appr_budget.py",
        "else min(plan.others + 1, plan.n_roots)\n    return 2",
        "else min(max(1, plan.others), plan.n_roots)\n    return 2",
        (test("methods/appr::a_run_under_sound_says_nothing_of_its_sample[appr_gaussian]"),)),
    Bug("N8", "DP-APPR: the secret sample is sorted by number", "studies/dpappr/methods/appr.py",
        "nodes = train[places]", "nodes = train[np.sort(places)]",
        (test("methods/appr::places_of_a_sample_are_in_the_order_of_the_draw"),)),
    Bug("N9", "PATE: the cap on answers is not kept", "studies/pate/methods/pate_votes.py",
        "    passed &= np.cumsum(passed) <= noise.answers\n", "",
        (test("methods/pate_votes::caps_hold_in_every_draw_and_refusals_take_draws"),)),
    Bug("N10", "means of parts are not cut", "studies/inversion/methods/part_means.py",
        "means *= np.minimum(1, bound", "means *= np.maximum(1, 0 * bound",
        (replay("part_means", "subclasses"),)),
    Bug("N11", "scattering: streams of the door are opened anew in every step",
        "methods/scattering.py",
        "        pass\n    return weights\n\n\ndef stated",
        "        [lane._opened.clear() or lane._taken.clear() for lane in descent.door.lanes]\n"
        "    return weights\n\n\ndef stated",
        (replay("scattering", "records"),)),
    Bug("N12", "the coins of the first step in every step", "training/dpsgd.py",
        "        yield descent.join(population, rate)",
        "        lot = descent.join(population, rate)\n        yield lot\n"
        "        descent.join(population, rate)\n        yield lot",
        (replay("unit_gradients", "records"), replay("mlp_records", "records"))),
    Bug("N14", "EdgeRand: noise of the density as if it had the whole budget",
        "studies/progap/methods/edge_rand.py",
        "[query], sensitivity=moves, stream", "[query], sensitivity=moves * (1 - SHARE), stream",
        (replay("edge_rand", "links"),)),
    Bug("N15", "randomised response keeps the true cell with e^(2ε)", "mechanisms/door.py",
        "keep = math.exp(query.epsilon) / (math.exp(query.epsilon) + n_cells - 1)",
        "keep = math.exp(2 * query.epsilon) / (math.exp(2 * query.epsilon) + n_cells - 1)",
        (audit("respond"),)),
    Bug("N16", "shards: noise is drawn again for other sums", "workflow/sharded.py",
        "            if spent.read_text() != whole.hexdigest():",
        "            if not spent.read_text():",
        (test("sharded::noise_is_drawn_once"),)),
    Bug("N17", "a secret sample amplifies as q times ε", "privacy/secret_samples.py",
        "return math.log1p(rate * math.expm1(epsilon))", "return rate * epsilon",
        (test("privacy/secret_sample::"
              "two_units_of_which_one_is_read_keep_the_amplified_profile"),)),
    Bug("N18", "ε of a file composes the rows of one budget alone", "running/run.py",
        "private = [peer for peer in runs if math.isfinite(peer.epsilon)]\n        without",
        "private = [peer for peer in runs if peer.epsilon == run.epsilon]\n        without",
        (test("run::all_private_rows_of_a_file_compose"),)),
    Bug("N20", "streams: every purpose has the same draws", "core/streams.py",
        'f"{self.identity}/{name}"', 'f"{self.identity}/name"',
        (test("training/replicas::streams_are_told_apart_by_every_field_purpose_and_secret"),)),
    Bug("S9", "streams: under a secret a public stream is the noise of the door",
        "core/streams.py", 'f"door/{name}" if by_door and self.secret else name', "name",
        (test("mechanisms/door::no_public_purpose_reaches_a_stream_of_the_door"),)),
    Bug("S10", "streams: a method may draw the noise of its own release", "core/streams.py",
        "if self._opened.setdefault(name, by_door) != by_door:", "if False:",
        (test("mechanisms/door::a_method_cannot_draw_the_noise_of_its_own_release"),)),
    Bug("L1", "the noise of a value repeats after 64 numbers", "mechanisms/door.py",
        _NORMAL,
        "np.resize(lane.generator(stream).standard_normal(64, dtype=dtype), row.shape)",
        (audit("gaussian"), audit("gaussian_float32"))),
    Bug("L2", "DP-APPR: the noise of a step repeats in every block of 4,096 numbers",
        "training/roots.py", "fill_normals(key, t, begin // 4,", "fill_normals(key, t, 0,",
        (audit("root_steps"),)),
    Bug("L3", "the noise of steps is cut off at 4 standard deviations", "mechanisms/descent.py",
        _SUM, "noise = np.clip(noise, -4, 4) * self.stds[:, None]",
        (audit("steps"), audit("steps_float32"))),
    Bug("L4", "the noise of a value sums to zero", "mechanisms/door.py",
        "out += dtype(query.noise_std) * noise",
        "out += dtype(query.noise_std) * (noise - noise.mean())",
        (audit("gaussian"), audit("gaussian_float32"))),
    Bug("L5", "lattice noise repeats after 16 numbers of a value", "mechanisms/door.py",
        _DISCRETE,
        "np.resize(discrete_gaussian(lane.generator(stream), steps, 16), row.shape)",
        (audit("gaussian_lattice"), replay("class_sums", "text"))),
    Bug("E1", "a release of documents is keyed by bytes that are always the same",
        "documents/noise.py", "secret: bytes = field(default_factory=fresh_bytes, repr=False)",
        "secret: bytes = bytes(32)", (_fresh("classify"), _fresh("classify_links"))),
    Bug("E2", "a graph in shards is keyed by 8 bytes", "workflow/sharded.py",
        "temporary.write_bytes(fresh_bytes())", "temporary.write_bytes(fresh_bytes(8))",
        (_fresh("shards"),)),
    Bug("N21", "edge votes: each of the two messages is clipped, not both together",
        "methods/edge_votes.py",
        "norms = np.sqrt((to_first**2).sum(axis=1) + (to_second**2).sum(axis=1))",
        "norms = np.sqrt(np.maximum((to_first**2).sum(axis=1), (to_second**2).sum(axis=1)))",
        (replay("edge_votes", "edges"),)),
    Bug("N22", "noise of factor .7 on float sums", "mechanisms/door.py",
        "out += dtype(query.noise_std) * noise", "out += dtype(0.7 * query.noise_std) * noise",
        (audit("gaussian"), audit("gaussian_float32"), replay("gap", "links"))),
    Bug("N24", "noise of factor .7 on rows that are asked", "mechanisms/door.py",
        "noisy[mask] += query.noise_std * noise[mask]",
        "noisy[mask] += 0.7 * query.noise_std * noise[mask]",
        (audit("rows"),)),
    Bug("N26", "Laplace noise for an ε alone is missing", "mechanisms/door.py",
        "out += draw.laplace(0, sensitivity / query.epsilon * weights, row.shape)",
        "draw.laplace(0, sensitivity / query.epsilon * weights, row.shape)",
        (audit("laplace_pure"),)),
    Bug("N28", "DP-APPR: noise of factor .7 in the compiled steps of roots", "training/roots.py",
        "longest, clip, float(descent.stds[0])", "longest, clip, 0.7 * float(descent.stds[0])",
        (audit("root_steps"),)),
    Bug("P1", "DP-APPR: the noise of the first step in all compiled steps of roots",
        "training/roots.py",
        "fill_normals(key, t, begin // 4", "fill_normals(key, 0, begin // 4",
        (audit("root_steps"),)),
    Bug("P2", "codes of classes: means that are released are not cut to norm 1",
        "studies/inversion/methods/class_codes.py",
        "(_in_ball((points - centre) @ axes.T / scale) for points in (means, public))",
        "((points - centre) @ axes.T / scale for points in (means, public))",
        (replay("class_codes", "classes"),)),
    Bug("P3", "PATE: exact votes, not noisy ones, say which queries pass",
        "studies/pate/methods/pate_votes.py",
        "mask & (largest >= noise.threshold)", "mask & (votes.max(axis=1) >= noise.threshold)",
        (replay("pate_student", "records"),)),
    Bug("P4", "PATE: teachers get their records by label", "studies/pate/methods/pate_labels.py",
        '_parts(task.n_units, settings.teachers, request.streams.generator("partition")),',
        "np.argsort(task.train_labels)[_parts(task.n_units, settings.teachers, "
        'request.streams.generator("partition"))],',
        (test("methods/pate_votes::which_records_a_teacher_has_follows_from_no_record"),)),
    Bug("P5", "DP-GNN: a reader drops senders of the sum that answers, which is priced for senders",
        "studies/progap/methods/dp_gnn.py",
        "NoisySums(received, door", "NoisySums(reading, door",
        (test("methods/noisy_sums::"
              "under_lists_a_replaced_node_changes_its_own_column_of_a_sum_alone[dp_gnn]"),)),
    Bug("P6", "EdgeRand: the sensitivity that sets the noise follows from the number of edges",
        "studies/progap/methods/edge_rand.py",
        "noisy_density(edges.shape[1] / n_pairs, 1 / n_pairs, door",
        "noisy_density(edges.shape[1] / n_pairs, 1 / (n_pairs - edges.shape[1]), door",
        (replay("edge_rand", "links"),)),
    Bug("P7", "units: which records are drawn of one depends on whether another one has any",
        "training/unit_sgd.py",
        "            offsets = (drawn * sizes[:, None]).astype(np.int64)",
        "            offsets = np.zeros(drawn.shape, np.int64)\n"
        "            offsets[mask] = drawn[: mask.sum()] * sizes[mask, None]",
        (test("methods/unit_gradients::a_unit_that_loses_its_records_changes_no_draw_of_others"),)),
    Bug("P8", "roots are clipped to 1.4 C", "training/roots.py",
        "        if squared > clip * clip:", "        if squared > dtype(2) * clip * clip:",
        (test("training/roots::a_replaced_node_moves_the_clipped_sum_as_far_as_it_has_rows"),)),
    Bug("P9", "label sums: the noise of all replicas is averaged", "methods/label_sums.py",
        "    noisy = torch.from_numpy(sums.release(1, sent))\n",
        "    noisy = torch.from_numpy(sums.release(1, sent))\n    noisy[:] = noisy.mean(0)\n",
        (replay("label_sums", "lists"),)),
    Bug("P10", "coins are tossed by labelled node, not by public place", "methods/noisy_sums.py",
        "        return places_of(self.task.graph.train_mask, self.train)",
        "        return np.arange(len(self.train))",
        (replay("progap", "lists"), replay("label_sums", "lists"))),
    Bug("P17", "the rate of coins follows from the number of nodes with a label",
        "methods/noisy_sums.py",
        "rate=min(1.0, settings.lot / n),",
        "rate=min(1.0, settings.lot / int((task.graph.train_mask & (task.graph.labels >= 0))"
        ".sum())),",
        (replay("progap", "lists"), replay("label_sums", "lists"))),
    Bug("P11", "means of parts: a sum stands in the column of seconds",
        "studies/inversion/methods/part_means.py",
        'measured={"noise_multiplier"',
        'measured={"seconds": sums_of[request.settings.parts][0, 0], "noise_multiplier"',
        (replay("part_means", "subclasses"),)),
    Bug("S1", "units: the total of the progress is the number of records with a label",
        "methods/unit_gradients.py",
        "            context.report(sum(done), total)",
        "            context.report(sum(done), int((task.train_labels >= 0).sum()))",
        (replay("unit_gradients", "records"),)),
    Bug("S2", "means of parts: a file is as large as the number of images with a label",
        "studies/inversion/methods/part_means.py",
        "    outcomes = []\n    for request in context.in_turn(requests):\n",
        "    outcomes = []\n"
        "    with open('labelled', 'wb') as file:\n"
        "        file.write(bytes(int((task.train_labels >= 0).sum())))\n"
        "    for request in context.in_turn(requests):\n",
        (replay("part_means", "subclasses"),)),
    Bug("S3", "list means: the number of nodes with a label is printed", "methods/list_means.py",
        "    block, length = lists[train],",
        "    print(len(train))\n    block, length = lists[train],",
        (replay("list_means", "lists"),)),
    Bug("S4", "EdgeRand: the pairs that were edges come first", "mechanisms/door.py",
        "np.sort(np.concatenate([stay, extras[:count]]))",
        "np.concatenate([stay, extras[:count]])",
        (test("mechanisms/replay::a_set_that_tells_its_order_is_found"),
         replay("edge_rand", "links"))),
    Bug("S5", "units: the norm of a record's gradient leaves the bias out",
        "training/picture_nets.py",
        'norms = np.einsum("jmd,jmd->j", inputs, inputs) + 1',
        'norms = np.einsum("jmd,jmd->j", inputs, inputs)',
        (replay("unit_gradients", "records"),)),
    Bug("S6", "codes of classes: means of classes get half the noise",
        "studies/inversion/methods/class_codes.py",
        "sensitivity=2.0,\n        noise_std=2 * gdp_noise(",
        "sensitivity=1.0,\n        noise_std=gdp_noise(",
        (replay("class_codes", "classes"),)),
    Bug("S7", "GCN: masks of a part follow the part before it under a replay",
        "training/engine.py", "if not (several and self.descent.public_places):", "if True:",
        (test("training/public_places::"
              "a_node_moves_its_own_part_alone_where_masks_begin_at_public_places"),)),
    Bug("S8", "GCN: a statement does not say that masks are hidden", "methods/gcn.py",
        "(HIDDEN_MASKS,) if _hides_masks(settings, protocol, request) else ()", "()",
        (test("training/public_places::"
              "statements_say_that_masks_are_hidden_where_the_proof_needs_it[gcn-nodes-sound]"),)),
    Bug("P12", "shards: another job gets noise for the same sums", "workflow/sharded.py",
        'hashlib.sha256(f"{digest} {self.job.model_dump_json()}".encode()',
        'hashlib.sha256(f"{digest}".encode()',
        (test("sharded::noise_is_drawn_once"),)),
    Bug("P13", "features are scaled by the largest value of a column over all nodes",
        "tasks/graph_task.py",
        "    matrix = unit_rows(scipy.sparse.csr_matrix(rows))\n",
        "    matrix = scipy.sparse.csr_matrix(rows, dtype=np.float64)\n"
        "    largest = np.maximum(abs(matrix).max(axis=0).toarray().ravel(), 1e-12)\n"
        "    matrix = unit_rows(matrix @ scipy.sparse.diags(1 / largest))\n",
        (test("tasks::a_scenario_gives_the_edges_that_it_names_and_rows_of_norm_one"),)),
    Bug("P14", "clipped gradients of stacks are added up in float32", "training/stacks.py",
        "dtype = torch.float32 if coefficients is None else torch.float64", "dtype = torch.float32",
        (replay("progap", "lists"),)),
    Bug("P15", "edge votes: noise calibrated for one round of three", "methods/edge_votes.py",
        "        releases=ROUNDS,", "        releases=1,",
        (test("methods/properties::"
              "what_is_released_proves_what_was_asked_and_hardly_less[0.25-edge_votes-edges]"),)),
    Bug("P16", "GCN: gradients are clipped to 1.2 C", "training/kernels.py",
        "return clip / bounded if bounded > clip else 1.0",
        "return clip / bounded if bounded > 1.2 * clip else 1.0",
        (test("training/clipping::clipping_is_that_of_opacus"),)),
    Bug("Q1", "scores of an attack: the threshold is fitted to the runs whose errors are counted",
        "attacks/scores.py",
        "first, second = ([array[start::2] for array in scores] for start in (0, 1))",
        "first = second = scores",
        (test("privacy/composition::scores_of_any_attack_give_a_bound_that_holds"),)),
    Bug("Q2", "edge votes: training nodes without an edge are not asked", "methods/edge_votes.py",
        "    receivers[generator.permutation(n)[:n_asked]] = True\n",
        "    receivers[generator.permutation(n)[:n_asked]] = True\n"
        "    receivers[:n] &= np.diff(task.adjacency.indptr)[:n] > 0\n",
        (test("methods/edge_votes::asked_training_nodes_are_treated_as_test_nodes"),)),
    Bug("Q3", "explain: runs of two seeds are one release, as their statements are equal",
        "report/explained.py",
        "if before is not None and named and replicas <= before:", "if before is not None:",
        (test("cli_train::runs_of_two_seeds_cost_both_though_their_statements_are_equal"),)),
    Bug("Q4", "documents: an exact number of labelled test units turns the verdict",
        "documents/release.py",
        "        if counts.labelled < FEWEST or counts.error > MOST_ERROR:\n",
        "        if len(np.unique(test.unit_of[test.labels >= 0])) < FEWEST:\n",
        (test("documents/documents::"
              "a_replayed_release_reads_a_person_through_the_door_alone[False-dp_linear]"),)),
    Bug("Q5", "documents: the ledger is free between the check of a budget and the entry",
        "documents/ledger.py",
        "                self._store(noise)\n            self._append(\n"
        "                lines,",
        "                self._store(noise)\n        with self._locked():\n"
        "            self._append(\n                self._lines(),",
        (test("documents/documents::a_release_is_checked_and_entered_under_one_lock"),)),
    Bug("Q6", "documents: distances of lattice noise do not add up in an account",
        "documents/accounts.py", "    totals[1, held] += cost.distance\n", "",
        (test("documents/documents::the_distances_of_lattice_noise_add_up_in_an_account"),)),
    Bug("Q7", "documents: an attack may see what two releases allow", "documents/attack.py",
        "most_of_gaussian(mu_of(plan.training.queries),",
        "most_of_gaussian(math.sqrt(2) * mu_of(plan.training.queries),",
        (test("documents/documents::"
              "an_attack_stays_private_and_sees_something_but_no_more_than_is_proved"),)),
    Bug("Q8", "prices: noise spends all of delta, and its distance from the proof's spends more",
        "privacy/accountants.py", "epsilon_of(delta * (1 - share))", "epsilon_of(delta)",
        (test("methods/lattice::noise_and_its_distance_together_spend_no_more_than_delta[1]"),)),
    Bug("Q9", "prices: the distance of lattice noise counts in one run of several",
        "privacy/accountants.py", "sum(n_runs * event.total_variation for event, n_runs in",
        "sum(event.total_variation for event, _ in",
        (test("methods/lattice::noise_and_its_distance_together_spend_no_more_than_delta[30]"),)),
    Bug("Q10", "queries: the distance of lattice noise counts in one release of several",
        "privacy/queries.py", "self.dimension * self.count)", "self.dimension)",
        (test("methods/lattice::the_distance_is_paid_for_in_compositions"),)),
    Bug("Q11", "explain: the distance of lattice noise counts in few of many releases",
        "privacy/composition.py", "max(numbers, NUMBERS * _RELEASES))", "NUMBERS * _RELEASES)",
        (test("privacy/composition::many_lattice_releases_take_their_share_of_delta"),)),
    Bug("Q12", "prices: of two conversions of zCDP the smaller is stated",
        "privacy/query_losses.py",
        "paths.append((max(first, second), zcdp_name(), min(first, second)))",
        "paths.append((min(first, second), zcdp_name(), max(first, second)))",
        (test("privacy/queries::concentrated_privacy_by_two_routes"),)),
    Bug("Q13", "prices: other units pay for the runs of one group of several",
        "privacy/prices.py", "((events, aside), number) for events, number in groups]",
        "((events, aside), number) for events, number in groups[:1]]",
        (test("privacy/statements::what_other_units_cost_counts_in_one_run_and_in_all"),)),
    Bug("Q14", "epsilon: a person's records count once where minibatches were shuffled",
        "privacy/composition.py", "gdp_epsilon(group * twice * math.sqrt(shuffled)",
        "gdp_epsilon(twice * math.sqrt(shuffled)",
        (test("privacy/composition::groups_laplace_noise_and_answers"),)),
    Bug("Q15", "edge votes: rounding of one of the two messages is priced", "methods/edge_votes.py",
        "entries=2 * task.n_classes", "entries=task.n_classes",
        (test("methods/edge_votes::the_numbers_of_both_messages_of_an_edge_are_rounded"),)),
    Bug("Q16", "prices: the second route to an ε that is larger is not heeded",
        "privacy/query_losses.py", "paths.append((max(first, route or 0.0), pld_name(), route))",
        "paths.append((first, pld_name(), route))",
        (test("privacy/queries::the_larger_of_two_routes_is_stated"),)),
    Bug("Q17", "scores of an attack: a bound at 95 % is said to hold at 99.9 %",
        "attacks/scores.py", "lower = two_point_epsilon(errors, delta, AUDIT_CONFIDENCE)",
        "lower = two_point_epsilon(errors, delta)",
        (test("privacy/composition::scores_of_any_attack_give_a_bound_that_holds"),)),
    Bug("Q18", "documents: what units of earlier tables spent is not told",
        "documents/spending.py",
        "*((one.people, one.protected) for one in earlier)", "",
        (test("documents/documents::"
              "what_units_of_earlier_tables_spent_and_what_several_lose_is_told"),)),
    Bug("Q19", "documents: k documents of somebody are said to cost √k μ", "documents/files.py",
        "composed((count * mu) ** 2, distance,", "composed(count * mu**2, distance,",
        (test("documents/documents::"
              "what_units_of_earlier_tables_spent_and_what_several_lose_is_told"),)),
    Bug("Q20", "documents: a release that was made meanwhile is not looked at",
        "documents/release.py",
        "earlier_releases(plan.spec, plan.docs, plan.people, entries)\n", "[]\n",
        (test("documents/documents::a_release_made_meanwhile_is_heeded_under_the_lock"),)),
    Bug("Q21", "what describes a benchmark is kept of an owner's data", "running/run.py",
        "measured |= outcome.evaluated if self.is_published else {}",
        "measured |= outcome.evaluated",
        (test("run::what_no_price_covers_is_kept_of_published_data_alone"),)),
    Bug("Q22", "learning curves of an owner's data are kept", "running/run.py",
        "            if runner.is_published\n        },\n        runner.all_seeds",
        "        },\n        runner.all_seeds",
        (test("run::what_no_price_covers_is_kept_of_published_data_alone"),)),
    Bug("Q23", "artifacts are kept beside fresh noise, where nothing prices them", "running/run.py",
        "            if noise_source == \"seeded\"  # their privacy cost is not computed\n", "",
        (test("run::what_no_price_covers_is_kept_of_published_data_alone"),)),
    Bug("Q24", "artifacts of another job are read beside fresh noise", "running/run.py",
        "if artifacts and noise_source == \"os_entropy\":", "if False:",
        (test("run::what_no_price_covers_is_kept_of_published_data_alone"),)),
    Bug("Q25", "leaks: only the canaries that are guessed count", "attacks/membership.py",
        "return Guesses(coins.size, 2 * number * len(scores), right)",
        "return Guesses(2 * number * len(scores), 2 * number * len(scores), right)",
        (test("attacks/membership::"
              "a_model_that_memorises_one_class_is_found_by_the_nodes_that_shadows_name"),)),
    Bug("Q26", "leaks: μ of several releases add up, not their squares", "attacks/leaks.py",
        "most_of_gaussian(math.sqrt(sum(mu**2 for mu in mus))", "most_of_gaussian(sum(mus)",
        (test("attacks/membership::a_guarantee_allows_what_all_its_releases_allow_together"),)),
    Bug("Q27", "leaks: what a pure proof allows leaves delta out", "attacks/leaks.py",
        "growth / (1 + growth) + self.delta)", "growth / (1 + growth))",
        (test("attacks/membership::a_guarantee_allows_what_all_its_releases_allow_together"),)),
    Bug("Q28", "leaks: an interval of 95 % leaves 5 % out at either end",
        "attacks/membership.py", "tail = (1 - CONFIDENCE) / 2\n", "tail = 1 - CONFIDENCE\n",
        (test("attacks/membership::an_interval_leaves_as_much_out_at_either_end"),)),
    Bug("Q29", "leaks: who is left out keeps edges to others", "attacks/neighbours.py",
        "weights[graph.edge_index].all(axis=0)]", "weights[graph.edge_index].any(axis=0)]",
        (test("attacks/members::"
              "whoever_is_left_out_changes_no_answer_and_stays_a_unit[nodes]"),)),
    Bug("Q30", "an own graph: statements tell the number of self-loops", "datasets/own.py",
        "preprocessing=_preprocessing(spec),",
        "preprocessing=[*_preprocessing(spec), f\"{edges.loops} self-loops dropped\"],",
        (test("datasets/own::loops_and_repeated_edges_are_dropped_and_counted"),)),
    Bug("Q31", "bag of words: statements tell a number of words of private texts",
        "features/words.py", "{fitted_on_words(view)}; {coverage(view)}.\"",
        "{fitted_on_words(view)}, of {len(table.words):,}; {coverage(view)}.\"",
        (test("features/bow::private_text_moves_nothing_but_its_own_row[bow]"),)),
    Bug("Q32", "statements: an audit of a stronger relation is held against a weaker claim",
        "privacy/statements.py",
        "covered = audit.relation == relation or relation == \"replace\"", "covered = True",
        (test("privacy/statements::"
              "an_audit_of_a_stronger_relation_says_nothing_of_a_weaker_claim"),)),
    Bug("Q33", "audits: delta is lost on guesses alone, not on every canary",
        "privacy/audits.py", "tail + 2 * canaries * delta *", "tail + 2 * guesses * delta *",
        (test("privacy/audits::"
              "delta_is_lost_on_every_canary_and_not_on_the_guesses_alone"),)),
    Bug("Q34", "audits: a profile is tested at one end", "privacy/audits.py",
        "if max(1 - b - growth * a, 1 - a - growth * b) > claimed:",
        "if 1 - b - growth * a > claimed:",
        (test("privacy/audits::a_profile_that_promises_too_much_is_refuted"),)),
    Bug("Q35", "audits: each of two attacks has the error of both", "attacks/audit.py",
        "EACH_CONFIDENCE = 1 - (1 - AUDIT_CONFIDENCE) / 2", "EACH_CONFIDENCE = AUDIT_CONFIDENCE",
        (test("attacks/mechanism_audit::bounds_and_verdicts_hold_jointly"),)),
    Bug("Q36", "audits of mechanisms: each of four bounds has the error of all",
        "attacks/mechanism_audit.py", "tail = alarm / 4", "tail = alarm",
        (test("attacks/mechanism_audit::bounds_and_verdicts_hold_jointly"),)),
    Bug("Q37", "replay: a unit may move two parts", "mechanisms/replay.py",
        "            if len(self.parts[name]) > 1:\n",
        "            if len(self.parts[name]) > 2:\n",
        (test("mechanisms/replay::a_unit_that_moves_two_parts_is_found"),)),
    Bug("Q38", "replay: twice as many terms may move as are priced", "mechanisms/replay.py",
        "if changed > query_terms(query):", "if changed > 2 * query_terms(query):",
        (test("mechanisms/replay::a_unit_that_moves_two_terms_a_little_is_found"),)),
    Bug("Q39", "delta is held against training records alone", "running/run.py",
        "refuse_large_delta(job.delta, max(task.n_units, scored))",
        "refuse_large_delta(job.delta, task.n_units)",
        (test("run::"
              "delta_is_small_for_the_validation_records_too_whose_labels_are_private"),)),
    Bug("R1", "attacks on links: the second run of a likelihood ratio has noise of its own",
        "attacks/links.py", "self._answered(job, ~coins, first, context)",
        "self._answered(job, ~coins, None, context)", (_AS_SURE,)),
    Bug("R2", "attacks on links: a likelihood ratio divides by σ, not by its square",
        "attacks/links.py", "(2 * query.noise_std**2)", "(2 * query.noise_std)", (_AS_SURE,)),
    Bug("R3", "attacks on links: one run counts as many", "attacks/links.py",
        "seed = number + self.job.leaks.seed * self.job.leaks.shadows",
        "seed = self.job.leaks.seed", (_AS_SURE,)),
    Bug("R4", "attacks on links: guesses at one delta are held against the proof at another",
        "attacks/links.py", "proved = guarantee.held_against(guesses, TINY_DELTA)",
        "proved = guarantee.held_against(guesses, guarantee.delta)", (_OWN_DELTA,)),
    Bug("R5", "attacks on links: ε at the usual delta is said to be shown at 1e-12",
        "attacks/links.py", "name, guesses.epsilon(TINY_DELTA), who=who)",
        "name, guesses.epsilon(guarantee.delta), who=who)", (_OWN_DELTA,)),
    Bug("R6", "leaks: an interval resamples targets alone", "attacks/membership.py",
        "np.multiply.outer(_times(generator, n_targets), _times(generator, n))",
        "np.multiply.outer(_times(generator, n_targets), np.ones(n))", (_INTERVAL,)),
    Bug("R7", "leaks: an interval resamples nodes alone", "attacks/membership.py",
        "np.multiply.outer(_times(generator, n_targets), _times(generator, n))",
        "np.multiply.outer(np.ones(n_targets), _times(generator, n))", (_INTERVAL,)),
    Bug("R8", "leaks: targets are scored by the coins of other targets", "attacks/membership.py",
        "            known = Shadows(margins, shadows.coins)\n"
        "            ratios = known.ratios(None if models is shadows else models.margins[view])",
        "            known = Shadows(models.margins[view], models.coins)\n"
        "            ratios = known.ratios()", (_BY_SHADOWS,)),
    Bug("R9", "leaks: published classes of targets are scored by the coins of other targets",
        "attacks/membership.py",
        "    if models is not shadows:\n"
        "        return class_ratios(shadows.classes, shadows.coins, models.classes, *looks_at)\n",
        "    shadows = models\n", (_BY_SHADOWS,)),
    Bug("R10", "leaks: one of twenty true proofs is said to be broken", "attacks/leaks.py",
        "self.at(delta), guesses.epsilon(delta, BREAKS)", "self.at(delta), guesses.epsilon(delta)",
        (test("attacks/membership::"
              "a_proof_is_broken_by_what_holds_for_a_thousand_tests_at_the_same_delta"),)),
    Bug("R11", "leaks: a guarantee is that of the first of several releases", "attacks/leaks.py",
        "compose_groups([(priced, 1)], delta)", "compose_groups([(priced[:1], 1)], delta)",
        (test("attacks/membership::a_guarantee_allows_what_all_its_releases_allow_together"),)),
    Bug("R12", "leaks: somebody is guessed to be in and to be out", "attacks/membership.py",
        "    if n == 1:\n", "    if n == 0:\n",
        (test("attacks/membership::nobody_is_guessed_twice_in_a_model"),)),
    Bug("R13", "leaks: a proof is stated of who trains by METIS", "running/jobs.py",
        "if self.metis_parts and self.leaks:", "if False:",
        (test("study::a_job_without_runs_or_with_repeated_ones_is_refused"),)),
    Bug("R14", "GCN: coins of a sample are tossed for labelled training nodes alone",
        "training/blocks.py", "keyed_coin_sample(nodes, fraction, generator)",
        "keyed_coin_sample(nodes[dataset.labels[nodes] >= 0], fraction, generator)",
        (test("training/structure::under_sound_the_coin_of_a_node_looks_at_no_label_or_edge"),)),
    Bug("R15", "shards: who is in two equal shards is counted twice", "workflow/sharded.py",
        "if records and about.sha256 in summed:", "if False:",
        (test("sharded::a_shard_that_is_given_twice_is_refused[./shards/0001.parquet]"),)),
    Bug("R16", "DP-APPR: all seeds train on the sample of the first, and are priced apart",
        "studies/dpappr/methods/appr.py",
        "setdefault((request.seed, share, places.tobytes()), sample)",
        "setdefault((share,), sample)",
        (test("methods/appr::runs_that_are_priced_have_samples_of_their_own[paper-True]"),)),
    Bug("R17", "DP-APPR: one sample for all seeds, which are priced apart",
        "studies/dpappr/methods/appr.py", 'Streams.of({"sample": "uniform", "seed": request.seed})',
        'Streams.of({"sample": "uniform"})',
        (test("methods/appr::runs_that_are_priced_have_samples_of_their_own[paper-True]"),)),
    Bug("R18", "ProGAP: the printed ε is of the steps of one stage of several",
        "methods/noisy_sums.py",
        "accounted=stages * (settings.epochs * n // settings.lot)",
        "accounted=(settings.epochs * n // settings.lot)",
        (test("methods/noisy_sums::nodes_cost_all_steps_and_sums[progap-settings0-12]"),)),
    Bug("R19", "pages: of several statements the one that promises most is shown",
        "site/overview.py", "weakest = max(held,", "weakest = min(held,", (_LEAST,)),
    Bug("R20", "pages: ε of all runs is that of another statement than the weakest",
        "site/overview.py",
        "max((entry.epsilon_all_runs for entry in held), key=_weakness)",
        "weakest.epsilon_all_runs",
        (_LEAST,)),
    Bug("R21", "pages: of several attacks the one that shows least is shown", "site/overview.py",
        '"shown": max(bounds, default=None)', '"shown": min(bounds, default=None)', (_LEAST,)),
    Bug("R22", "pages: what an attack shows is rounded up", "site/overview.py",
        'f"> {bound(e)}"', 'f"> {budget(e + 1e-9)}"', (_LEAST,)),
    Bug("R23", "pages: a printed ε counts as true where a proved one is larger by 5 %",
        "site/overview.py",
        'private["epsilon_proved"] <= private["epsilon"] * (1 + 1e-9)',
        'private["epsilon_proved"] <= private["epsilon"] * 1.05',
        (test("report/site::verdicts_hold_printed_numbers_against_seeds_and_proofs"),)),
    Bug("R24", "pages: several guarantees cost together what one of them costs",
        "site/overview.py",
        "math.hypot(*(gdp_mu(part.epsilon_proved, part.delta) for part in held))",
        "max(gdp_mu(part.epsilon_proved, part.delta) for part in held)",
        (test("report/site::several_guarantees_together_cost_more_than_each"),)),
    Bug("R25", "tables as printed: an ε that is larger by 5 % is marked as held",
        "report/layout.py", 'proved <= point["epsilon"] * (1 + 1e-9)',
        'proved <= point["epsilon"] * 1.05',
        (test("report/paper_tables::"
              "lines_say_what_is_proved_refuted_or_open_and_link_to_the_statement"),)),
    Bug("R26", "statements in few words: a proved ε is rounded to the nearest",
        "report/statement.py", 'else f"ε = {at_most(proved)}"', 'else f"ε = {proved:.4g}"',
        (_FEW_WORDS,)),
    Bug("R27", "statements in few words: what an attack shows is rounded up",
        "report/statement.py", "at_least(statement.audit.epsilon_lower)",
        "at_most(statement.audit.epsilon_lower)", (_FEW_WORDS,)),
    Bug("R28", "leaks: the ε that was asked stands in the column of proved ones",
        "report/link_leaks.py", 'else budget(row["epsilon_proved"])',
        'else budget(row["epsilon"])',
        (test("attacks/link_inference::"
              "tables_show_texts_beside_models_what_is_allowed_and_hubs"),)),
    Bug("R29", "audits: a bound between two budgets refutes the one that was not attacked",
        "report/audits.py",
        "    return budget is None or np.isnan(attacked) or (lower > attacked) == (lower > budget)",
        "    return True",
        (test("report/rows::"
              "an_audit_between_its_budget_and_another_says_nothing_of_the_other"),)),
    Bug("R30", "workflow: a job is run before the one that chooses its settings, on old rows of it",
        "workflow/rules.py",
        "return [*([job.chosen.job.id] if job.chosen else []), *job.needs.values()]",
        "return [*job.needs.values()]",
        (test("workflow/workflow::every_job_is_in_one_batch_after_those_that_it_needs"),)),
    Bug("V1", "epsilon: of a run's parts, the one that costs most alone is composed",
        "privacy/choices.py", "        if not any(covers(rival, part) for rival in left):",
        "        if not left:",
        (test("privacy/composition::the_costliest_parts_are_those_that_cost_most_together"),
         test("privacy/statements::"
              "the_costliest_of_units_that_a_file_or_a_budget_reads_is_chosen_after_composing"))),
    Bug("V2", "epsilon: answers that are composed with themselves count once",
        "privacy/composition.py", 'name == "SelfComposedDpEvent" and _answers(tree["event"])',
        "False",
        (test("privacy/composition::answers_composed_with_themselves_all_count"),)),
    Bug("V3", "class sums: residuals of many nodes, which are not kept, are clipped to 4 C",
        "methods/class_sums.py", "terms = clipped_residuals(logits, labels, norms)",
        "terms = clipped_residuals(logits, labels, norms if small else norms / 4)",
        ("tests/mechanisms/test_size_limits.py::test_many_records_are_treated_as_few"
         "[methods.class_sums-_KEPT-0-class_sums-text]",)),
    Bug("V4", "predict: the exact classes of protected documents are readable by all",
        "documents/predict.py", "raised_signals(), private_path(out) as temporary:",
        "__import__('private_graphs.core.files').core.files.atomic_path(out) as temporary:",
        (test("documents/documents::"
              "predicted_classes_are_closed_to_others_and_say_what_they_are"),)),
    Bug("W1", "DPDGC: public random weights are not scaled to norm 1", _DPDGC,
        "weights /= np.linalg.norm(weights, axis=1, keepdims=True)\n            bias",
        "bias",
        (replay("dpdgc", "links"), replay("dpdgc", "lists"))),
    Bug("W2", "DPDGC: a replaced node is paid for one of the lists that it changes", _DPDGC,
        "moved = math.sqrt(2 * self.bound)", "moved = math.sqrt(self.bound)",
        (replay("dpdgc", "lists"),)),
    Bug("W3", "an undirected edge that exchanges gradients costs what one that adds them costs",
        "privacy/query_losses.py",
        'relation = "replace" if event.exchange else event.relation', "relation = event.relation",
        (test("methods/dpdgc::a_unit_that_exchanges_terms_costs_what_one_that_is_replaced_costs"),),
        fast=True),
    Bug("W4", "what published code supposes and nothing bounds is priced",
        "privacy/query_prices.py",
        "    if event.unproved:\n", "    if False:\n",
        (test("methods/dpdgc::nothing_is_proved_of_what_the_released_code_supposes"),)),
    Bug("W5", "compiled code reads rows and classes that there are not", "training/stacks.py",
        "if indices.size and not (0 <= indices.min() and indices.max() < size):", "if False:",
        (test("training/stacks::compiled_code_reads_no_class_that_there_is_not"),)),
    Bug("W6", "numbers of two neighbours that differ in the last bits count as equal",
        "mechanisms/reads.py",
        "return value.dtype.str, value.shape, value.tobytes()", "return repr(value)",
        (test("mechanisms/replay::numbers_that_differ_in_their_last_bit_are_private"),)),
    Bug("W7", "DPDGC: labels of validation nodes, which are private, choose the epoch", _DPDGC,
        'self.releases.protocol.epoch_of_lists == "best_validation"', "True",
        (test("methods/validation_nodes::"
              "labels_of_validation_nodes_change_no_prediction[dpdgc]"),)),
    Bug("W8", "sums over lists: labels of validation nodes, which are private, choose the epoch",
        "methods/noisy_sums.py",
        'return not self.lists or self.data.task.protocol.epoch_of_lists == "best_validation"',
        "return True",
        (test("methods/validation_nodes::"
              "labels_of_validation_nodes_change_no_prediction[gap]"),)),
    Bug("W9", "a replayed training returns an object, and only what it prints is compared",
        "attacks/training_runs.py",
        "return self._pickled(value)", "return repr(value)",
        (test("attacks/training_replay::a_planted_leak_is_found_and_named[deciding-estimator]"),)),
    Bug("W10", "gradients of records that are pickled with a returned model are not said",
        "attacks/training_runs.py",
        "if own[name] is not None and own[name] != []]", "if False]",
        (test("attacks/training_replay::"
              "gradients_of_records_that_are_pickled_with_a_model_are_said"),)),
    Bug("W11", "what was spent tells who wrote earlier documents, and the statement does not",
        "documents/release.py",
        'any(spec.unit or entry.by_person for entry in earlier)',
        'any(not entry.by_person for entry in earlier)',
        (test("documents/ledger::what_was_spent_tells_documents_that_had_another_unit_and_the_"
              "statement_says_so[1-]"),)),
    Bug("W12", "a replayed training may leave a small parameter without noise",
        "attacks/training_price.py",
        "if not low - 1e-3 <= factor <= high + 1e-3:", "if False:",
        (test("attacks/training_replay::an_accountant_that_was_told_other_things_is_found"
              "[deciding-exact_bias]"),)),
    Bug("W13", "another tool's release is counted by sides, which it does not know",
        "documents/accounts.py", "if self.method == OTHER_TOOL:", "if False:",
        (test("documents/ledger::all_documents_of_a_person_count_together_in_another_tool"),)),
    Bug("W14", "a private document without a text lets links be protected that were published",
        "documents/links.py", "len(docs.units_on(TRAINING, TEST))", "len(docs.on(TRAINING, TEST))",
        (test("documents/documents::links_have_an_account_and_publish_the_documents"),)),
    Bug("W15", "the page of a release leaves out the distance of lattice noise for k documents",
        "documents/files.py", "composed((count * mu) ** 2, distance, 0.0, delta)",
        "composed((count * mu) ** 2, 0.0, 0.0, delta)",
        (test("documents/ledger::"
              "somebody_with_several_documents_has_what_the_page_says_and_no_less"),)),
    Bug("W16", "explain does not say what it supposes of persons",
        "report/explained.py", 'self.unit == "person")', "False)",
        (test("documents/ledger::"
              "documents_that_had_another_person_are_a_condition_of_explain"),)),
    Bug("W17", "what is left of a budget counts a person with several units once",
        "documents/allowance.py", "before + repeat * square", "before + square",
        (test("documents/ledger::what_is_left_counts_all_units_of_a_person"),)),
    Bug("W18", "a public mark in a row of a private person decides who tests",
        "documents/tables.py", "not private.all(), spec", "bool(public.any()), spec",
        (test("documents/documents::a_public_mark_of_a_private_person_decides_nothing"),)),
    Bug("W19", "documents: what was spent tells numbers, as a release was made meanwhile",
        "documents/release.py", "        if isinstance(plan, PlannedRelease) and _account",
        "        if False and _account",
        (test("documents/ledger::"
              "a_release_that_is_entered_while_another_is_planned_tells_no_numbers"),)),
)  # fmt: skip


EXAMPLES = ("1", "4", "8", "15", "V4")
"""Names of the bugs that docs/audits.md shows."""


def catcher_in_words(catcher: str) -> str:
    """Return a catcher as a command of audits, or as the name of its test."""
    if audited := re.search(r"as_claimed\[(\w+)\]", catcher):
        return f"audit --mechanisms, {audited[1]}"
    if replayed := re.search(r"methods_pass\[(\w+)-(\w+)-sound\]", catcher):
        return f"audit --replay --method {replayed[1]}, {replayed[2]}"
    return catcher.rpartition("::")[2].removeprefix("test_")


def table() -> str:
    """Return docs/planted-bugs.csv: every bug, what catches it, and what a method cannot do."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("bug", "what is wrong", "planted in", "caught by"))
    for bug in BUGS:
        found = "; ".join(map(catcher_in_words, bug.catchers))
        writer.writerow((bug.name, bug.words, f"{bug.folder}/{bug.path}", found))
    for words, why in BY_DESIGN:
        writer.writerow(("", words, "cannot be planted", why))
    return file.getvalue()


def summary() -> str:
    """Return their number and some of them, as Markdown."""
    by_name = {bug.name: bug for bug in BUGS}
    files = len({bug.folder + bug.path for bug in BUGS})
    lines = [f"{len(BUGS)} bugs in {files} files. Some of them:", ""]
    lines += ["| bug | planted in | caught by |", "| --- | --- | --- |"]
    for bug in map(by_name.__getitem__, EXAMPLES):
        found = "; ".join(f"`{catcher_in_words(each)}`" for each in bug.catchers)
        lines.append(f"| {bug.words} | `{bug.path}` | {found} |")
    refused = (
        f"{len(BY_DESIGN)} more cannot be planted: the door and the runner refuse a method that "
        "adds less noise than its event says, uses a draw again, or answers more than is paid for."
    )
    lines += ["", refused]
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the text of docs/audits.md with the present summary."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{summary()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    TABLE.write_text(table())
