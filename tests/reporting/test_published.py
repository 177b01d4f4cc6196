"""What the papers print."""

from __future__ import annotations

import math

import pytest

from private_graphs.errors import UserError
from private_graphs.reporting.published import published_claims, published_points, published_table


def test_table1_has_every_printed_row_of_the_five_datasets():
    frame = published_table("lrec2022", "table1")
    assert len(frame) == 45
    row = frame[(frame.dataset == "cora") & (frame.setting == "non_private")].iloc[1]
    assert (row.optimizer, row.micro_f1) == ("adam", 0.88)
    assert math.isinf(row.epsilon)
    assert list(frame[frame.setting == "majority"].optimizer.unique()) == [""]


def test_table3_is_found_by_its_number_alone():
    assert list(published_table("lrec2022", "table3").noise_sgd) == [4, 26, 48, 112]


def test_table2_has_every_kind_of_features_optimizer_and_epsilon():
    frame = published_table("lrec2022", "table2")
    assert len(frame) == 30 == len(frame.drop_duplicates(["features", "optimizer", "epsilon"]))
    assert sorted(frame.epsilon.unique()) == [2, 5, 10, 137, math.inf]


def test_unknown_table_is_an_error_that_suggests_the_nearest():
    with pytest.raises(UserError, match="no published table 'lrec2022_tabel1'.*did you mean"):
        published_table("lrec2022", "tabel1")


# --- what the text prints ---

HEAD = "where,claim,value,figure,dataset,optimizer,train_fraction,splits,epsilon\n"


def test_claims_of_the_text_have_their_place():
    frame = published_claims("lrec2022")
    assert len(frame) == 11 and set(frame.figure) == {"figure1", "figure3", "figure4"}
    (row,) = frame[frame.claim.str.contains("100 subgraphs")].itertuples()
    assert (row.dataset, row.optimizer, row.splits, row.value) == ("pubmed", "sgd", 100, 0.79)
    assert row.train_fraction == 1 and math.isinf(row.epsilon)
    (reddit,) = frame[frame.dataset == "reddit"].itertuples()
    assert math.isnan(reddit.train_fraction)  # "20-30 %" is no single place


def test_claims_without_a_place_are_at_no_point():
    frame = published_points("lrec2022", "figure4")
    assert set(frame.published_where) == {"Table 1"} and not frame.isna().any(axis=None)
    assert "reddit" not in set(
        published_points("lrec2022", "figure1").query("train_fraction < 1").dataset
    )


def test_a_more_precise_number_in_the_text_agrees_with_table_1():
    frame = published_points("lrec2022", "figure1")
    (row,) = frame[(frame.dataset == "pokec") & (frame.optimizer == "sgd")
                   & (frame.splits == 1) & (frame.epsilon == math.inf)].itertuples()  # fmt: skip
    assert (row.published, row.published_where) == (0.826, "Section 6.1, Table 1")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fig1,x,high,figure1,cora,sgd,1,1,inf", "line 2: value: found 'high'; expected a number"),
        ("fig1,x,,figure1,cora,sgd,1,1,inf", "line 2: value: .*expected a number"),
        ("fig1,x,77,figure1,cora,sgd,1,1,inf", "line 2: value: .*expected micro-F1 in 0 to 1"),
        ("fig1,x,.7,figure1,cora,lbfgs,1,1,inf", "line 2: optimizer: found 'lbfgs'"),
        ("fig1,x,.7,figure1,cora,sgd,50,1,inf", "line 2: train_fraction: .*at most 1"),
        ("fig1,x,.7,figure1,cora,sgd,1,0,inf", "line 2: splits: .*whole number from 1"),
        ("fig1,x,.7,figure1,cora,sgd,1,1.5,inf", "line 2: splits: .*whole number from 1"),
        ("fig1,x,.7,figure1,cora,sgd,1,1,-1", "line 2: epsilon: .*positive number or inf"),
        ("fig1,x,.7,,cora,sgd,1,1,inf", "line 2: figure: .*expected a figure"),
        ("fig1,x,.7,figure1,cora,sgd,1,1,inf\nfig1,y,.6,figure1,cora,sgd,1,1,inf",
         "line 3: figure: .*one value for a place"),
    ],
)  # fmt: skip
def test_an_impossible_claim_is_an_error_that_names_its_line(tmp_path, line, message):
    path = tmp_path / "claims.csv"
    path.write_text(f"{HEAD}{line}\n")
    with pytest.raises(UserError, match=message):
        published_claims("lrec2022", path)


def test_a_claims_file_without_its_columns_is_an_error(tmp_path):
    path = tmp_path / "claims.csv"
    path.write_text("where,claim,value\nfig1,x,.7\n")
    with pytest.raises(UserError, match="expected also figure, dataset, optimizer"):
        published_claims("lrec2022", path)
