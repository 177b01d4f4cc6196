"""Replay of anybody's training: the table of mistakes and of correct scripts."""

from __future__ import annotations

import io
import os
import sys

import numpy as np
import opacus
import pytest
import torch
from attacks import training_scripts as scripts
from opacus.optimizers import DPOptimizer
from opacus.utils.uniform_sampler import UniformWithReplacementSampler

from private_graphs.attacks.training_files import script_names
from private_graphs.audit import Change, replay_training
from private_graphs.core.errors import UsageError

pytestmark = pytest.mark.filterwarnings("ignore")

DATA = {
    "logistic": scripts.table,
    "deciding": scripts.table,
    "careful": scripts.table,
    "picture": scripts.images,
    "reader": scripts.texts,
    "padded": scripts.texts,
    "own_optimizer": scripts.table,
    "by_hand": scripts.numbers,
    "gcn": scripts.graph,
    "unseeded": scripts.table,
    "timed": scripts.table,
    "deaf": scripts.table,
}


def replayed(script: str, how: str = "", neighbours=3, **options):
    train = getattr(scripts, script)
    return replay_training(lambda data: train(data, how), DATA[script](), neighbours, **options)


@pytest.mark.parametrize(
    ("script", "how"),
    [("logistic", how) for how in ("", "per layer", "adaptive", "target")]
    + [
        ("picture", how)
        for how in (
            "hooks",
            "virtual steps",
            "ghost",
            "functorch",
            "ew",
            "workers",
            "instance norm",
        )
    ]
    + [("careful", how) for how in ("public score", "noisy score", "frozen")]
    + [
        ("reader", ""),
        ("own_optimizer", ""),
        ("by_hand", ""),
        ("gcn", ""),
        ("logistic", "loss printed"),
        ("deciding", "by nothing"),
    ],
)
def test_a_correct_script_passes(script, how):
    report = replayed(script, how)
    assert report.passed, report
    assert 0 < report.largest <= 1.0001


LEAKS = {
    ("logistic", "noise by hand"): "no noise was added: the optimizer that make_private "
    "returned never stepped",
    ("logistic", "plain optimizer"): "no noise was added: the optimizer that make_private "
    "returned never stepped",
    ("logistic", "batch statistics"): "gradients of other records move: step 1: ",
    ("logistic", "standardised"): "gradients of other records move: step 1: ",
    ("logistic", "class weights"): "gradients of other records move: step 1: ",
    ("logistic", "rate by loss"): "learning rate 0 depends on the data: step 1: ",
    ("logistic", "second optimizer"): "parameters move without noise: before step 1; SGD "
    "stepped outside",
    ("logistic", "loss returned"): "what is returned differs: numbers/0: ",
    ("logistic", "batch sizes"): "what is returned tells who joined: numbers/0: ",
    ("reader", "vocabulary"): "shape of a release depends on the data: step 1: ",
    ("padded", ""): "gradients of other records move: step 1: ",
    ("own_optimizer", "batch norm"): "gradients of other records move: step 1: ",
    ("deciding", "plateau"): "with many records replaced, learning rate 0 depends on the data: ",
    ("deciding", "stopped by NumPy"): "with many records replaced, number of noisy steps depends ",
    ("deciding", "chosen in tensors"): "what is returned differs: ",
    ("deciding", "attribute"): "what is returned differs: mean: ",
    ("deciding", "list"): "what is returned differs: means/first/0: ",
    ("deciding", "of a parameter"): "what is returned differs: _module.weight.mean: ",
    ("deciding", "estimator"): "what is returned differs: 1/2/_mean: ",
    ("deciding", "table"): "what is returned differs: 1/2/data: ",
    ("deciding", "method"): "what is returned differs: 1/1/0/2/_mean: ",
    ("deciding", "closure"): "what is returned differs: 1/2/0: ",
    ("deciding", "global"): "what is returned differs: 1/3/MEAN: ",
    ("deciding", "augmented"): "a sum moves too far: step 1: by ",
    ("by_hand", "standardised"): "a sum moves too far: step 1: by ",
    ("by_hand", "no clipping"): "a sum moves too far: step 1: by ",
    ("by_hand", "private count"): "what is returned differs: w: ",
    ("by_hand", "accuracy"): "what is returned differs: accuracy: ",
    ("gcn", "sensitivity of one node"): "a sum moves too far: step 1: by ",
    ("gcn", "noise forgotten"): "what is returned differs: model/0.bias: ",
    ("gcn", "predictions"): "what is returned differs: classes: ",
}


@pytest.mark.parametrize(("script", "how"), LEAKS)
def test_a_planted_leak_is_found_and_named(script, how):
    report = replayed(script, how)
    assert report.verdict == "LEAKS"
    assert any(line.startswith(LEAKS[script, how]) for line in report.leaks), report


def test_a_file_that_is_named_is_read_whoever_wrote_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    report = replayed("deciding", "file")
    assert any(line.startswith("what is returned differs: the value: b") for line in report.leaks)


