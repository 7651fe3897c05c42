"""The command additivity: an additive against a monotone surface, without bands."""

from __future__ import annotations

from typing import Any

import click

from measurebayes.cli.bands import as_options, parts_named, subset_option
from measurebayes.cli.options import (
    Command,
    json_option,
    load_data,
    reader_options,
)
from measurebayes.cli.output import print_json, print_pairs, print_table
from measurebayes.cli.work import checkpoint_option, executor, jobs_option
from measurebayes.errors import InputError


@click.command(cls=Command)
@click.argument("data")
@reader_options
@click.option(
    "--by",
    type=click.Choice(["minutes", "difficulty"]),
    default="minutes",
    show_default=True,
    help="Property of tasks. A difficulty is estimated from half of the attempts; the surfaces are "
    "fitted to the other half.",
)
@subset_option
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True)
@click.option(
    "--bands",
    type=click.IntRange(3),
    default=6,
    show_default=True,
    help="Of the cancellation check that both surfaces replicate.",
)
@click.option("--draws", type=click.IntRange(1), default=1000, show_default=True)
@jobs_option
@checkpoint_option
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--quiet", is_flag=True, help="No progress bar.")
@json_option
def additivity(
    data: str,
    reading: dict[str, Any],
    parts: tuple[str, ...],
    jobs: int,
    quiet: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Whether ability and the length of tasks add up, without bands.

    Fits two surfaces of success over ability and log time, an additive one and one that is only
    monotone in both, and compares how well they predict families of tasks that were left out.
    Takes minutes: each surface is fitted to all data and to every fold.
    """
    import measurebayes as mb

    runs = load_data(data, reading)
    part = parts_named(parts)
    try:
        with executor(jobs) as pool:
            result = mb.additivity(runs, subset=part, executor=pool, progress=not quiet, **settings)
    except InputError as error:
        error.remedy = as_options(error.remedy or "")
        raise
    if as_json:
        print_json(result.to_dict())
        return
    print_table(result.comparison, "Log predictive density of families left out, higher is better")
    click.echo()
    print_pairs(result.interaction, "Standard deviation of the interactions; additive: 0")
    click.echo(f"\n{result.text()}")


COMMANDS = [additivity]
