"""Sentences of studies: every number that they name is known, and every method has a line."""

from __future__ import annotations

import re

import pytest

from private_graphs.methods import all_methods
from private_graphs.report.claims import claims_of
from private_graphs.running.catalog import exhibits_by_name
from private_graphs.running.study import load_study, study_ids
from private_graphs.site.overview import VERDICT_WORDS


@pytest.mark.parametrize("study", study_ids())
def test_every_number_of_a_sentence_has_a_source(study: str) -> None:
    """A name that nothing fills in would silently leave the sentence out."""
    read, says = load_study(study), load_study(study).says
    known = {"printed", "budgets", "hold", "refuted", "unproved", "none", "shown", "larger",
             "sums", "public", "sums_unlabelled", "public_unlabelled", *says.numbers}  # fmt: skip
    known |= {f"printed {name}" for name in read.published}
    known |= {name for counts in says.counted.values() for name in counts}
    for exhibit in exhibits_by_name(study).values():  # their docstrings name what they fill in
        known |= set(
            re.findall(r"``([a-z ]+)``", (exhibit.numbers and exhibit.numbers.__doc__) or "")
        )
    known |= {f"{word} {claim.id}" for claim in claims_of(study)
              for word in (*VERDICT_WORDS, "most", "printed")}  # fmt: skip
    texts = says.model_dump_json(exclude={"numbers", "counted"})
    assert set(re.findall(r"{([a-z][^{}:]*)}", texts)) <= known
    assert set(says.counted) <= set(says.findings) <= set(exhibits_by_name(study))
    for number in says.numbers.values():
        owner = load_study(number.where.get("study", study))
        assert number.where.get("group", next(iter(owner.groups))) in owner.groups


def test_every_method_has_a_line_below_its_name() -> None:
    assert [name for name, each in all_methods().items() if not each.summary] == []
