"""Commands made of Python functions: the signature has the name, type and default of a parameter,
the docstring its words; a terminal shows both, and neither stands twice."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from copy import copy
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer

import private_graphs

_ENTRY = re.compile(r"^    ([\w, ]+) \((.+?)\): ((?:.+\n?)(?: {5,}.+\n?)*)", re.MULTILINE)
"""A parameter in a docstring: names, kind, words."""
_VALUES = {"list of str": "A,B", "dict of str to float": "A=.3,B=.7", "column": "COLUMN",
           "folder": "DIR", "file": "FILE"}  # fmt: skip
"""Kind of a parameter -> its value in the help of an option, where that is not the type."""
_SPELLED = str.maketrans({"ε": "epsilon", "δ": "delta", "μ": "mu"})
Function = Callable[..., Any]
Words = dict[str, tuple[str, str]]
"""Parameter -> its kind and its words."""


def described(function: Function) -> tuple[str, Words]:
    """Return what a docstring says before its parameters, and of each of them."""
    head, _, section = (inspect.getdoc(function) or "").partition("\nArgs:\n")
    words: Words = {}
    for names, kind, lines in _ENTRY.findall(re.split(r"\n\b", section)[0]):
        text = " ".join(lines.split())
        verb = None
        if source := re.fullmatch(r"as in ``(\w+)``\.", text):
            verb = function.__globals__.get(source[1]) or getattr(private_graphs, source[1])
        for name in names.split(", "):
            words[name] = kind, described(verb)[1][name][1] if verb else text
    return head.strip(), words


def command_of(function: Function) -> Function:
    """Return a function of a module of commands as Typer reads it."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()

    def run(**given: Any) -> None:
        function(**given)

    return shaped(run, function.__name__, [*parameters], *described(function))


def shaped(
    run: Any, name: str, parameters: list[inspect.Parameter], head: str, words: Words
) -> Function:
    """Give ``run`` the name, parameters and help of a command.

    The first parameter is an argument unless it is keyword-only; all others are options.
    """
    options = {parameter.name: f"--{parameter.name.replace('_', '-')}" for parameter in parameters}
    if parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY:
        del options[parameters[0].name]

    def spelled(text: str) -> str:
        text = re.sub(r"``(.+?)``", lambda code: options.get(code[1], f"'{code[1]}'"), text)
        return text.translate(_SPELLED)

    def option(parameter: inspect.Parameter) -> inspect.Parameter:
        kind, text = words.get(parameter.name, ("", ""))
        default = None if parameter.default == () else parameter.default
        value, info = _value(parameter, default is None, options.get(parameter.name))
        if parameter.name in options and not info.metavar:
            info.metavar = _VALUES.get(kind, kind if re.search(r"[A-Z]{2}|\|", kind) else None)
        text = spelled(text)
        is_value = re.match(r"\w+:", text)
        info.help = info.help or (text if is_value else text[:1].upper() + text[1:])
        return parameter.replace(
            kind=parameter.KEYWORD_ONLY, default=default, annotation=Annotated[value, info]
        )

    run.__name__, run.__doc__ = name, spelled(head)
    run.__signature__ = inspect.Signature(list(map(option, parameters)))
    return run


def _value(parameter: inspect.Parameter, optional: bool, option: str | None) -> tuple[Any, Any]:
    """Return the type of what a terminal gives for a parameter, and Typer's words about it."""
    if get_origin(parameter.annotation) is Annotated:
        value, info = get_args(parameter.annotation)
        return value, copy(info)
    hint = parameter.annotation
    types = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    value = next((kind for kind in (Path, str) if kind in types), types[0])
    if parameter.kind is parameter.VAR_POSITIONAL:
        value = list[value]  # type: ignore[valid-type]
    flag = [option] if value is bool and not optional else []  # no --no-
    info = typer.Option(*flag) if option else typer.Argument()
    return value | None if optional else value, info
