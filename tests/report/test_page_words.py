"""Words: pages and README use the field's terms, not those that came before them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from golden import EXHIBITS
from small_shelves import AUDIT, TABLE, shelf

from private_graphs.methods import all_methods
from private_graphs.report.claims import claims_of
from private_graphs.running.catalog import exhibits_by_name
from private_graphs.running.study import load_study, study_ids
from private_graphs.site.overview import VERDICT_WORDS
from private_graphs.site.publish import write_all
from private_graphs.site.site import write_pages
from private_graphs.tasks.tasks import SCENARIOS

LEFT = (
    "its text, measured", "Hollow: the promise", "model only", "vacuous", "printed scores met",
    "Every ε", "Claims of the text", "no run needed", "undecided", "shelf", "shelves", "exhibit",
    "node out list", "only the validation set public", "neighbour that vanishes",
    "Proved without a sample", "What a row holds", "What single choices are worth",
    "the nearest pictures are the emptiest", "who has no model", "Two traps of dp-accounting",
    "accountant that cancels", "accountant cancels", "Shuffled visits are no Poisson samples",
    "is 17 of a node", "a black picture is nearer", "settings of a job train as one batch",
)  # fmt: skip
"""Words that pages had before, each replaced by a term of the field."""
_NOT_READ = re.compile(r"<(style|script|code|pre)\b.*?</\1>|<[^>]*>|`[^`]*`|```.*?```", re.DOTALL)
"""Markup, and code, in which files and keys keep their names."""


def _left_in(text: str) -> list[str]:
    read = _NOT_READ.sub(" ", text)
    return [each for each in LEFT if re.search(rf"\b{re.escape(each)}(?!s?=)", read)]


def test_no_page_and_no_result_says_it(tmp_path: Path) -> None:
    held = shelf("recorded", audit=AUDIT, vacuous=True, exhibits=(TABLE,))
    write_all(tmp_path / "recorded" / "exhibits" / "small", held)
    pages = write_pages(tmp_path, [held])
    files = [*pages, *EXHIBITS.rglob("*.md")]
    assert len(files) > 60
    found = {str(path): _left_in(path.read_text(encoding="utf-8")) for path in files}
    assert {path: words for path, words in found.items() if words} == {}


def test_the_readme_does_not_say_it(root: Path) -> None:
    assert _left_in((root / "README.md").read_text(encoding="utf-8")) == []


def test_no_title_and_no_sentence_of_a_study_says_it() -> None:
    texts = [scenario.title for scenario in SCENARIOS.values()]
    texts += [f"{each.title} {each.summary}" for each in all_methods().values()]
    for study in study_ids():
        exhibits = exhibits_by_name(study).values()
        texts += [f"{each.title} {each.meaning}" for each in exhibits]
        texts.append(load_study(study).says.model_dump_json(exclude={"counted"}))
    assert [(text, _left_in(text)) for text in texts if _left_in(text)] == []


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
