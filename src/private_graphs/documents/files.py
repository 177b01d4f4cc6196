"""Files of a release: a folder that may be given away, and a private one for the owner."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from private_graphs.core.bounded_files import parsed_json, read_kept
from private_graphs.core.errors import UsageError, UserError, counted, listed, system_error_text
from private_graphs.core.files import names_in, sync, write_json, write_text
from private_graphs.core.manifest import MANIFEST
from private_graphs.core.private_files import private_folder, private_path
from private_graphs.core.spreadsheets import table_text
from private_graphs.core.version import __version__
from private_graphs.documents.accounts import Cost, RecordedRelease, composed
from private_graphs.documents.answers import REGRESSION, SUMS, recall_words, size_words
from private_graphs.documents.declaration import LINK, Declaration, LedgerState
from private_graphs.documents.model import MODEL_FILE, ReleasedModel
from private_graphs.documents.payment import free
from private_graphs.documents.prediction import Predictions
from private_graphs.documents.tables import PUBLIC, TEST, TRAINING, Documents
from private_graphs.privacy.rounding import at_most

if TYPE_CHECKING:
    from private_graphs.documents.neighbours import LinkVotes
    from private_graphs.documents.release import Classified, Drawn

_LEDGER = "ledger.json"
"""File beside ``release`` and ``private``: what the release has seen of the ledger."""
_KEEP = """# Not to be given away

