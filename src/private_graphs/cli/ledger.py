"""``private-graphs ledger``: what was spent, on whom, what is left, and spending of other tools."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from private_graphs.cli.verbs import Verb
from private_graphs.documents import spending


class WithDefault(TyperGroup):
    """Group whose command ``show`` needs no name."""

    def parse_args(self, ctx, args):
        if not args or args[0] not in (*self.commands, "--help", "-h"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


ledger = typer.Typer(
    cls=WithDefault,
    help="Show what releases have spent on whom; plan further ones; enter those of other tools. "
    "'ledger NAME' is 'ledger show NAME'.",
    rich_markup_mode=None,
)


def show(result: Any) -> None:
    """Examples:

    private-graphs ledger letters --json

    private-graphs ledger --id 1043
    """


def plan(result: spending.BudgetPlan) -> None:
    """Example: private-graphs ledger plan letters --releases 12"""


def add(result: spending.Spent) -> str:
    """Example:

    private-graphs ledger add letters --mu .2 --sentence "Opacus, topic model of May"
    """
    return f"the spending of {result.graph!r} is entered: there is nothing to repeat"


for tell, function in ((show, spending.ledger), (plan, spending.plan_releases),
                       (add, spending.add_spending)):  # fmt: skip
    ledger.command()(Verb(tell, function).command())
