"""Audits reach the statements, tables and pages of the runs whose claim they attack."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

from private_graphs.attacks.audit import EACH_CONFIDENCE, Audit
from private_graphs.attacks.canary import Design
from private_graphs.cli import app
from private_graphs.errors import UserError
from private_graphs.files import write_json
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.privacy.audits import Errors, two_point_epsilon
from private_graphs.reporting.formats import read_table
from private_graphs.reporting.runs import collect, find_runs
from private_graphs.reporting.site import write_site
from private_graphs.reporting.tables import write_tables

NO_ERRORS = Errors(0, 100, 0, 100)
SHOWN = two_point_epsilon(NO_ERRORS, 1e-5, EACH_CONFIDENCE)
"""What 100 runs per label without an error show at the confidence of verdicts: 2.45."""


def audit(scale, protocol="released", *, errors=0, proved=None, published=2.0, **changes):
    """Write what an audit of 100 runs per label found; ``changes`` go to its JSON."""
    design = Design(protocol, 2.0, runs=100)
    mu = None if proved is None else gdp_mu(proved, 1e-5)
    counted = Errors(errors, 100, errors, 100)
    found = (
        Audit(design, 24.993, published, proved, mu, counted, None, 1.0, 100).document() | changes
    )
    write_json(scale / "audits" / "lrec2022" / f"{protocol}.json", found)


def statements_of(scale):
    """Statements by ε of their rows."""
    runs, statements = collect(find_runs(scale, "lrec2022"))
    assert set(runs["statement_id"]) == set(statements)
    return {row.epsilon: statements[row.statement_id] for row in runs.itertuples()}


def released(cell, scale, **changes):
    return cell(scale, protocol="released", scores={2.0: [0.5], math.inf: [0.8]}, **changes)


def test_an_audit_of_the_claim_is_in_the_statement_and_refutes_it(tmp_path, cell):
    audit(tmp_path)
    folder = released(cell, tmp_path)
    written = (folder / "statement.json").read_bytes()
    found = statements_of(tmp_path)
    assert found[2.0]["status"] == "refuted" and found[2.0]["statement_id"].encode() in written
    assert found[2.0]["audit"] == {
        "design": "canary node with its label flipped, many runs of the same training code at the "
        "same claim, not of these runs: full graph, SGD, 100 epochs, noise multiplier 24.993",
        "unit": "node", "relation": "replace", "delta": 1e-5, "runs": 200,
        "epsilon_lower": pytest.approx(SHOWN), "confidence": 0.999,
    }  # fmt: skip
    assert SHOWN == pytest.approx(2.448, abs=0.001)
    assert found[math.inf]["status"] == "not_private" and found[math.inf]["audit"] is None
    assert (folder / "statement.json").read_bytes() == written


def test_runs_without_audits_keep_their_statements(tmp_path, cell):
    folder = released(cell, tmp_path)
    written = json.loads((folder / "statement.json").read_text())
    assert {each["statement_id"] for each in statements_of(tmp_path).values()} == set(written)


def test_what_is_not_refuted_says_what_the_attack_showed(tmp_path, cell):
    audit(tmp_path, "paper", errors=34, proved=3.3808)
    cell(tmp_path, protocol="paper", optimizer="adam", scores={2.0: [0.5]})
    found = statements_of(tmp_path)[2.0]
    assert found["status"] == "proved_if_seed_secret" and found["epsilon_proved"] == 3.3802
    assert found["audit"]["epsilon_lower"] == 0.0


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": "paper"},
        {"n_splits": 10},
        {"visits": "shuffled"},
        {"epsilon_claimed": 1.0},
        {"delta": 1e-6},
        {"unit": "graph"},
    ],
)
def test_an_audit_of_another_claim_is_left_out(tmp_path, cell, changes):
    audit(tmp_path, **changes)
    released(cell, tmp_path)
    assert statements_of(tmp_path)[2.0]["audit"] is None


def test_given_noise_has_no_claim_to_be_attacked(tmp_path, cell):
    audit(tmp_path)
    released(cell, tmp_path, epsilon_target=None)
    assert statements_of(tmp_path)[2.0]["audit"] is None


def test_the_zero_out_relation_is_not_compared_with_a_replace_audit(tmp_path, cell):
    audit(tmp_path)
    released(cell, tmp_path, relation="zero_out")
    assert statements_of(tmp_path)[2.0]["audit"] is None


def test_a_bound_between_the_two_budgets_decides_nothing(tmp_path, cell):
    """The audited training claimed more than the run does: its bound says nothing of the run."""
    audit(tmp_path, published=SHOWN + 0.001)
    released(cell, tmp_path, epsilon_published=SHOWN - 0.001)
    assert statements_of(tmp_path)[2.0]["audit"] is None


def test_an_audit_above_the_proof_is_an_error(tmp_path, cell):
    audit(tmp_path, "paper", proved=2.0)
    cell(tmp_path, protocol="paper", scores={2.0: [0.5]}, epsilon_proved=2.0)
    with pytest.raises(UserError, match="breaks its proof"):
        statements_of(tmp_path)


def test_a_damaged_audit_is_named(tmp_path, cell):
    released(cell, tmp_path)
    path = tmp_path / "audits" / "lrec2022" / "x.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    with pytest.raises(UserError, match=r"x\.json: not a readable audit"):
        statements_of(tmp_path)


def test_tables_and_pages_show_the_refuted_claim(tmp_path, cell, statistics):
    scale = tmp_path / "full"
    audit(scale)
    for fraction in (0.5, 1.0):
        released(cell, scale, experiment="B", fraction=fraction)
    released(cell, scale)
    cell(scale, protocol="sound", scores={2.0: [0.5]})
    tables = ["table1", "figure2"]
    write_tables(scale, "lrec2022", tables=tables, statistics=[statistics()])
    frame = read_table(scale / "tables" / "lrec2022_table1.csv")
    row = frame[(frame.epsilon == 2) & (frame.setting == "dp_full")].iloc[0]
    assert (row.released_status, row.sound_status) == ("refuted", "proved_if_seed_secret")
    assert row.released_audit_epsilon_lower == pytest.approx(SHOWN, abs=1e-4)
    for name in tables:
        text = (scale / "tables" / f"lrec2022_{name}.md").read_text()
        assert "| refuted: ε &gt; 2.44 |" in text and "- refuted: ε &gt; x: an attack" in text
    write_site(tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert "claim refuted: an attack shows ε &gt; 2.44" in page
    assert "the claim refuted by an attack for 1 of 1" in page
    assert (
        "none proved, claim refuted: ε &gt; 2.44" in (scale / "lrec2022_figure2.html").read_text()
    )
    told = scale / "statements" / f"{row.released_statement_id}.html"
    assert "The claim is refuted by an audit." in told.read_text()
    assert "shows ε ≥ 2.44" in told.read_text()


def test_explain_tells_the_attack_under_the_identifier_that_was_written(tmp_path, cell):
    audit(tmp_path)
    folder = released(cell, tmp_path)
    written = json.loads((folder / "statement.json").read_text())
    [name] = [name for name, each in written.items() if each["status"] != "not_private"]
    answer = CliRunner().invoke(app, ["explain", str(folder), "--statement", name])
    said = " ".join(answer.stdout.split())
    assert f"Statement {name} (refuted)" in said
    assert "an attack has refuted this number" in said
    assert "shows that ε is at least 2.44" in said and "at 99.9 % confidence" in said