def test_gradients_of_records_that_are_pickled_with_a_model_are_said():
    """A model that was trained with Opacus has them until zero_grad, and so has its file."""
    said = "_module.weight.grad_sample, _module.weight.summed_grad: of the last batch, without "
    assert any(note.startswith(said) for note in replayed("deciding", "by nothing").notes)
    model, file = scripts.deciding(scripts.table(), "by nothing"), io.BytesIO()
    torch.save(model, file)
    kept = next(torch.load(io.BytesIO(file.getvalue()), weights_only=False).parameters())
    assert kept.grad_sample.ndim == 3 and kept.grad is None
    assert not any("last batch" in note for note in replayed("deciding", "zero_grad").notes)


@pytest.mark.parametrize("how", ["silent", "returned"])
def test_the_best_epoch_by_private_scores_is_found_at_the_line_that_reads_them(how):
    report = replayed("logistic", f"best epoch {how}", neighbours=12)
    (line,) = [line for line in report.leaks if line.startswith("training_scripts.py:")]
    assert "reads a private number that decides what is released" in line


def test_class_weights_are_found_by_a_record_that_never_joins_though_sums_stay_small():
    lines = replayed("logistic", "class weights").leaks
    assert any(line.startswith("a record that never joins moves a sum: ") for line in lines)
    assert not any(line.startswith("a sum moves too far: ") for line in lines)


EPSILONS = {
    ("logistic", "shuffled"): "sampling is not Poisson: ",
    ("logistic", "original loader"): "sampling is not Poisson: ",
    ("logistic", "target, longer"): "epsilon: the target was 4.000; what ran proves ",
    ("logistic", "nobody skipped"): "a batch of nobody is skipped: ",
    ("deciding", "batch used twice"): "batches are not those of the Poisson sampler: ",
    ("deciding", "exact_bias"): "noise is not as large as its sigma: in parameter 2, of ",
    ("logistic", "seed in the loop"): "noise repeats: step 5 has that of step 1 ",
}


@pytest.mark.parametrize(("script", "how"), EPSILONS)
def test_an_accountant_that_was_told_other_things_is_found(script, how):
    report = replayed(script, how, neighbours=2)
    assert report.verdict == "WRONG EPSILON"
    assert report.accounting[0].startswith(EPSILONS[script, how]), report


def test_a_generator_of_noise_with_a_known_seed_is_noted():
    """PyTorch's generators begin with one seed, which everybody knows."""
    (note,) = [line for line in replayed("deciding", "noise generator", 1).notes if "seed" in line]
    assert str(torch.Generator().initial_seed()) in note


def test_an_epsilon_that_is_claimed_is_held_against_the_noise_that_ran():
    report = replayed("logistic", "sigma lowered", 2)
    assert report.passed, "Opacus's accountant hears of the lower sigma"
    report = replayed("logistic", "sigma lowered", 2, claim=2.8)
    assert report.verdict == "WRONG EPSILON"
    assert report.accounting[0].startswith("epsilon: you claim 2.800; what ran proves ")


def test_what_differs_between_two_runs_on_the_same_data_is_no_leak():
    report = replayed("unseeded")
    assert report.verdict == "NOT REPEATABLE" and not report.leaks
    assert (
        replayed("timed", neighbours=2)
        .not_repeatable[0]
        .startswith("what is returned differs: seconds")
    )
    assert replayed("timed", neighbours=2, ignore=["seconds"]).passed


def test_a_script_that_reads_other_data_is_inconclusive_and_does_not_pass():
    report = replayed("deaf", neighbours=2)
    assert (report.verdict, report.passed) == ("INCONCLUSIVE", False)
    assert report.inconclusive == ["no neighbour moved any sum: does train read its argument?"]


def test_the_log_is_told_to_be_private_where_it_differs():
    (note,) = [
        note for note in replayed("logistic", "loss printed", 2).notes if "what is printed" in note
    ]
    assert "epoch 0: loss" in note and note.endswith("do not publish the log")


def test_the_divisor_of_opacus_needs_a_public_number_of_records():
    report = replayed("logistic", "", 2, relation="add_remove")
    assert any(
        line.startswith("expected_batch_size depends on the data: step 1: 16, then 15")
        for line in report.leaks
    ), report
    assert len(report.leaks) == 1 and any("n counts as public" in note for note in report.notes)
    assert 0 < report.largest <= 1 + 1e-4, "other sums are compared all the same"
    assert any(
        line.startswith("learning rate 0 depends on the data")
        for line in replayed("logistic", "rate by n", 2, relation="add_remove").leaks
    )
    both = replayed("logistic", "batch statistics", 2, relation="add_remove").leaks
    assert any(line.startswith("a sum moves too far") for line in both), both
    report = replayed("logistic", "rate by n", 2, relation="zero_out")
    assert report.passed, report


def test_a_noisy_score_outside_of_the_printed_epsilon_is_counted():
    (with_score,) = [
        note
        for note in replayed("careful", "noisy score", 2).notes
        if note.startswith("epsilon at")
    ]
    (without,) = [
        note
        for note in replayed("careful", "public score", 2).notes
        if note.startswith("epsilon at")
    ]
    values = [float(note.split(": ")[1].split(" ")[0]) for note in (without, with_score)]
    assert values[0] < values[1]


