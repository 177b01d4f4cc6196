"""``private-graphs declare``, ``predict`` and ``attack``: documents of an owner."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import typer

from private_graphs.cli.options import DATA, AsJson, DataFolder, Seed
from private_graphs.cli.terminal import ProgressBar, json_text, report, say
from private_graphs.core.errors import UsageError

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
        Path | None,
        typer.Option(help="Table of links, with the columns source and target. Those among public "
                     "documents tell how much 'predict --edges' can read off links; those of "
                     "private ones are not read."),
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

    \b
    private-graphs declare letters --nodes letters.csv --text title,text \\
      --label department --unit patient --classes surgery,cardiology --budget 4
    """
    flags = dict(locals(), classes=classes or ())
    from private_graphs.documents.intake import declare as keep_declaration

    declaration = keep_declaration(**flags)
    for warning in declaration.warnings:
        say(f"warning: {warning}")
    report(lambda: "\n".join(declaration.lines()), f"{declaration.file} is written")


def predict(
    release: Annotated[Path, typer.Argument(help="Folder 'release' of classify --out DIR.")],
    nodes: Annotated[Path, typer.Option(help="Table of new documents, with ids and texts.")],
    out: Annotated[Path, typer.Option(help="CSV with id, class and scores.", metavar="FILE")],
    label: Annotated[
        str | None, typer.Option(help="Column with true classes, to count right answers.",
                                 metavar="COLUMN")
    ] = None,
    edges: Annotated[
        Path | None,
        typer.Option(help="Table of links of new documents to public ones of the release, which "
                     "vote; other links are not used. Default: texts alone."),
    ] = None,
    source: Annotated[
        str, typer.Option(help="Column of the links.", metavar="COLUMN")
    ] = "source",
    target: Annotated[
        str, typer.Option(help="Column of the links.", metavar="COLUMN")
    ] = "target",
    model: Annotated[
        str | None,
        typer.Option(help="Folder or file of the public model that reads texts, if the release "
                     "names one that is not below --data.", metavar="MODEL"),
    ] = None,
    shares: Annotated[
        str | None,
        typer.Option(help="Shares of the classes among the new documents, in place of those of the "
                     "release; for releases of epsilon 2 and more. Rare classes are found more "
                     "often, and some documents of the others are lost.",
                     metavar="A=.3,B=.7"),
    ] = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
    data: DataFolder = DATA,
) -> None:  # fmt: skip
    """Classify new documents with a released model: no epsilon is spent, no other file is needed.

    FILE has the class of each document, its score, and the scores of all classes. A score is the
    probability of a class if words are drawn one by one: on prose it is about right, and too sure
    where words depend on each other. A text without a word that the model knows gets no class. A
    table of any length is read in blocks.

    If the release was declared with --model, that public model is needed too. If it was declared
    with links and public documents, --edges takes the links of new documents to these: each adds
    the log-odds of its class. Documents without one are classified by their words alone. Each class
    is an exact function of its text and these links, which no epsilon covers: FILE is readable by
    you alone, and is not to be given away if the texts are protected.

    Example: private-graphs predict results/release --nodes new.csv --out predictions.csv
    """
    from private_graphs.documents import api

    with ProgressBar("classifying", "‰") as progress:
        batch = api.predict(
            release, nodes=nodes, out=out, label=label, encoding=encoding or "utf-8", model=model,
            data=data, shares=_shares(shares), progress=progress, edges=edges, source=source,
            target=target,
        )  # fmt: skip

    def text() -> str:
        if as_json:
            return json_text({
                "documents": len(batch.ids), "linked": batch.linked, "unknown": batch.unknown,
                "accuracy": batch.accuracy, "protected": batch.protected, "empty": batch.empty,
                "classes": list(map(vars, batch.used)), "warning": batch.warning, "out": str(out),
            })  # fmt: skip
        lines = batch.lines()
        if label is not None and batch.accuracy is None:
            lines.append(f"no label in {label!r} is a class of the model: nothing to count")
        return "\n".join(lines)

    report(text, f"{out} is whole")


def _shares(text: str | None) -> dict[str, float] | None:
    """Return the shares of classes in NAME=SHARE between commas."""
    if text is None:
        return None
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        try:
            shares[name.strip()] = float(number)
        except ValueError:
            raise UsageError(
                f"--shares: {part!r} is no share of a class; expected NAME=NUMBER between commas"
            ) from None
    return shares


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

    attacked = api.attack(folder, data=data, models=models, seed=seed)

    def text() -> str:
        if as_json:
            return json_text(dataclasses.asdict(attacked) | {"file": str(attacked.file)})
        return "\n".join(attacked.lines())

    report(text, f"{attacked.file} is whole")
