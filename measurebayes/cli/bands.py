"""Options about bands of tasks and parts of the data, which several commands share."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from measurebayes.cli.options import Decorator, Several, all_of
from measurebayes.errors import InputError

SUBSETS = ("agent", "task", "family", "source")  # arguments of measurebayes.subset

bands_options: Decorator = all_of(
    click.option(
        "--bands",
        cls=Several,
        type=float,
        default=[6],
        metavar="N|EDGE...",
        help="Number of bands of tasks (default 6), or their edges: --bands 0.1 4 15 60 480.",
    ),
    click.option(
        "--by",
        default="minutes",
        show_default=True,
        help="What puts tasks into bands: minutes, difficulty, or another column of tasks.",
    ),
    click.option(
        "--equal",
        type=click.Choice(["tasks", "attempts"]),
        default="tasks",
        show_default=True,
        help="What N bands have equal numbers of.",
    ),
    click.option(
        "--min-attempts",
        type=click.IntRange(1),
        default=20,
        show_default=True,
        help="Leave out rates of an agent in a band with fewer attempts.",
    ),
    click.option(
        "--axiom",
        type=click.Choice(["single", "double", "triple"]),
        default="double",
        show_default=True,
        help="Cancellation axiom to check.",
    ),
)

subset_option: Decorator = click.option(
    "--subset",
    "parts",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only this agent, task, family or source: --subset source=HCAST. May be repeated; fits "
    "may be of all data.",
)


def bands_named(words: Sequence[float]) -> int | list[float]:
    """One number is a number of bands; several are edges."""
    if len(words) > 1:
        return list(words)
    (number,) = words
    if not float(number).is_integer():
        raise InputError(
            f"--bands {number:g}",
            where="the command line",
            expected="a whole number of bands, or three or more increasing edges",
            remedy="write for example --bands 6, or --bands 0.1 4 15 60 480",
        )
    return int(number)


def parts_named(words: Sequence[str]) -> dict[str, list[str]]:
    """Read ``--subset NAME=VALUE``; values of one name are alternatives.

    Raises
    ------
    InputError
        A word has no ``=``, or names nothing that data can be divided by.
    """
    found: dict[str, list[str]] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in SUBSETS or not value:
            raise InputError(
                f"--subset {word!r}",
                where="the command line",
                expected=f"NAME=VALUE with the name {', '.join(SUBSETS[:-1])} or {SUBSETS[-1]}",
                remedy="write for example --subset source=HCAST",
            )
        found.setdefault(name, []).append(value)
    return found


_EDGES = re.compile(r"\bbands=\[([^\]]*)\]")
_ARGUMENT = re.compile(r"\b(bands|by|replicates|min_attempts|cuts|axiom|equal)=('[^']*'|[\w.]*)")


def as_options(remedy: str) -> str:
    """Turn arguments of `measurebayes.cancellation` in a message into options."""
    if remedy.startswith("add it: runs.assign"):
        return "write one of these after --by"

    def option(found: re.Match[str]) -> str:
        return f"--{found[1].replace('_', '-')} {found[2].strip(chr(39))}".rstrip()

    edges = _EDGES.sub(lambda found: "--bands " + found[1].replace(",", ""), remedy)
    return _ARGUMENT.sub(option, edges)
