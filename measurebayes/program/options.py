"""Options of a model file: what it offers, what was chosen, and how both are written.

A file offers options in ``OPTIONS``: a tuple of words, the first of which is the default, or a
whole number, the default where any positive whole number will do. ``model(pp, data, priors)`` gets
the chosen ones as keyword arguments. As text, a model with options is ``name:option=value,...``.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from measurebayes.errors import ModelError, did_you_mean, shown

Value = str | int
Offered = Mapping[str, tuple[str, ...] | int]

MOST = 10_000  # of a whole number: more is a slip of the keyboard
_WORD = re.compile(r"\w[\w-]*", re.ASCII)
# Arguments that stand beside options in a call, and what they are arguments of. None can be an
# option; a mistyped keyword may have been meant to be one of them.
_FIT, _BUILD = "fit", "numpyro_model and pymc_model"
_ARGUMENTS = {
    "backend": _FIT, "method": _FIT, "draws": _FIT, "tune": _FIT, "chains": _FIT,
    "seed": "fit, simulate and calibrate", "executor": "fit and calibrate",
    "progress": "fit and calibrate", "checkpoint": _FIT, "resume": _FIT, "unconnected": _FIT,
    "priors": "fit, describe, simulate and calibrate", "layout": _BUILD,
    "replications": "calibrate", "ranked_among": "calibrate",
}  # fmt: skip
# Names in the same calls that are given by place, and those of the text's own arguments.
_PLACES = (
    "self", "model", "runs", "data", "data_design", "name_or_path", "options", "fit_options", "pp",
)  # fmt: skip
MOST_COMBINATIONS = 64  # that `combinations` returns: each takes verify seconds


def problem_with(declared: Any, function: Callable[..., None]) -> str | None:
    """Return what is wrong with the OPTIONS of a model file, if anything is."""
    if not isinstance(declared, Mapping):
        return "OPTIONS is not a mapping"
    arguments = inspect.signature(function).parameters
    for name, offer in declared.items():
        if not isinstance(name, str) or not name.isidentifier():
            return f"OPTIONS names {shown(name)}, which is no name of an argument"
        if name in _ARGUMENTS or name in _PLACES:
            user = _ARGUMENTS.get(name, "the functions that take a model")
            return f"OPTIONS names {name!r}, which {user} have for themselves: choose another name"
        if not _possible(offer):
            return f"OPTIONS[{name!r}] is neither a tuple of words nor a positive whole number"
        if name not in arguments:
            return f"model has no argument {name!r}, which OPTIONS names"
        if arguments[name].default not in (inspect.Parameter.empty, _default(offer)):
            return f"model has another default of {name!r} than OPTIONS"
    return None


def _possible(offer: Any) -> bool:
    if isinstance(offer, tuple):
        words = [word for word in offer if isinstance(word, str) and _WORD.fullmatch(word)]
        return bool(offer) and len(set(words)) == len(offer)
    return isinstance(offer, int) and not isinstance(offer, bool) and 1 <= offer <= MOST


def _default(offer: tuple[str, ...] | int) -> Value:
    return offer[0] if isinstance(offer, tuple) else offer


def defaults(offered: Offered) -> dict[str, Value]:
    """Return the default of every option."""
    return {name: _default(offer) for name, offer in offered.items()}


def chosen(model: str, offered: Offered, changes: Mapping[str, Any]) -> dict[str, Value]:
    """Return the values that were chosen, in the form that a model text gets them.

    Raises
    ------
    ModelError
        The model has no such option, or the option no such value.
    """
    return {name: _value(model, offered, name, value) for name, value in changes.items()}


def _value(model: str, offered: Offered, name: str, value: Any) -> Value:
    if name in _ARGUMENTS:
        raise ModelError(
            f"{name} is an argument of {_ARGUMENTS[name]}, not an option of the model",
            where=f"options of model {model}",
            expected=_names(offered),
            remedy=f"leave {name} out here, and pass it to {_ARGUMENTS[name]} as an argument",
        )
    if name not in offered:
        hint = did_you_mean(str(name), [*offered, *_ARGUMENTS])
        raise ModelError(
            f"option {shown(name)}" + (f" ({hint})" if hint else ""),
            where=f"options of model {model}",
            expected=_names(offered),
            remedy="correct the argument's name; `measurebayes models` lists the options",
        )
    offer = offered[name]
    if isinstance(offer, tuple):
        if isinstance(value, str) and value in offer:
            return value
        expected = "one of " + ", ".join(offer)
    else:
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
            value = int(value)
        if hasattr(value, "__index__") and not isinstance(value, bool) and 1 <= value <= MOST:
            return int(value)
        expected = f"a whole number from 1 to {MOST}"
    raise ModelError(
        f"{name}={shown(value)}",
        where=f"options of model {model}",
        expected=expected,
        remedy=f"leave {name} out to get {_default(offer)}",
    )


def _names(offered: Offered) -> str:
    return "one of " + ", ".join(offered) if offered else "none: it has no options"


def refuse_two(model: str, one: Mapping[str, Value], other: Mapping[str, Value]) -> None:
    """Refuse options that were chosen twice, in a model's name and as arguments, and differ.

    Raises
    ------
    ModelError
        An option has two values.
    """
    for name in one.keys() & other.keys():
        if one[name] != other[name]:
            raise ModelError(
                f"{name} is {one[name]} in the model's name and {other[name]} as an argument",
                where=f"options of model {model}",
                expected="each option once",
                remedy=f"leave {name} out of one of them",
            )


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split ``name:a=x,b=y`` into the name, or path of a .py file, and the options.

    Raises
    ------
    ModelError
        What follows the colon isn't a list of NAME=VALUE, each name once.
    """
    if text.endswith(".py"):
        return text, {}
    head, found, tail = text.rpartition(".py:")
    if found:
        head += ".py"
    else:
        head, found, tail = text.partition(":")
    options: dict[str, str] = {}
    for word in tail.split(",") if found else ():
        name, equals, value = word.partition("=")
        if not (name and equals and value) or name in options:
            raise ModelError(
                f"{shown(text)}" + (f" gives {name!r} a second time" if name in options else ""),
                where="the name of the model",
                expected="NAME:OPTION=VALUE, several options with commas between",
                remedy="write for example horizon_logistic:slopes=common",
            )
        options[name] = value
    return head, options


