"""The table of audits: read from what audits wrote, for programs and for people."""

from __future__ import annotations

import pytest

from private_graphs.attacks.audit import VERDICTS, Audit
from private_graphs.attacks.canary import Design, OneRun
from private_graphs.attacks.method_canary import MethodDesign
from private_graphs.errors import UserError
from private_graphs.files import write_json
from private_graphs.privacy.accountants import gdp_mu
from private_graphs.privacy.audits import Errors
from private_graphs.reporting.audits import VERDICT_TITLES, audit_table, read_audits
from private_graphs.reporting.formats import read_table
from private_graphs.reporting.site import write_site
from private_graphs.reporting.tables import write_tables


def finished(protocol: str, splits: int, errors: int, *, visits="protocol", proved=None) -> dict:
    design = Design(protocol, 2.0, splits=splits, visits=visits, runs=100)
    gaussian = proved is not None and visits == "protocol"
    single = OneRun(200, 100, 100 if proved is None else 50) if splits == 1 else None
    mu = gdp_mu(proved, 1e-5) if gaussian else None
    counted = Errors(errors, 100, errors, 100)
    return Audit(design, 25.0, 1.99, proved, mu, counted, single, 1.0, 100).document()


@pytest.fixture
def folder(tmp_path):
    """Scale folder with audits, written in no order."""
    audits = {
        "a": finished("sound", 10, 45, visits="poisson", proved=2.0),
        "b": finished("sound", 10, 45, proved=2.0),
        "c": finished("released", 1, 0),
        "d": finished("paper", 1, 34, proved=3.39),
    }
    for name, found in audits.items():
        write_json(tmp_path / "full" / "audits" / "lrec2022" / f"{name}.json", found)
    return tmp_path / "full"


def test_rows_come_in_the_order_of_protocols_and_keep_their_numbers(folder):
    frame = read_audits(folder, "lrec2022")
    assert list(zip(frame["protocol"], frame["visits"], strict=True)) == [
        ("released", "full_graph"), ("paper", "full_graph"), ("sound", "epoch_sum"),
        ("sound", "poisson"),
    ]  # fmt: skip
    write_tables(folder, "lrec2022", tables=["audit"])
    back = read_table(folder / "tables" / "lrec2022_audit.csv")
    assert back["epsilon_lower"].tolist() == pytest.approx(frame["epsilon_lower"], abs=5e-5)
    assert back["verdict"].tolist() == frame["verdict"].tolist()
    assert back["runs"].tolist() == [200.0] * 4


def test_people_read_claim_proof_bounds_and_verdict(folder):
    rows = audit_table(read_audits(folder, "lrec2022")).rows
    assert rows[0] == (
        "released", "full graph", "25", "2", "none", "> 3.28", "–", "> 3.49", "200",
        "claim refuted",
    )  # fmt: skip
    assert rows[1][4] == "3.39" and rows[1][6].startswith("> ")
    assert rows[2][1] == "10 splits, per-epoch sum" and rows[2][7] == "–"
    assert rows[3][1] == "10 splits, Poisson" and rows[3][6] == "–"


def test_the_page_shows_the_audits_and_links_their_table(folder):
    write_tables(folder, "lrec2022", tables=["audit"])
    write_site(folder.parent)
    page = (folder.parent / "index.html").read_text(encoding="utf-8")
    assert "what an attack on the code shows" in page and "claim refuted" in page
    assert "full/tables/lrec2022_audit.csv" in page


def test_audits_of_methods_follow_the_protocols_and_name_their_setting(folder):
    audits = folder / "audits" / "lrec2022"
    for method, setting, mu in (("edge_votes", "edges", 0.5), ("class_sums", "text", 0.5)):
        design = MethodDesign(method, setting, 2.0, runs=100)
        found = Audit(design, 3.4, None, 2.0, mu, Errors(45, 100, 45, 100), None, 1.0, 1)
        write_json(audits / f"{method}_{setting}_e2.json", found.document())
    frame = read_audits(folder, "lrec2022")
    assert frame["method"].tolist() == ["gcn"] * 4 + ["class_sums", "edge_votes"]
    assert frame["unit"].tolist() == ["node"] * 5 + ["edge_undirected"]
    assert frame["relation"].iloc[-1] == "add_remove"
    rows = audit_table(frame).rows
    assert rows[0][1] == "full graph"
    assert rows[-2][:5] == ("sound", "class sums, text", "3.4", "2", "2.00")
    assert rows[-1][1] == "neighbour votes, edges" and rows[-1][7] == "–"
    write_tables(folder, "lrec2022", tables=["audit"])
    write_site(folder.parent)
    assert "neighbour votes, edges" in (folder.parent / "index.html").read_text(encoding="utf-8")


def test_audits_from_before_methods_were_audited_are_still_read(folder):
    [path, *_] = (folder / "audits" / "lrec2022").glob("a.json")
    old = finished("sound", 10, 45, visits="poisson", proved=2.0)
    del old["method"], old["setting"]
    write_json(path, old)
    assert read_audits(folder, "lrec2022")["method"].tolist() == ["gcn"] * 4


def test_every_verdict_has_words():
    assert set(VERDICT_TITLES) == set(VERDICTS)


def test_without_audits_the_message_says_how_to_make_some(tmp_path):
    with pytest.raises(UserError, match="snakemake tables"):
        read_audits(tmp_path / "full", "lrec2022")
