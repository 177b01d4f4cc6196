"""A bound as text is on its safe side, and one function makes it so wherever one is printed."""

from __future__ import annotations

import ast
import math
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from private_graphs.privacy.rounding import at_least, at_most
from private_graphs.report.words import bound, budget

BOUNDED = re.compile(
    r"epsilon|proved|spent|lower|shown|allowed|before|after|together|least\b|left\b"
)
"""Words in the expression of a bound."""
ASKED = ("report/statement.py: epsilon",)
"""What was asked for, and is shown as it is."""
LEFT_OUT = {
    "attacks/mechanism_audit.py",  # text of a broken proof, which compares the numbers first
}


@given(st.floats(1e-9, 1e9), st.sampled_from([None, 2, 3, 4]))
def test_upper_bounds_are_rounded_up_and_lower_ones_down(value: float, decimals: int | None):
    exact, up, down = Decimal(repr(value)), *map(Decimal, (
        at_most(value, decimals), at_least(value, decimals)
    ))  # fmt: skip
    assert down <= exact <= up
    assert up - down <= (Decimal(1).scaleb(exact.adjusted() - 3) if decimals is None
                         else Decimal(1).scaleb(-decimals))  # fmt: skip
    assert Decimal(bound(value)) <= exact <= Decimal(budget(value))


def test_a_bound_that_is_infinite_is_said_to_be():
    assert at_most(math.inf) == at_most(math.inf, 2) == "inf"


def _formats(text: str) -> list[tuple[str, str]]:
    """Return expressions of f-strings that round, with their formats."""
    return [
        (ast.unparse(node.value), ast.unparse(node.format_spec))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None
    ]


def test_one_function_rounds_bounds(root):
    """No other place formats what is proved, spent, allowed or shown."""
    package, found = root / "src" / "private_graphs", []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name in LEFT_OUT or "methods" in path.parts:
            continue
        for expression, spec in _formats(path.read_text(encoding="utf-8")):
            rounds = re.search(r"\.\d*[gf]", spec)
            if rounds and BOUNDED.search(expression) and f"{name}: {expression}" not in ASKED:
                found.append(f"{name}: {expression} {spec}")
    assert not found, "use privacy.rounding.at_most or at_least"


@pytest.mark.parametrize("left", [1.0469, 1.0461])
def test_what_is_spent_is_never_less_and_what_is_left_never_more_than_there_is(left: float):
    """The statement says the same of what was spent."""
    from private_graphs.documents.accounts import Account
    from private_graphs.documents.allowance import allowance_words
    from private_graphs.privacy.accountants import gdp_mu
    from private_graphs.privacy.explain import at_most as of_statement

    square, further = gdp_mu(2.9531, 1e-5) ** 2, gdp_mu(left, 1e-5) ** 2
    budget = Account(((square + further, 0.0, 0.0),), 1e-5).spent * (1 + 1e-7)  # and a lattice
    words = allowance_words(Account(((square, 0.0, 0.0),), 1e-5), budget, 1e-5)
    assert f"spent {of_statement(2.9531)} of" in words and of_statement(2.9531) == "2.954"
    assert "so that a release at 1.046 is left" in words
