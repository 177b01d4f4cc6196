"""``private-graphs ledger``: what was spent, on whom, what is left, and spending of other tools."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from private_graphs.cli.options import DATA, AsJson, DataFolder
from private_graphs.cli.terminal import json_text, print_text, report

_SHOW = "show"


class WithDefault(TyperGroup):
    """Group whose command ``show`` needs no name."""

    def parse_args(self, ctx, args):
        if not args or args[0] not in (*self.commands, "--help", "-h"):
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


ledger = typer.Typer(
    cls=WithDefault,
    help="Show what releases have spent on whom; plan further ones; enter those of other tools. "
    "'ledger NAME' is 'ledger show NAME'.",
    rich_markup_mode=None,
)
Declared = Annotated[str, typer.Argument(help="Declaration.")]


def _text(books: Sequence[Any], as_json: bool, alone: bool) -> str:
    """Return results as text: as JSON one by itself, or a list."""
    if not as_json:
        return "\n".join(line for book in books for line in book.lines())
    documents = [
        {key: "inf" if value == math.inf else value
         for key, value in dataclasses.asdict(book).items()}
        for book in books
    ]  # fmt: skip
    return json_text(documents[0] if alone else documents)


@ledger.command()
def show(
    name: Annotated[
        str | None, typer.Argument(help="Declaration; default: all of them.")
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(help="Id of a person or document: what was spent on this one alone, and in "
                     "which releases; also of somebody who is in no table any more."),
    ] = None,
    as_json: AsJson = False,
    data: DataFolder = DATA,
) -> None:  # fmt: skip
    """Show what was spent: the epsilon of the most used unit, over all releases of its ids.

    There are two accounts: of documents, and of links (releases of --scenario edges, for which all
    documents are public).

    Examples:

    private-graphs ledger letters --json

    private-graphs ledger --id 1043
    """
    from private_graphs.documents import spending

    if id is not None:
        print_text(_text(spending.spent_on(id, name, data=data), as_json, alone=False))
        return
    books = spending.ledger(name, data=data)
    if not books:
        print_text("[]" if as_json else "nothing is declared")
        return
    several = books if isinstance(books, list) else [books]
    print_text(_text(several, as_json, name is not None))


@ledger.command()
def plan(
    name: Declared,
    releases: Annotated[int, typer.Option(help="Number of further releases.", min=1)],
    as_json: AsJson = False,
    data: DataFolder = DATA,
) -> None:
    """Say for which epsilon each of several further releases may ask, all within the budget.

    Releases compose to less than the sum of their epsilons: 12 of a budget of 4 have .99 each, not
    .33. Each is supposed to hold every unit; who is in few of them spends less.

    Example: private-graphs ledger plan letters --releases 12
    """
    from private_graphs.documents import spending

    plans = [spending.plan_releases(name, releases, data=data)]
    print_text(_text(plans, as_json, alone=True))


@ledger.command()
def add(
    name: Declared,
    sentence: Annotated[
        str, typer.Option(help="What was released, with which tool, and when; it stands in the "
                          "ledger.")
    ],
    mu: Annotated[
        float | None, typer.Option(help="That of Gaussian DP, of all steps together.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="In place of --mu: what the other tool has proved.")
    ] = None,
    delta: Annotated[
        float, typer.Option(help="With --epsilon; it has to be below the delta of the declaration, "
                            "of which it takes its part.")
    ] = 0.0,
    relation: Annotated[
        Literal["add_remove", "replace"],
        typer.Option(help="What it was proved for; add_remove, as in most tools, counts twice: a "
                     "replaced unit is removed and added."),
    ] = "add_remove",
    as_json: AsJson = False,
    data: DataFolder = DATA,
) -> None:  # fmt: skip
    """Enter what another tool has spent on all protected units of a declaration.

    It is entered whatever the budget is, as it is spent, and no line can be taken back.

    Example:

    private-graphs ledger add letters --mu .2 --sentence "Opacus, topic model of May"
    """
    from private_graphs.documents import spending

    book = spending.add_spending(
        name, sentence, mu=mu, epsilon=epsilon, delta=delta, relation=relation, data=data
    )
    done = f"the spending of {name!r} is entered: there is nothing to repeat"
    report(lambda: _text([book], as_json, alone=True), done)
