"""The command trend: how horizons grow with release dates."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from measurebayes.cli.horizons import work_time
from measurebayes.cli.options import (
    Command,
    Several,
    check_output,
    json_option,
    level_option,
    model_option,
    output_option,
)
from measurebayes.cli.output import print_json, print_table, records, save_csv
from measurebayes.cli.results import open_fits, warn_unconverged
from measurebayes.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


TITLE = (
    "Trend of 50 % horizons over release dates: rates and dates are those of an average agent on "
    "the trend; scatter: doublings by which agents lie around it, one standard deviation"
)


@click.command(cls=Command)
@model_option
@click.argument("fits", nargs=-1, required=True, metavar="FIT...")
@click.option(
    "--weights",
    type=click.Choice(["stacking", "crossval"]),
    help="A row for the mixture of the fits, weighted by how well they predict agents left out. "
    "stacking rests on importance sampling, which often fails for whole agents: bad_k counts "
    "those. crossval fits each model ten times without a tenth of the agents, which takes minutes.",
)
@click.option(
    "--crosses",
    cls=Several,
    type=click.FloatRange(0.0, min_open=True),
    default=(),
    metavar="MINUTES...",
    help="When the trend of the 50 % horizon reaches these: --crosses 480 10080.",
)
@level_option(0.95)
@json_option
@output_option("CSV file to write as well.", required=False)
def trend(
    fits: tuple[str, ...],
    weights: str | None,
    crosses: tuple[float, ...],
    level: float,
    as_json: bool,
    output: Path | None,
) -> None:
    """How horizons grow with release dates: doubling time, acceleration, dates of crossing.

    Of fits of horizon_trend, such as its shapes. Doubling times are those at the last release;
    acceleration is the rate at the last less that at the first release, in doublings a year, of
    which a straight line has none. Dates are those of an average agent on the trend; an agent may
    well reach a horizon earlier, as scatter says. Dates that are not reached by 2040 are null in
    JSON.
    """
    import measurebayes as mb

    if output is not None:
        check_output(output, fits)
    if weights and len(fits) < 2:
        raise InputError(
            "--weights with one fit",
            where="the command line",
            expected="two fits or more, whose trends are mixed",
            remedy="leave out --weights, or add fits of other shapes",
        )
    opened = open_fits(fits)
    for name, one in opened.items():  # before the comparison, which takes a minute
        if "trend" not in one["posterior"]:
            raise InputError(
                f"{name} is a fit of {one.attrs['model']}, which has no trend over release dates",
                where="the command line",
                expected="fits of horizon_trend",
                remedy="measurebayes fit horizon_trend DATA -o trend.nc",
            )
    if weights != "stacking":  # the comparison warns by itself
        warn_unconverged(opened)
    compared = left_out(opened, weights)
    share = None if compared is None else {str(n): w for n, w in compared["weight"].items()}
    table = mb.trend_table(opened, share, crosses, level)
    for column in [name for name in map(str, table) if name.startswith("crosses_")]:
        table[column] = table[column].dt.strftime("%Y-%m-%d").replace(float("nan"), None)
    if compared is not None:
        table.insert(0, "weight", compared["weight"].reindex(table.index).fillna(1.0))
        doubt = "bad_k" if weights == "stacking" else "unconverged"
        table.insert(1, doubt, compared[doubt].reindex(table.index))
    if as_json:
        print_json(table)
    else:
        print_table(readable(table, level), TITLE)
    if output is not None:
        save_csv(table, output, index=True)


def left_out(fits: dict[str, xr.DataTree], weights: str | None) -> pd.DataFrame | None:
    """Compare fits by agents left out, in the way that was chosen."""
    import measurebayes as mb
    from measurebayes.compare import same_data
    from measurebayes.inference.results import model_of

    if weights is None:
        return None
    if weights == "stacking":
        return mb.compare(fits, unit="agent")
    models = {name: model_of(one) for name, one in same_data(fits).items()}
    for name, model in models.items():
        if model.priors != mb.get_model(model.reference).priors:
            raise InputError(
                f"{name} was fitted with priors of its own",
                where="--weights crossval",
                expected="the priors of the model file, with which models are fitted anew",
                remedy="--weights stacking, or mb.crossval(models, runs, priors=...) in Python",
            )
    runs = next(iter(fits.values()))["data"].to_dataset()
    references = {name: model.reference for name, model in models.items()}
    return mb.crossval(references, runs, folds="agent")


def readable(table: pd.DataFrame, level: float) -> pd.DataFrame:
    """Return a table of trends with intervals and dates in words."""
    import pandas as pd

    rows = []
    for row in records(table):
        words: dict[str, Any] = {"trend": row["trend"]}
        if "weight" in row:
            doubt = "bad_k" if "bad_k" in row else "unconverged"
            words["weight"], words[doubt.replace("_", " ")] = round(row["weight"], 3), row[doubt]
        words["doubles in"] = days(row["doubling_days"])
        words[f"{100 * level:g} %"] = f"{days(row['doubling_low'])} to {days(row['doubling_high'])}"
        words["P(not rising)"] = row["p_not_rising"]
        words["scatter"] = row["scatter"]
        # a rounded -0.00 would be taken for a sign
        change = [round(row[f"acceleration{end}"], 2) + 0.0 for end in ("", "_low", "_high")]
        straight = math.isnan(row["p_accelerates"])
        words["acceleration"] = "0" if straight else "{:.2f} ({:.2f} to {:.2f})".format(*change)
        words["P(accelerates)"] = row["p_accelerates"]
        for column in row:
            if not column.startswith("crosses_") or column.endswith(("_low", "_high")):
                continue
            low, high = (row[column + end] or "after 2039" for end in ("_low", "_high"))
            at = work_time(float(column.removeprefix("crosses_")))
            words[f"reaches {at}"] = f"{row[column] or 'after 2039'} ({low} to {high})"
        rows.append(words)
    return pd.DataFrame(rows)


def days(number: float) -> str:
    """Write a doubling time."""
    return "never" if number == float("inf") else f"{number:,.0f} days"


COMMANDS = [trend]
