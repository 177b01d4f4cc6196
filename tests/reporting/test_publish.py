"""Keeping the tables of a finished scale."""

from __future__ import annotations

import pytest

from private_graphs.errors import UserError
from private_graphs.reporting.figures import write_figures
from private_graphs.reporting.publish import publish
from private_graphs.reporting.tables import write_tables


def test_an_unfinished_scale_is_refused_with_the_files_that_lack(tmp_path):
    with pytest.raises(UserError, match=r"lacks tables/lrec2022_table1\.csv.*run snakemake"):
        publish(tmp_path / "full", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_finished_scale_is_copied_with_learning_rates_and_times(tmp_path, cell, statistics):
    scale = tmp_path / "full"
    rates = (0.1, 10.0)
    cell(scale, optimizer="adam", scores={2.0: [0.5, 0.6]}, rates=rates)
    write_tables(scale, "lrec2022", statistics=[statistics()], epochs={"sgd": 2000}, epsilons=[2])
    write_figures(scale, "lrec2022", {"table1": ["cora"]})
    written = publish(scale, tmp_path / "kept")
    assert all(path.parent == tmp_path / "kept" and path.stat().st_size for path in written)
    table = (tmp_path / "kept" / "lrec2022_table1.csv").read_bytes()
    assert table == (scale / "tables" / "lrec2022_table1.csv").read_bytes()
    page = (tmp_path / "kept" / "lrec2022_runs.md").read_text()
    assert "| cora | paper | 1 | 2 | 10 | 0.550 | 0.550 | yes |" in page
    assert "| cora | paper | 1 | 2 | 0.1 | 0.550 | 0.010 |  |" in page
    assert "| all | | | | 4 | 8000 | 4.0 |" in page