def suffix(
    offered: Offered, options: Mapping[str, Value], kept: Collection[str] = frozenset()
) -> str:
    """Return what follows a model's name: ``:slopes=common``; nothing where all are defaults.

    Of those in `kept` defaults are written as well.
    """
    usual = defaults(offered)
    words = [
        f"{name}={value}"
        for name, value in options.items()
        if value != usual.get(name) or name in kept
    ]
    return ":" + ",".join(words) if words else ""


def combinations(offered: Offered) -> list[dict[str, Value]]:
    """Return combinations of options, that of the defaults first.

    Of a whole number the default, 1 and the next after the default stand for all. Of more than
    `MOST_COMBINATIONS`, the first so many: those with one option changed come before the others.
    """
    values = _tried(offered)
    usual = defaults(offered)
    first = [usual]
    if number_of_combinations(offered) > MOST_COMBINATIONS:
        first += [{**usual, name: v} for name in offered for v in values[name][1:]]
    every = (dict(zip(offered, v, strict=True)) for v in itertools.product(*values.values()))
    rest = (one for one in every if one not in first)
    return list(itertools.islice(itertools.chain(first, rest), MOST_COMBINATIONS))


def number_of_combinations(offered: Offered) -> int:
    """Return how many combinations there are, whole numbers counted as in `combinations`."""
    return math.prod(len(values) for values in _tried(offered).values())


def _tried(offered: Offered) -> dict[str, tuple[Value, ...]]:
    return {
        name: offer if isinstance(offer, tuple) else tuple(dict.fromkeys((offer, 1, offer + 1)))
        for name, offer in offered.items()
    }


def written(offered: Offered) -> str:
    """Return the options in words: ``slopes = agent or common``."""
    return "; ".join(
        f"{name} = " + (" or ".join(o) if isinstance(o, tuple) else f"{o} or another whole number")
        for name, o in offered.items()
    )


def declared_in(source: str) -> dict[str, tuple[str, ...] | int]:
    """Return the OPTIONS of a model's text without running it; none where it has none."""
    try:
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "OPTIONS":
                found = ast.literal_eval(node.value)
                if isinstance(found, dict) and all(_possible(offer) for offer in found.values()):
                    return {str(name): offer for name, offer in found.items()}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass
    return {}