def test_own_neighbours_are_tried_and_named():
    data = scripts.numbers()
    far = data.copy()
    far[3] *= 1000
    report = replay_training(
        lambda rows: scripts.by_hand(rows, "no clipping"), data, [Change(far, 3, "far")]
    )
    assert report.leaks[0].endswith("[record 3 far]")


def test_data_that_a_script_changes_in_place_are_given_anew():
    def train(rows):
        rows -= rows.mean(0)
        return scripts.by_hand(rows)

    report = replay_training(train, scripts.numbers(), 2)
    assert report.verdict == "LEAKS"


def methods():
    engine = opacus.PrivacyEngine
    return (
        DPOptimizer.add_noise,
        DPOptimizer.clip_and_accumulate,
        DPOptimizer.step,
        UniformWithReplacementSampler.__iter__,
        engine.make_private,
        engine.__init__,
        torch.manual_seed,
        torch.normal,
        torch.Tensor.item,
        torch.Tensor.__bool__,
        opacus.privacy_engine.get_noise_multiplier,
        opacus.accountants.RDPAccountant.get_epsilon,
    )


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_everything_is_put_back_as_it_was(error):
    before, drawn = methods(), torch.get_rng_state()
    seen = []

    def train(data):
        seen.append(methods())
        if error is not None:
            raise error
        return scripts.by_hand(data)

    if error is None:
        replay_training(train, scripts.numbers(), 1)
    else:
        with pytest.raises(error):
            replay_training(train, scripts.numbers(), 1)
    assert methods() == before and torch.equal(torch.get_rng_state(), drawn)
    assert not set(seen[0]) & set(before) - {torch.normal}
    assert isinstance(scripts.gaussian(np.ones(2), 1.0, 1.0), np.ndarray)


def test_patches_are_taken_off_if_one_of_them_fails(monkeypatch):
    before = methods()
    monkeypatch.delattr(opacus.PrivacyEngine, "make_private_with_epsilon")
    with pytest.raises(AttributeError):
        replay_training(scripts.by_hand, scripts.numbers(), 1)
    assert methods() == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys\ndata = [1.0]\nsys.exit(0)", "line 3 ends the audit with SystemExit (0)"),
        ("import sys\ndata = [1.0]\ndef train(data): sys.exit()", "line 3 ends the audit with Sys"),
        ("import os\ndata = [1.0]\ndef train(data): os._exit(0)", "line 3 ends the audit with Sys"),
        ("data = [1.0]\ndef train(data): return 1 / 0", "line 2 ends the audit with ZeroDivision"),
        ("data = [1.0]\ndef train(data) return", "line 2 ends the audit with SyntaxError"),
        ("data = []\ndef train(data): return 0", "the data (list) have no records"),
        ("data = 5\ndef train(data): return 0", "the data (int) have no records"),
    ],
)
def test_a_script_that_ends_early_is_no_verdict(run, tmp_path, text, words):
    script = tmp_path / "own.py"
    script.write_text(text)
    ended = run("audit", "--script", f"{script}:train", "--data", f"{script}:data")
    assert ended.code and not ended.out and words in ended.err


def test_a_file_with_the_name_of_another_module_is_told(run, tmp_path, monkeypatch):
    script = tmp_path / "own.py"
    script.write_text("data = [1.0]\ndef train(data): import this")
    (tmp_path / "this.py").write_text("1 / 0")
    monkeypatch.delitem(sys.modules, "this", raising=False)
    ended = run("audit", "--script", f"{script}:train", "--data", f"{script}:data")
    words = f"rename {tmp_path / 'this.py'}, which has the name of another module"
    assert ended.code and not ended.out and words in ended.err


def test_a_script_that_ends_on_a_neighbour_leaks():
    def train(data):
        return sys.exit(0) if max(map(abs, data)) > 50 else 3

    assert replay_training(train, [1.0, 2.0, 3.0], 3).verdict == "LEAKS"


def test_a_relation_that_is_none_is_refused():
    with pytest.raises(UsageError, match="expected one of replace, zero_out, add_remove"):
        replayed("by_hand", relation="swap")


@pytest.mark.skipif(
    "OPACUS_EXAMPLES" not in os.environ,
    reason="OPACUS_EXAMPLES names no folder examples/ of a checkout of Opacus",
)
@pytest.mark.parametrize(
    ("train", "data", "verdict"),
    [
        ("char_lstm", "names", "LEAKS"),
        ("imdb", "reviews", "LEAKS"),
        ("mnist", "digits", "no leak found"),
    ],
)
def test_examples_of_opacus_have_the_verdicts_of_the_page(root, train, data, verdict):
    file = root / "examples" / "audit_training" / "opacus_examples.py"
    with script_names(f"{file}:{train}", f"{file}:{data}") as (function, records):
        report = replay_training(function, records, 2)
    assert report.verdict == verdict
    mixed = any(line.startswith("gradients of other records move") for line in report.leaks)
    assert mixed == (verdict == "LEAKS")