`predictions.csv` has the predicted class of every protected document that is read. Each is an exact
function of a protected text, which no guarantee covers: it is for the owner, or for each person
their own. What may be given away is in `release`. `leaks.json` has what 'private-graphs attack' has
found, from protected texts without noise: for the owner alone.
"""


_RELEASED = ("predictions.csv", "statement.json", "README.md", "report.html")
"""Files of every release that may be given away, beside model and manifest."""


def state_in(folder: Path) -> LedgerState | None:
    """Return what the release in a folder has seen of its ledger; None if there is none.

    Raises:
        UserError: the file cannot be read, or is damaged.
    """
    path = folder / _LEDGER
    if _LEDGER not in names_in(folder):
        return None
    try:
        seen = parsed_json(read_kept(path))
        del seen["folder"]  # it may have been moved since
        return LedgerState.model_validate(seen)
    except OSError as error:
        raise UserError(system_error_text(error)) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{path}: is damaged: what the release there has seen of the ledger is not known; "
            "restore the file from a copy, or choose another --out"
        ) from error


def refuse_folders(folder: Path) -> None:
    """Raise UsageError for anything but a file under the name of a file that a release writes."""
    names = [_LEDGER, "private/README.md", "private/predictions.csv",
             *(f"release/{name}" for name in (*_RELEASED, MODEL_FILE, MANIFEST))]  # fmt: skip
    for path in (folder / name for name in names):
        if path.name in names_in(path.parent) and not path.is_file():
            raise UsageError(
                f"{path}: is no file, and this release would write one there; remove it, or choose "
                "another --out"
            )


def write_run(
    result: Classified, statement: Any, drawn: Drawn, docs: Documents, spec: Declaration,
    contact: str, entry: RecordedRelease, ledger: Path,
) -> None:  # fmt: skip
    """Write ``release`` and ``private``, the manifest last, and force them to the disk.

    The private folder is closed to others from the start. ``entry`` is the line in the ``ledger``.
    """
    from private_graphs.core.imports import code_fingerprint
    from private_graphs.core.manifest import write_manifest

    assert result.release is not None
    free(result.release.parent)
    for name in (f"release/{MANIFEST}", f"release/{MODEL_FILE}", "private/predictions.csv",
                 "private/leaks.json"):  # fmt: skip
        (result.release.parent / name).unlink(missing_ok=True)  # of an earlier run
    with private_path(result.release.parent / _LEDGER) as temporary:
        seen = {"folder": str(ledger.resolve()), **entry.state.model_dump()}
        temporary.write_text(json.dumps(seen) + "\n", encoding="utf-8")
    predictions = result.release / "predictions.csv"
    if drawn.model is None:
        write_text(predictions, table_text(["id", "class"], drawn.predicted))
    else:
        assert result.private is not None
        votes = None
        if spec.edges is not None and drawn.model.neighbours is not None:
            read = drawn.model.neighbours.read
            votes = read(spec.edges, spec.source, spec.target, spec.encoding)
        with private_folder(result.private):
            write_text(result.private / "README.md", _KEEP)
            _predictions(drawn.model, docs, (TRAINING, TEST), result.private / "predictions.csv",
                         votes)  # fmt: skip
        drawn.model.save(result.release / MODEL_FILE)
        _predictions(drawn.model, docs, PUBLIC, predictions, votes)
    parts = page(result, statement, spec, docs, contact, entry.date[:10])
    write_text(result.release / "README.md", _markdown(f"Release of {result.name}", parts))
    write_text(result.release / "report.html", _html(f"Release of {result.name}", parts))
    write_json(result.release / "statement.json", {statement.statement_id: result.statement})
    files = [*_RELEASED, *([] if drawn.model is None else [MODEL_FILE])]
    code = code_fingerprint("private_graphs.documents.release")
    write_manifest(result.release, files, [statement.statement_id], code, entry.date[:10])
    for folder in filter(None, (result.release, result.private)):
        for path in folder.iterdir():
            sync(path)
        sync(folder)
    sync(result.release.parent)
    sync(result.release.parent.absolute().parent)


def _predictions(
    model: ReleasedModel, docs: Documents, sides: tuple[int, ...], path: Path,
    votes: LinkVotes | None,
) -> None:  # fmt: skip
    rows = np.sort(docs.on(*sides))
    ids, texts = ([column[row] for row in rows] for column in (docs.ids, docs.texts))
    predictions, stream = Predictions(model), io.StringIO()
    predictions.begin(stream)
    predictions.add(ids, texts, votes=None if votes is None else votes.of(ids)[0])
    write_text(path, stream.getvalue())


class Code(str):
    """Lines of a page that are typed."""


def group_prices(costs: Sequence[Cost], delta: float) -> tuple[tuple[int, float], ...]:
    """Return (k, ε) of somebody with 2, 5 and 10 units of a release with these costs of its sides.

    All k on the costliest side cost k μ, and others less; the distances of both add up (§0.6).
    """
    mu, distance = max(cost.mu for cost in costs), sum(cost.distance for cost in costs)
    return tuple((count, composed((count * mu) ** 2, distance, 0.0, delta)) for count in (2, 5, 10))


Part = tuple[str, list[str]]
"""Heading, and sentences or code."""
_LOAD = """import private_graphs
model = private_graphs.load(".")  # this folder
texts = [{example}]  # {columns}
print(model.predict(texts))
print(model.predict_proba(texts), model.classes_)"""
_LIMITS = (
    "It is meant for texts of the same kind, language and time as those it was computed from: it "
    "sees words alone, and neither notices that a text is of another kind nor that no class fits",
    "A score is the probability of a class if words were drawn one by one: about right on prose, "
    "and too sure where words depend on each other",
    "Classes are to be checked before somebody decides about a person by them; recall differs "
    "between classes",
)
_MONTHLY = (
    "the number of noisy sums inside this one release was fixed in advance; further releases, "
    "monthly ones say, are each charged to the ledger"
)


def _settings(result: Classified, spec: Declaration, docs: Documents) -> list[str]:
    """Return all settings of a release of texts, which are public."""
    unit, share = result.unit, spec.test_share
    tested = "public documents test" if docs.units_on(*PUBLIC).size else (
        "a fifth of the units, from 3,000 units on a tenth, test and do not train" if share is None
        else f"{100 * share:g} % of the units test and do not train")  # fmt: skip
    return [
        f"Text of the columns {', '.join(spec.text)}; classes of the column {spec.label}: "
        f"{listed(docs.classes)}",
        f"Ids of the column {spec.id}" + (
            f", persons of the column {spec.unit}: at most {spec.max_per_unit} documents of one "
            "are kept, by their ids" if spec.unit else ""),
        f"Method {result.method}, ε = {result.epsilon:g}, δ = {result.delta:g}, "
        + ("no budget" if spec.budget is None else f"budget {spec.budget:g} for each {unit}"),
        f"Tests: {tested}",
        "Documents without text are " + ("left out" if spec.drop_empty else "refused"),
    ]  # fmt: skip


def page(
    result: Classified, statement: Any, spec: Declaration, docs: Documents, contact: str, date: str,
) -> list[Part]:  # fmt: skip
    """Return the one page of a release: headings with sentences, in a privacy officer's order."""
    from private_graphs.privacy.assumptions import ONLY_THIS_FILE
    from private_graphs.privacy.explain import sentences, supposed_by
    from private_graphs.privacy.query_prices import FIXED_NUMBER

    of_links, wording = result.unit == LINK, sentences(statement)
    if of_links:
        unprotected = ["texts and labels: they are public"]
        released = str(wording["against"][-1])
    else:
        unprotected = [
            "predictions of protected documents: they are exact functions of texts, and are not in "
            "this folder",
            "a person with several ids, for all of them together: each id is covered alone",
        ]  # fmt: skip
        released = (
            "All of this folder is covered: a classifier and numbers that are computed from noisy "
            "values and public data alone."
        )
    return [
        ("Who is protected", _protected(result, spec)),
        ("From whom", [str(wording["against"][0]), released]),
        ("How strongly", _strength(result, statement.epsilon_proved)),
        ("What is public, and not protected", _sentences(
            [*statement.public_facts,
             *([] if docs.units_on(*PUBLIC).size else ["no document is public"])])),
        ("What is not covered", _sentences(
            [thing for gap in wording["not_covered"] for thing in gap.things] + unprotected)),
        ("What was spent before", [
            f"Before this release the most used {result.spender} had spent ε = "
            f"{at_most(result.spent_before)}, now ε = {at_most(result.spent)}"
            + (f" of a budget of {result.budget:g}." if result.budget else "; no budget is set.")
        ]),
        ("The model", _model(result, spec, len(docs.classes))),
        *([] if of_links else [
            ("How to load it", [
                f"With version {__version__} of private-graphs, in a folder with its source and in "
                "this one; each text has its columns joined by line breaks.",
                Code("python -m pip install .\n"
                     "private-graphs predict . --nodes new.csv --out classes.csv"),
                Code(_LOAD.format(example=json.dumps("\n".join(spec.text)),
                                  columns=", ".join(spec.text))),
            ]),
            ("Intended use and limits", _sentences(_LIMITS)),
            ("Settings, all public", _sentences(_settings(result, spec, docs))),
        ]),
        ("What it supposes", _sentences([
            "other releases of the same documents stand in the same ledger, and are counted above"
            if assumption == ONLY_THIS_FILE else _MONTHLY if assumption == FIXED_NUMBER
            else words.replace(", docs/privacy.md §0.6", "") for assumption, words in
            zip(statement.assumptions, supposed_by(statement), strict=True)
        ])),
        ("Contact", [contact or "not given"]),
        ("Proof", [
            f"Statement {statement.statement_id}, made on {date} by private-graphs {__version__}, "
            "whose documentation proves this under 'Documents of an owner'. 'explain --full' shows "
            "the formula.",
        ]),
    ]  # fmt: skip


