"""The memory of jobs is predicted within a factor of 1.5, on the safe side."""

from __future__ import annotations

import memory


def test_predictions_are_those_of_the_page_and_near_what_was_measured(root):
    page = (root / "docs" / "cluster.md").read_text(encoding="utf-8")
    _, _, *lines = memory.table([1000] * len(memory.JOBS)).splitlines()
    shown = page.split("<!-- begin: memory -->\n")[1].split("\n<!-- end")[0].splitlines()[2:]
    assert len(shown) == len(lines)
    for now, then in zip(lines, shown, strict=True):
        *told, _, predicted, _ = now.strip("|").split("|")
        assert then.strip("|").split("|")[:-3] == told and then.split("|")[-3] == predicted
        assert 1 <= float(then.split("|")[-2]) <= 1.5, then
