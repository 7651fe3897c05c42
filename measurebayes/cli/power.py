"""The command cancellation-power: which departures the cancellation check finds with such data."""

from __future__ import annotations

from typing import Any

import click

from measurebayes.cli.bands import (
    as_options,
    bands_named,
    bands_options,
    parts_named,
    subset_option,
)
from measurebayes.cli.options import (
    Command,
    Decorator,
    Several,
    all_of,
    json_option,
    load_data,
    reader_options,
)
from measurebayes.cli.output import print_json, print_table
from measurebayes.cli.work import checkpoint_option, executor, jobs_option
from measurebayes.errors import InputError

SUMMARY = ["power", "power_error", "rate", "expected_rate", "unjudged"]

study_options: Decorator = all_of(
    click.option(
        "--departure",
        type=click.Choice(["slopes", "dimension"]),
        default="slopes",
        show_default=True,
        help="Slopes that differ between agents, or a second dimension.",
    ),
    click.option(
        "--sizes",
        cls=Several,
        type=click.FloatRange(0),
        default=[0, 0.25, 0.5, 1],
        metavar="SIZE...",
        help="Of the departure: standard deviation of log slopes, or of the second dimension's "
        "part in the log odds (default 0 0.25 0.5 1).",
    ),
    click.option(
        "--null",
        type=click.Choice(["common_slope", "rasch_ml", "constant_hazard", "weibull"]),
        default="common_slope",
        show_default=True,
        help="Additive point estimate that data are simulated from and that is checked.",
    ),
    bands_options,
    subset_option,
    click.option(
        "--replications",
        type=click.IntRange(1),
        default=200,
        show_default=True,
        help="Simulated data sets of each size.",
    ),
    click.option(
        "--replicates",
        type=click.IntRange(1),
        default=200,
        show_default=True,
        help="Replicates of the fit to each of them.",
    ),
    click.option(
        "--level",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.05,
        show_default=True,
        help="Found is where p is at most this.",
    ),
    jobs_option,
    checkpoint_option,
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
    click.option("--quiet", is_flag=True, help="No progress bar."),
)


@click.command("cancellation-power", cls=Command)
@click.argument("data")
@reader_options
@study_options
@json_option
def cancellation_power(
    data: str,
    reading: dict[str, Any],
    bands: tuple[float, ...],
    parts: tuple[str, ...],
    jobs: int,
    quiet: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """How often `measurebayes cancellation` would find a departure of given size.

    Simulates successes for the agents, tasks and attempts of DATA from an additive fit with a
    departure added, and checks each simulated data set. Size 0 shows how often the check cries
    wolf.
    """
    import measurebayes as mb

    chosen, divided = parts_named(parts), bands_named(bands)
    runs = load_data(data, reading)
    try:
        with executor(jobs) as pool:
            result = mb.cancellation_power(
                runs,
                bands=divided,
                subset=chosen or None,
                executor=pool,
                progress=not quiet,
                **settings,
            )
    except InputError as error:
        error.remedy = as_options(error.remedy or "")
        raise
    table = result[SUMMARY].to_dataframe().reset_index()
    if as_json:
        print_json({**result.attrs, "unit": result["size"].attrs["long_name"], "table": table})
        return
    table[SUMMARY[2:4]] *= 100
    unjudged = table.pop("unjudged")
    shown = table.set_axis(["size", "found", "+-", "violations, %", "expected, %"], axis=1)
    if unjudged.any():
        shown["no case"] = unjudged
    title = f"Departures found: share of {settings['replications']} data sets with p <= "
    print_table(shown.round(4), f"{title}{settings['level']:g}")
    click.echo(f"Size: {result['size'].attrs['long_name']}.")
    if unjudged.any():
        click.echo("No case: data sets that can't be judged, which the shares leave out.")


COMMANDS = [cancellation_power]
