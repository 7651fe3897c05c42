"""The command plan: how many longer tasks a suite needs to measure a long horizon."""

from __future__ import annotations

from typing import Any

import click

from measurebayes.cli.options import Command, Several, json_option, model_option
from measurebayes.cli.output import print_json, print_table


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
@click.option(
    "--level",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="Probability of the interval.",
)
@click.option("--replications", type=click.IntRange(1), default=200, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@json_option
def plan(fit: str, as_json: bool, **settings: Any) -> None:
    """How many longer tasks a suite needs before a long horizon can be measured.

    Simulates agents with that horizon and the typical steepness on the tasks of FIT (horizon_task)
    and on new ones, and estimates their horizons. width: the factor by which the interval reaches
    to each side, median; narrow: share of agents whose interval is as narrow as the factor; close:
    share whose estimate is within the factor of the truth; covers: share of intervals that hold
    the truth; unbounded: share whose interval has no end within a factor of 200.
    """
    import measurebayes as mb

    table = mb.plan_suite(mb.open(fit), **settings)
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


COMMANDS = [plan]
