"""The command plan: how many longer tasks a suite needs to measure a long horizon."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from measurebayes.cli.options import (
    Command,
    Several,
    json_option,
    level_option,
    model_option,
)
from measurebayes.cli.output import print_json, print_table
from measurebayes.cli.results import open_fits, warn_unconverged
from measurebayes.errors import InputError, listed

if TYPE_CHECKING:
    import pandas as pd

ENOUGH = 0.9  # share of agents whose interval shall be as narrow as the factor


@click.command(cls=Command)
@model_option
@click.argument("fit")
@click.option(
    "--hours",
    type=click.FloatRange(0.0, min_open=True),
    required=True,
    help="The 50 % horizon that shall be measured.",
)
@click.option(
    "--factor",
    type=click.FloatRange(1.0, min_open=True),
    default=2.0,
    show_default=True,
    help="The interval shall reach no further than the estimate times, or divided by, this.",
)
@click.option(
    "--added",
    cls=Several,
    type=click.IntRange(0),
    default=(0, 5, 10, 20, 40),
    show_default=True,
    help="Numbers of longer tasks to try: --added 0 10 20.",
)
@click.option(
    "--between",
    type=(float, float),
    metavar="HOURS HOURS",
    help="Lengths of the shortest and longest new task; by default from the longest of the suite "
    "to 4 times --hours.",
)
@click.option(
    "--attempts", type=click.IntRange(1), help="At each task; by default as mostly in the data."
)
@level_option(0.9, "Probability of the interval.")
@click.option("--replications", type=click.IntRange(1), default=200, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@json_option
def plan(fit: str, as_json: bool, **settings: Any) -> None:
    """How many longer tasks a suite needs before a long horizon can be measured.

    Simulates agents with that horizon and the typical steepness on the tasks of FIT (horizon_task)
    and on new ones, and estimates their horizons. width: the factor by which the interval reaches
    to each side, median; narrow: share of agents whose interval is as narrow as the factor; close:
    share whose estimate is within the factor of the truth; covers: share of intervals that hold
    the truth; unbounded: share whose horizon nothing bounds on one side.
    """
    import measurebayes as mb

    check_between(settings["between"], settings["hours"])
    [(name, opened)] = open_fits([fit]).items()
    warn_unconverged({name: opened})
    table = mb.plan_suite(opened, **settings)
    if as_json:
        print_json({**table.attrs, "table": table})
        return
    shortest, longest = table.attrs["between"]
    title = (
        f"A horizon of {settings['hours']:g} h to a factor of {settings['factor']:g}, "
        f"{100 * settings['level']:g} % intervals; new tasks of {shortest:.3g} to {longest:.3g} h, "
        f"{table.attrs['attempts']} attempts at each task"
    )
    print_table(table, title)
    click.echo(answer(table))


def check_between(between: tuple[float, float] | None, hours: float) -> None:
    """Refuse lengths of new tasks that are none, or the longest first."""
    if between is None or 0.0 < between[0] <= between[1] < math.inf:
        return
    proper = min(between) > 0.0 and max(between) < math.inf
    low, high = sorted(between) if proper else (hours, 4 * hours)
    raise InputError(
        f"--between {between[0]:g} {between[1]:g}",
        where="the command line",
        expected="hours of the shortest new task, above 0, then of the longest",
        remedy=f"--between {low:g} {high:g}",
    )


def answer(table: pd.DataFrame) -> str:
    """Say in a sentence how many of the new tasks that were tried suffice."""
    factor = f"to a factor of {table.attrs['factor']:g}"
    enough = table.loc[table["narrow"] >= ENOUGH, "added"]
    if len(enough):
        return (
            f"At least {100 * ENOUGH:g} % of agents are measured {factor} with {enough.min()} new "
            "tasks, the smallest of the numbers tried that does."
        )
    tried = listed(sorted(table["added"]), 20)
    return (
        f"None of the numbers of new tasks tried ({tried}) suffices to measure {100 * ENOUGH:g} % "
        f"of agents {factor}: try more, or longer ones (--added, --between)."
    )


COMMANDS = [plan]
