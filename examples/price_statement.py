"""Price the privacy statements of a run again with the accountants of dp-accounting alone.

    python examples/price_statement.py    # in a folder with a statement.json

prints the identifier of each statement, ε as dp-accounting prices it, and ε as the statement says.
"""

import json
import math
from pathlib import Path

import dp_accounting as dp


def event(tree):
    if isinstance(tree, list):
        return [event(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    return getattr(dp.dp_event, tree["class"])(
        **{key: event(value) for key, value in tree.items() if key != "class"}
    )


def epsilon(part, delta):
    released, q = event(part["event"]), part["secret_sample"] or 1
    relation = dp.NeighboringRelation[part["neighboring_relation"]]
    accountants = (
        dp.pld.PLDAccountant(relation),
        dp.rdp.RdpAccountant(neighboring_relation=relation),
    )
    accountant = next(one for one in accountants if one.supports(released))
    return math.log1p(q * math.expm1(accountant.compose(released).get_epsilon(delta / q)))


for name, statement in json.loads(Path("statement.json").read_text()).items():
    prices = [epsilon(part, statement["delta"]) for part in statement["dp_events"]]
    print(name, max(prices), statement["epsilon_proved"])
