"""What the papers print."""

from __future__ import annotations

import math

import pytest

from private_graphs.errors import UserError
from private_graphs.reporting.published import published_table


def test_table1_has_every_printed_row_of_the_five_datasets():
    frame = published_table("lrec2022", "table1")
    assert len(frame) == 45
    row = frame[(frame.dataset == "cora") & (frame.setting == "non_private")].iloc[1]
    assert (row.optimizer, row.micro_f1) == ("adam", 0.88)
    assert math.isinf(row.epsilon)
    assert list(frame[frame.setting == "majority"].optimizer.unique()) == [""]


def test_table3_is_found_by_its_number_alone():
    assert list(published_table("lrec2022", "table3").noise_sgd) == [4, 26, 48, 112]


def test_unknown_table_is_an_error_that_suggests_the_nearest():
    with pytest.raises(UserError, match="no published table 'lrec2022_tabel1'.*did you mean"):
        published_table("lrec2022", "tabel1")
