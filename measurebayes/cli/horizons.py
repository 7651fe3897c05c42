"""The command horizons: human time of tasks at which agents succeed at a given rate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from measurebayes.cli.options import (
    Command,
    Several,
    all_of,
    check_output,
    json_option,
    load_data,
    output_option,
    reader_options,
)
from measurebayes.cli.output import print_json, print_table, save_csv
from measurebayes.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

# What only regressions have; the names are those of the functions' arguments.
classical_options = all_of(
    click.option(
        "--classical",
        is_flag=True,
        help="A logistic regression of each agent on log2 minutes, as METR publishes; no sampler.",
    ),
    click.option(
        "--unweighted",
        is_flag=True,
        help="With --classical: every attempt counts 1, in place of METR's weights of families.",
    ),
    click.option(
        "--bootstrap",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="With --classical: resamples of families, tasks and attempts, for 95 % intervals.",
    ),
    click.option(
        "--error-sd",
        type=click.FloatRange(0.0),
        help="With --classical: correct for errors of this standard deviation in log2 minutes, by "
        "simulation extrapolation (SIMEX).",
    ),
)


@click.command(cls=Command)
@click.argument("data")
@reader_options
@click.option(
    "--success",
    cls=Several,
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=(0.5, 0.8),
    show_default=True,
    help="Success rates: --success 0.5 0.8.",
)
@classical_options
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@json_option
@output_option("CSV file to write as well.", required=False)
def horizons(
    data: str,
    reading: dict[str, Any],
    classical: bool,
    as_json: bool,
    output: Path | None,
    **settings: Any,
) -> None:
    """Time horizons: human time of tasks at which each agent succeeds at a given rate.

    Of DATA with --classical. Minutes; a horizon beyond an agent's longest task is an extrapolation,
    and marked so (beyond_50).
    """
    if not classical:
        raise InputError(
            "no model to take horizons from",
            where="the command line",
            expected="DATA and --classical",
            remedy=f"measurebayes horizons {data} --classical",
        )
    if output is not None:
        check_output(output, [data])
    table, title = regressions(data, reading, **settings)
    if as_json:
        print_json(table)
    else:
        print_table(table if table["note"].any() else table.drop(columns="note"), title)
    if output is not None:
        save_csv(table, output)


def regressions(
    data: str,
    reading: dict[str, Any],
    success: tuple[float, ...],
    unweighted: bool,
    bootstrap: int,
    error_sd: float | None,
    seed: int,
) -> tuple[pd.DataFrame, str]:
    """Return the table of horizons by regressions, and its title.

    Raises
    ------
    InputError
        Intervals and a correction were both asked for, or the data have no human minutes.
    """
    import measurebayes as mb

    shared: dict[str, Any] = {"success": success, "weighted": not unweighted, "seed": seed}
    kind = "logistic regressions, " + ("unweighted" if unweighted else "weighted by family")
    if error_sd is None:
        runs = load_data(data, reading)
        table = mb.classical_horizons(runs, bootstrap=bootstrap, **shared)
        return table, f"Horizons in minutes, {kind}"
    if bootstrap:
        raise InputError(
            "--error-sd and --bootstrap",
            where="the command line",
            expected="one of them: corrected horizons come without intervals",
            remedy="leave out --bootstrap",
        )
    table = mb.simex(load_data(data, reading), error_sd, **shared)
    return table, f"Horizons in minutes, {kind}; corrected for an error of {error_sd:g} doublings"


COMMANDS = [horizons]