def _protected(result: Classified, spec: Declaration) -> list[str]:
    """Return whom a release protects."""
    unit, of_links = result.unit, result.unit == LINK
    whom = ["Protected: " + (
        "each link between two documents, one at a time: with and without it" if of_links else
        f"{counted(result.units, unit)}, one at a time: if texts, labels and links of one {unit} "
        "were anything else,"
    ) + " this release would be about as likely."]  # fmt: skip
    if spec.unit is None or of_links:
        several = ", ".join(
            f"{count} {unit}s: ε = {at_most(epsilon)}" for count, epsilon in result.groups
        )
        whom.append(f"The unit is one {unit}. Somebody with several has less ({several}).")
    return whom


def _strength(result: Classified, proved: float) -> list[str]:
    """Return how strong the promise is."""
    from private_graphs.privacy.explain import belief_percent

    unit, of_links = result.unit, result.unit == LINK
    failing = result.delta * result.units
    strength = [
        f"ε = {at_most(proved)}: whoever is 50 % sure of a fact about one {unit} becomes at most "
        f"{belief_percent(proved)} sure by this release.",
        f"The promise may fail with probability δ = {result.delta:g} for each {unit}; δ times "
        f"{'at most' if of_links else 'all'} {result.units:,} is {at_most(failing)}.",
    ]
    if result.blanked is not None:
        strength.insert(1, (
            f"ε = {at_most(result.blanked)} where the question is whether all text of one {unit} "
            "was read or blanked: compare this number with the ε of tools such as Opacus. Nothing "
            f"here hides whether somebody is in the table, as the ids and the number of {unit}s "
            "are public."
        ))  # fmt: skip
    return strength


