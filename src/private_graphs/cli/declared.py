"""``private-graphs declare``, ``predict`` and ``ledger``: documents of an owner."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from private_graphs.cli.options import DATA, AsJson, DataFolder, Seed
from private_graphs.cli.terminal import print_json, say
from private_graphs.core.errors import counted
from private_graphs.privacy.rounding import at_most

Name = Annotated[str, typer.Argument(help="Name for the documents: lower-case letters, digits.")]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of CSV files, such as latin-1; default utf-8.")
]


def declare(
    name: Name,
    nodes: Annotated[
        Path, typer.Option(help="Table of documents: CSV (fields between commas, semicolons or "
                           "tabs) or Parquet.")
    ],
    text: Annotated[
        str, typer.Option(help="Columns with text, such as title,body.", metavar="A,B")
    ],
    label: Annotated[str, typer.Option(help="Column with the class; may be empty.",
                                       metavar="COLUMN")],
    edges: Annotated[
        Path | None, typer.Option(help="Table of links, with the columns source and target.")
    ] = None,
    id: Annotated[str, typer.Option(help="Column with the ids.", metavar="COLUMN")] = "id",
    unit: Annotated[
        str | None,
        typer.Option(help="Column with the person whom a document belongs to: persons are "
                     "protected. Default: each document is.", metavar="COLUMN"),
    ] = None,
    max_per_unit: Annotated[
        int | None, typer.Option(help="Documents that are kept of one person; default 5.", min=1)
    ] = None,
    public: Annotated[
        str | None,
        typer.Option(help="Column that says yes for public documents; default: nobody is public.",
                     metavar="COLUMN"),
    ] = None,
    public_files: Annotated[
        Path | None, typer.Option(help="Folder with tables of public documents.", metavar="DIR")
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(help="Public list of words, made without these documents: others are not "
                     "read. Default: all words, or those of public documents."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Public model that reads the texts in place of words, trained on others: "
                     "a folder (BERT, sentence-transformers), a fastText .bin file, or a name "
                     "such as bert-base-multilingual-cased.", metavar="MODEL"),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="Names of the classes; default: those of public documents.",
                     metavar="A,B,C"),
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(help="Share of the documents or persons that only answer whether the release "
                     "was worth it; default .2, from 3,000 on .1; 0 where you have tests of your "
                     "own. With public documents these test.", min=0, max=0.5, metavar="SHARE"),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Largest epsilon that anybody's documents may spend: a release may ask "
                     "for at most what is left."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Default: the largest power of ten up to 1/(10 n), n units."),
    ] = None,
    encoding: Encoding = None,
    unknown_edges: Annotated[
        Literal["refuse", "drop"], typer.Option(help="Links to ids that no document has.")
    ] = "refuse",
    drop_empty: Annotated[
        bool, typer.Option("--drop-empty", help="Leave out documents without text.")
    ] = False,
    source: Annotated[
        str | None, typer.Option(help="Column of the links; default source.", metavar="COLUMN")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column of the links; default target.", metavar="COLUMN")
    ] = None,
    max_edges: Annotated[
        int | None,
        typer.Option(help="Where all documents are public, the links are protected: a public bound "
                     "on their number, known without looking at them.", metavar="N", min=1),
    ] = None,
    data: DataFolder = DATA,
) -> None:  # fmt: skip
    """Declare private documents: whom a guarantee protects, what is public, what may be spent.

    Nothing is public unless you say so, and nothing is trained. Documents without a class are
    kept: they are protected, and get predictions. Read docs/your-own-graph.md first.

    Example:

    private-graphs declare letters --nodes letters.csv --text title,text --label department
    --unit patient --classes surgery,cardiology --budget 4
    """
    flags = dict(locals(), classes=classes or ())
    from private_graphs.documents.intake import declare as keep_declaration

    declaration = keep_declaration(**flags)
    for warning in declaration.warnings:
        say(f"warning: {warning}")
    typer.echo("\n".join(declaration.lines()))


def predict(
    release: Annotated[Path, typer.Argument(help="Folder 'release' of classify --out DIR.")],
    nodes: Annotated[Path, typer.Option(help="Table of new documents, with ids and texts.")],
    out: Annotated[Path, typer.Option(help="CSV with id, class and score.", metavar="FILE")],
    label: Annotated[
        str | None, typer.Option(help="Column with true classes, to count right answers.",
                                 metavar="COLUMN")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Folder or file of the public model that reads texts, if the release "
                     "names one that is not below --data.", metavar="MODEL"),
    ] = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
    data: DataFolder = DATA,
) -> None:  # fmt: skip
    """Classify new documents with a released model: no epsilon is spent, no other file is needed.

    If the release was declared with --model, that public model is needed too. Each class is an
    exact function of its text, which no epsilon covers: FILE is readable by you alone, and is not
    to be given away if the texts are protected.

    Example: private-graphs predict results/release --nodes new.csv --out predictions.csv
    """
    from private_graphs.documents import api

    batch = api.predict(release, nodes=nodes, out=out, label=label, encoding=encoding or "utf-8",
                        model=model, data=data)  # fmt: skip
    if as_json:
        print_json({"documents": len(batch.ids), "unknown": batch.unknown,
                    "accuracy": batch.accuracy, "protected": batch.protected,
                    "warning": batch.warning, "out": str(out)})  # fmt: skip
        return
    lines = [f"{counted(len(batch.ids), 'document')} classified in {out}", batch.warning]
    if batch.unknown is not None:
        lines.append(f"{100 * batch.unknown:.1f} % of their words are unknown to the model")
    if batch.accuracy is not None:
        lines.append(
            f"{100 * batch.accuracy:.1f} % of those with a class are right: an exact number about "
            "these documents, not to be given away if they are private"
        )
    elif label is not None:
        lines.append(f"no label in {label!r} is a class of the model: nothing to count")
    typer.echo("\n".join(lines))


def attack(
    folder: Annotated[
        Path, typer.Argument(help="Folder of classify --out DIR, for declared documents.")
    ],
    models: Annotated[
        int, typer.Option(help="Classifiers that are trained and attacked.", min=8)
    ] = 256,
    seed: Seed = 0,
    as_json: AsJson = False,
    data: DataFolder = DATA,
) -> None:  # fmt: skip
    """Measure how well an attacker can tell who was in the training data.

    The command trains classifiers as the release was trained, on random halves of the units. The
    attacker knows all documents, but not which were used. The result is evidence, not a bound. It
    is computed from private documents without noise, and written to DIR/private: keep it there;
    publishing it would break the guarantee.

    Example: private-graphs attack results
    """
    from private_graphs.documents import api

    report = api.attack(folder, data=data, models=models, seed=seed)
    if as_json:
        print_json(dataclasses.asdict(report) | {"file": str(report.file)})
        return
    typer.echo("\n".join(report.lines()))


def ledger(
    name: Annotated[
        str | None, typer.Argument(help="Declaration; default: all of them.")
    ] = None,
    as_json: AsJson = False,
    data: DataFolder = DATA,
) -> None:  # fmt: skip
    """Show what was spent: the epsilon of the most used unit, over all releases of its ids.

    There are two accounts: of documents, and of links (releases of --scenario edges, for which all
    documents are public).

    Example: private-graphs ledger letters --json
    """
    from private_graphs.documents import api
    from private_graphs.documents.declaration import LINK

    books = api.ledger(name, data=data)
    if as_json:
        documents = [
            {key: "inf" if value == math.inf else value
             for key, value in dataclasses.asdict(book).items()}
            for book in ([books] if name is not None else books)
        ]  # fmt: skip
        print_json(documents[0] if name is not None else documents)
        return
    lines = []
    for book in [books] if name is not None else books:
        budget = "no budget" if book.budget is None else f"budget {book.budget:g}"
        linked = f", {at_most(book.links)} for the most used link" if book.unit != LINK else ""
        spent = book.spent if linked else book.links
        lines.append(
            f"{book.graph}: spent {at_most(spent)} for the most used {book.unit}{linked} at delta "
            f"{book.delta:g}; {budget}"
        )
        lines += [
            f"  {row['date']}  {row['graph']}  {row['method']}  epsilon {row['epsilon']:g}  "
            + (
                f"links of {counted(row['units'], 'document')}"
                if row["unit"] == LINK
                else counted(row["units"], row["unit"])
            )
            + f"  {row['state']}"
            for row in book.releases
        ]
    typer.echo("\n".join(lines) or "nothing is declared")
