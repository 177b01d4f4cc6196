"""The verbs for documents of an owner as commands: what each says of its result, and an example."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import private_graphs
from private_graphs.cli.options import AsJson, DataFolder, Seed
from private_graphs.cli.signatures import Function, described, shaped
from private_graphs.cli.terminal import ProgressBar, json_text, print_text, report, say

if TYPE_CHECKING:
    from private_graphs.documents.attack import Attacked
    from private_graphs.documents.intake import Declared
    from private_graphs.documents.predict import Predicted
    from private_graphs.documents.release import Classified
    from private_graphs.report.explained import Explained

_SHARED = {"data": DataFolder, "seed": Seed}
"""Parameters of many verbs, with one option for all."""
_AS_JSON = inspect.Parameter(
    "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson
)


@dataclass(frozen=True)
class Verb:
    """A verb of Python as a command, which prints its result.

    ``tell`` says on standard error what has to be known of a result, and returns what is done even
    if it cannot be printed; its docstring has the example.
    """

    tell: Callable[[Any], str | None]
    function: Function | None = None
    """None: the verb of the name of ``tell``, which is imported when it is asked for."""
    required: tuple[str, ...] = ()
    """Parameters that only Python can do without."""
    work: tuple[str, str] = ("", "")
    """Words of the progress bar."""

    def command(self) -> Function:
        """Return the verb as Typer reads it."""
        name = self.tell.__name__
        verb: Function = self.function or getattr(private_graphs, name)
        parameters = inspect.signature(verb, eval_str=True).parameters
        constants: dict[str, Any] = {
            "say": say, "command": f"private-graphs {name}", "progress": ProgressBar(*self.work)
        }  # fmt: skip
        constants = {key: value for key, value in constants.items() if key in parameters}

        def run(as_json: bool, folders: Sequence[Path] = (), **given: Any) -> None:
            given = {key: value for key, value in given.items() if value is not None}
            with constants.get("progress", nullcontext()):
                result = verb(*folders, **given, **constants)
            done = self.tell(result)
            text = partial(text_of, result, as_json)
            report(text, done) if done else print_text(text())

        options = []
        for parameter in parameters.values():
            if parameter.name in self.required:
                parameter = parameter.replace(default=parameter.empty)
            if parameter.name in _SHARED:
                parameter = parameter.replace(annotation=_SHARED[parameter.name])
            options += [] if parameter.name in constants else [parameter]
        head, words = described(verb)
        example = inspect.getdoc(self.tell) or ""
        return shaped(run, name, [*options, _AS_JSON], f"{head}\n\n{example}", words)


def text_of(result: Any, as_json: bool) -> str:
    """Return the result of a verb, or those of several declarations, as lines or as JSON."""
    several = result if isinstance(result, list) else [result]
    if as_json:
        documents = [document(one) for one in several]
        return json_text(documents if several is result else documents[0])
    return "\n".join(line for one in several for line in one.lines()) or "nothing is declared"


def document(result: Any) -> Any:
    """Return a result for JSON, which has no infinity and no paths."""
    if hasattr(result, "document"):
        return result.document()
    fields = json.loads(json.dumps(asdict(result), default=str))
    return {key: "inf" if value == math.inf else value for key, value in fields.items()}


@Verb
def declare(result: Declared) -> str:
    """Example:

    \b
    private-graphs declare letters --nodes letters.csv --text title,text \\
      --label department --unit patient --classes surgery,cardiology --budget 4
    """
    for warning in result.warnings:
        say(f"warning: {warning}")
    return f"{result.file} is written"


@Verb
def classify(result: Classified) -> str:
    """Example: private-graphs classify letters --epsilon 2 --out results"""
    if result.release is None:
        return "nothing was spent"
    out = result.release.parent
    return f"the release in {out} is whole and paid for: there is nothing to repeat"


@partial(Verb, required=("out",), work=("classifying", "‰"))
def predict(result: Predicted) -> str:
    """Example: private-graphs predict results/release --nodes new.csv --out predictions.csv"""
    return f"{result.out} is whole"


@Verb
def attack(result: Attacked) -> str:
    """Example: private-graphs attack results"""
    return f"{result.file} is whole"


@Verb
def explain(result: Explained) -> None:
    """Examples:

    private-graphs explain results

    private-graphs explain january february --full

    private-graphs explain results/cora/statement.json --statement 0123456789ab --json
    """