def _model(result: Classified, spec: Declaration, n_classes: int) -> list[str]:
    """Return what is computed, from what, and how good it is."""
    from private_graphs.documents.release import training_of

    of_links = result.unit == LINK
    if of_links:
        card = [
            f"Classes ({n_classes}) of documents without one, by noisy votes of linked documents "
            f"({result.method}); columns {', '.join(spec.text)}. There is no model to predict with."
        ]
    else:
        card = [
            f"A linear classifier of texts (columns {', '.join(spec.text)}) into "
            f"{n_classes} classes, computed from {training_of(result.method).CARD} "
            f"({result.method}).",
        ]
        if spec.model:
            card.append(
                f"Texts are read by the public model {Path(spec.model).name} (sha256 "
                f"{spec.model_sha256}), which 'private-graphs predict' needs beside this folder."
            )
    if (quality := result.quality) is not None:
        about = "noisy counts of private test units, whose ε is that of the release" if (
            quality.noisy) else "public test documents" if of_links else (
            "public documents, a fifth of which each time is answered without it")  # fmt: skip
        scores = "" if quality.only_noise else (
            f"Right answers: {100 * quality.score:.1f} %; the largest class "
            f"({quality.majority_class}): {100 * quality.majority:.1f} %"
            + "".join(
                f"; {name}: {100 * score:.1f} %" for name, score in
                ((SUMS, quality.public_alone), (REGRESSION, quality.public_regression),
                 ("this release without links", quality.without_links)) if score is not None
            ) + f" (from {about}). "
        )  # fmt: skip
        card.append(scores + quality.sentence)
        if quality.macro_f1 is not None and not quality.only_noise:
            words = recall_words(quality.by_class, quality.macro_f1)
            card.append(f"{words[:1].upper()}{words[1:]}.")
    card += _sentences(size_words(result.sizes, result.unit))
    if result.linked is not None:
        card += _sentences([result.linked.sentence])
        if result.linked.tie:
            card.append(
                "'private-graphs predict --edges LINKS' takes new documents with their links to "
                "these public ones, whose ids and votes the model has."
            )
    return card


def _sentences(texts: Iterable[str]) -> list[str]:
    return [f"{text[:1].upper()}{text[1:]}." for text in texts]


def _markdown(title: str, parts: list[Part]) -> str:
    from private_graphs.core.markup import markdown_text

    blocks = [f"# {markdown_text(title)}"]
    for heading, sentences in parts:
        blocks.append(f"## {heading}")
        written = [sentence for sentence in sentences if not isinstance(sentence, Code)]
        blocks += ["\n".join(f"- {markdown_text(sentence)}" for sentence in written)]
        blocks += [f"```\n{part}\n```" for part in sentences if isinstance(part, Code)]
    return "\n\n".join(blocks) + "\n"


def _html(title: str, parts: list[Part]) -> str:
    body = "".join(
        f"<h2>{html.escape(heading)}</h2><ul>"
        + "".join(
            f"<li><pre>{html.escape(sentence)}</pre></li>"
            if isinstance(sentence, Code)
            else f"<li>{html.escape(sentence)}</li>"
            for sentence in sentences
        )
        + "</ul>\n"
        for heading, sentences in parts
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>:root{{color-scheme:light dark}}"
        "body{font:1rem/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem}"
        f"h2{{font-size:1.1rem}}</style></head><body><h1>{html.escape(title)}</h1>\n{body}"
        "</body></html>\n"
    )
