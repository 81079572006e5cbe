"""Scores and forms written as text: the only place where text becomes one of Drystone's objects.

A score is ``log``, ``interval(alpha=0.2)`` or a sum such as ``log + 10*rank``; a form is ``mixture(...)``. The
text is parsed as a Python expression in which only names, calls with literal keywords, ``+``, ``*`` and numbers
are allowed. Nothing is ever evaluated.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from drystone._messages import unknown

if TYPE_CHECKING:
    from drystone import Form, Score

__all__ = ["FORMS", "SCORES", "check_form", "check_score", "form", "score"]

SCORES: Mapping[str, str] = {
    "log": "LogScore",
    "rank": "RankCvM",
    "rank_moments": "RankMoments",
    "js": "JensenShannon",
    "interval": "IntervalScore",
    "moment": "MomentScore",
    "mean": "MeanScore",
    "energy": "EnergyScore",
}
FORMS: Mapping[str, str] = {
    "mixture": "Mixture",
    "local": "LocalMixture",
    "sample": "SampleAggregation",
    "interval": "IntervalAggregation",
    "product": "Product",
    "likelihood_mixture": "LikelihoodMixture",
}
# Arguments that are functions or modules, which cannot be written as text.
CODE = frozenset({"embedding", "prior", "statistic"})


class Term(NamedTuple):
    """One term of a sum, ``coefficient * name(arguments)``."""

    coefficient: float
    name: str
    arguments: Mapping[str, Any]


def score(text: str) -> Score:
    """Return the score that a text describes.

    Example:
        >>> score("log + 10*rank")
        LogScore() + 10*RankCvM()
    """
    terms = check_score(text)
    scores = [_make(term, SCORES) for term in terms]
    if len(terms) == 1 and terms[0].coefficient == 1:
        return scores[0]
    return reduce(operator.add, (term.coefficient * one for term, one in zip(terms, scores, strict=True)))


def form(text: str) -> Form:
    """Return the form that a text describes.

    Example:
        >>> form("mixture(concentration=1.2)")
        Mixture(concentration=1.2)
    """
    return _make(check_form(text), FORMS)


def check_score(text: str) -> list[Term]:
    """Return the terms of a score without importing its class; raise if the text is not a score."""
    terms = _terms(_parse(text, "score"), text)
    for term in terms:
        _check_name(term.name, SCORES, "score")
    return terms


def check_form(text: str) -> Term:
    """Return the term of a form, one name with or without arguments; raise if the text is not a form."""
    terms = _terms(_parse(text, "form"), text)
    if len(terms) != 1 or terms[0].coefficient != 1:
        raise ValueError(f"a form is one name, such as mixture or local(hidden=(32, 32)); got {text!r}.")
    _check_name(terms[0].name, FORMS, "form")
    return terms[0]


def _parse(text: str, what: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise ValueError(
            f"{text!r} is not a {what}: write names, numbers, + and *, as in 'log + 10*rank'."
        ) from None


def _terms(node: ast.expr, text: str, coefficient: float = 1.0) -> list[Term]:
    """Return the terms of the flat sum that an expression stands for."""
    match node:
        case ast.BinOp(op=ast.Add()):
            return _terms(node.left, text, coefficient) + _terms(node.right, text, coefficient)
        case ast.BinOp(op=ast.Mult(), left=ast.Constant(value=int() | float() as factor)):
            return _terms(node.right, text, coefficient * factor)
        case ast.BinOp(op=ast.Mult(), right=ast.Constant(value=int() | float() as factor)):
            return _terms(node.left, text, coefficient * factor)
        case ast.Name(id=name):
            return [Term(coefficient, name, {})]
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
            return [Term(coefficient, name, dict(_argument(keyword, name) for keyword in keywords))]
        case ast.Call(func=ast.Name(id=name)):
            raise ValueError(f"arguments of {name!r} must be named, as in 'interval(alpha=0.2)'; got {text!r}.")
    part = ast.unparse(node)
    raise ValueError(f"{part!r} in {text!r} is not understood: use names, numbers, + and * only.")


def _argument(keyword: ast.keyword, name: str) -> tuple[str, Any]:
    try:
        value = ast.literal_eval(keyword.value)
    except ValueError:
        value = keyword.value.id if isinstance(keyword.value, ast.Name) else None
    if keyword.arg is None or value is None:
        part = ast.unparse(keyword)
        raise ValueError(
            f"{part!r} of {name!r} must be a keyword with a number, a text, true or false, or a tuple."
        )
    # Shells and other languages write lower case.
    return keyword.arg, {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _check_name(name: str, known: Mapping[str, str], what: str) -> None:
    if name not in known and name not in known.values():
        raise ValueError(unknown(what, name, known))


def _make(term: Term, known: Mapping[str, str]) -> Any:
    import drystone as ds

    kind = getattr(ds, known.get(term.name, term.name))
    known_arguments = inspect.signature(kind).parameters.keys() - CODE
    for argument in term.arguments:
        if argument not in known_arguments:
            raise ValueError(unknown(f"argument of {term.name}", argument, known_arguments))
    return kind(**term.arguments)
