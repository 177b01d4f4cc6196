"""The recorded runs of the reference engine belong to those of the compiled one, and agree."""

from __future__ import annotations

import pages
import pandas as pd
import pytest
import reference


@pytest.fixture(scope="module")
def both(root) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pd.read_csv(root / "docs" / "benchmarks" / "reference.csv"), reference.recorded()


def test_every_mean_is_within_the_limit(both):
    cells = reference.compared(*both)
    assert len(cells) and {"paper", "released"} == set(cells["protocol"])
    assert (cells["errors"].abs() <= reference.LIMIT).all()


def test_replicas_have_the_noise_and_seeds_of_the_recorded_runs(both):
    keys = [*reference.CELL, "seed"]
    joined = both[0].merge(both[1], on=keys, validate="one_to_one", suffixes=("", "_theirs"))
    assert len(joined) == len(both[0])
    assert joined["noise_multiplier"].to_numpy() == pytest.approx(
        joined["noise_multiplier_theirs"].to_numpy(), rel=1e-5
    )


def test_the_page_is_that_of_its_replicas(both):
    text = pages.PAGE.read_text(encoding="utf-8")
    assert pages.with_part(text, "reference", reference.table(*both)) == text
