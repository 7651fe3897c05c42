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
    level_option,
    load_data,
    model_option,
    output_option,
    reader_options,
)
from measurebayes.cli.output import print_json, print_table, save_csv
from measurebayes.cli.results import open_fits, warn_unconverged
from measurebayes.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

MOST_PAIRS = 30  # printed
CLASSICAL_LEVEL = 0.95  # of bootstrap intervals, as METR gives

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
        help="With --classical: resamples of families, tasks and attempts, for intervals.",
    ),
    click.option(
        "--error-sd",
        type=click.FloatRange(0.0),
        help="With --classical: correct for errors of this standard deviation in log2 minutes, by "
        "simulation extrapolation (SIMEX).",
    ),
)


@click.command(cls=Command)
@model_option
@click.argument("targets", nargs=-1, required=True, metavar="FIT... | DATA")
@reader_options
@click.option(
    "--success",
    cls=Several,
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=(0.5, 0.8),
    show_default=True,
    help="Success rates: --success 0.5 0.8.",
)
@click.option(
    "--kind",
    type=click.Choice(["typical", "marginal"]),
    default="typical",
    show_default=True,
    help="Of fits: the horizon of a task of average difficulty for its length, or of a task drawn "
    "at random from those of its length.",
)
@level_option(0.9, "Probability of the intervals; with --classical 0.95 unless given.")
@click.option(
    "--inversions",
    is_flag=True,
    help="In place of the horizons: pairs of agents whose order changes between two success rates; "
    "of fits with their probability. JSON has both.",
)
@classical_options
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="With --classical: of the resamples and of the noise that is added.",
)
@json_option
@output_option("CSV file to write as well.", required=False)
def horizons(
    targets: tuple[str, ...],
    reading: dict[str, Any],
    classical: bool,
    inversions: bool,
    kind: str,
    level: float,
    as_json: bool,
    output: Path | None,
    **settings: Any,
) -> None:
    """Time horizons: human time of tasks at which each agent succeeds at a given rate.

    Of fits with a curve over human time (horizon_task and the like); of DATA with --classical. A
    horizon beyond the longest task is an extrapolation, and marked so (extrapolated, beyond_50).
    JSON has minutes; an infinite horizon is null there, and not_finite its probability.
    """
    import measurebayes as mb

    success = settings["success"]
    given = given_options()
    refuse_ignored(given, classical)
    if inversions:
        check_two(success)
    if output is not None:
        check_output(output, targets)
    if classical:
        level = level if "level" in given else CLASSICAL_LEVEL
        table, title = regressions(one_of(targets), reading, level=level, **settings)
        pairs = mb.inversions(table, success) if inversions else None
        shown = table if table["note"].any() else table.drop(columns="note")
        tables, curves = [(title, shown)], "by logistic regressions"
    else:
        fits = fits_of(targets)
        warn_unconverged(fits)
        table, tables = of_fits(fits, success, kind, level)
        pairs = changes_of_order(fits, success, kind) if inversions else None
        curves = f"of a {kind} task"
    if as_json:
        print_json(table if pairs is None else {"horizons": table, "inversions": pairs})
    else:
        for title, shown in tables if pairs is None else [short_list(pairs, success, curves)]:
            print_table(shown, title)
            click.echo()
    if output is not None:
        save_csv(table if pairs is None else pairs, output)


def given_options() -> set[str]:
    """Return the names of the options that stand on the command line."""
    context = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    return {name for name in context.params if context.get_parameter_source(name) is typed}


def refuse_ignored(given: set[str], classical: bool) -> None:
    """Refuse options that would make no difference: a table would seem to heed them."""
    names = ("kind",) if classical else ("unweighted", "bootstrap", "error_sd", "seed")
    ignored = [f"--{name.replace('_', '-')}" for name in names if name in given]
    if classical and "level" in given and "bootstrap" not in given:
        ignored.append("--level")
    if ignored:
        of = "of regressions" if classical else "of fits"
        raise InputError(
            f"{', '.join(ignored)} {'with' if classical else 'without'} --classical",
            where="the command line",
            expected=f"options that horizons {of} have"
            + (" (--level with --bootstrap)" if "--level" in ignored else ""),
            remedy=f"leave out {', '.join(ignored)}"
            + ("" if classical else ", or add --classical"),
        )


def check_two(success: tuple[float, ...]) -> None:
    """Refuse other than two success rates for changes of order, before any work is done."""
    if len(set(success)) != 2:
        raise InputError(
            f"--inversions with {len(set(success))} success rates",
            where="the command line",
            expected="two of them, between which the order may change",
            remedy="--success 0.5 0.8",
        )


def one_of(targets: tuple[str, ...]) -> str:
    """Return the data of regressions, one set at a time."""
    if len(targets) > 1:
        raise InputError(
            f"{len(targets)} sets of data",
            where="the command line",
            expected="one, with --classical",
            remedy=f"measurebayes horizons {targets[0]} --classical",
        )
    return targets[0]


def fits_of(targets: tuple[str, ...]) -> dict[str, xr.DataTree]:
    """Open fits; the message for data says how they get horizons."""
    from measurebayes.data import bundled_names

    try:
        return open_fits(targets)
    except InputError as error:
        data = next((t for t in targets if not t.endswith(".nc")), targets[0])
        is_data = data in bundled_names() or (Path(data).is_file() and not data.endswith(".nc"))
        if is_data and "fit" in str(error.expected):
            error.remedy = (
                f"measurebayes fit horizon_task {data} -o fit.nc, then horizons fit.nc; or, "
                f"without a model, measurebayes horizons {data} --classical"
            )
        raise


def of_fits(
    fits: dict[str, xr.DataTree], success: tuple[float, ...], kind: str, level: float
) -> tuple[pd.DataFrame, list[tuple[str, pd.DataFrame]]]:
    """Return the table of horizons in minutes, and for readers one with titles each rate."""
    import pandas as pd

    import measurebayes as mb
    from measurebayes.report.text import duration

    parts, tables = [], []
    for name, fit in fits.items():
        draws = mb.horizons(fit, success, kind)
        part = mb.horizon_table(draws, level)
        parts.append(part.assign(fit=name, kind=kind))
        longest = duration(draws.attrs["longest_minutes"])
        for rate in part["success"].unique().tolist():
            rows = part[part["success"] == rate].sort_values("median", ascending=False)
            title = (
                f"{name}: {100 * rate:g} % horizon, {kind} task; the longest task takes {longest}"
            )
            tables.append((title.replace("\u202f", " "), readable(rows, level)))
    table = pd.concat(parts, ignore_index=True)
    first = ["fit", "kind", "agent", "success"]
    return table[[*first, *(column for column in table if column not in first)]], tables


def readable(rows: pd.DataFrame, level: float) -> pd.DataFrame:
    """Return rows of a table of horizons in words: times, an interval, a mark."""
    import pandas as pd

    ends = [
        f"{work_time(low, middle)} to {work_time(high, middle)}"
        for low, middle, high in zip(rows["low"], rows["median"], rows["high"], strict=True)
    ]
    return pd.DataFrame(
        {
            "agent": rows["agent"],
            "horizon": rows["median"].map(work_time),
            f"{100 * level:g} %": ends,
            "P(none finite)": rows["not_finite"],
            "P(beyond longest)": rows["beyond"],
            "": rows["extrapolated"].map({True: "extrapolated", False: ""}),
        }
    )


def work_time(minutes: float, like: float | None = None) -> str:
    """Write a time as people do: 4 s, 15 min, 3.2 h, 288 h, infinite; in the unit of another."""
    from measurebayes.report.text import horizon_time

    return horizon_time(minutes, like).replace("\u202f", " ")


def changes_of_order(
    fits: dict[str, xr.DataTree], success: tuple[float, ...], kind: str
) -> pd.DataFrame:
    """Return pairs of agents of every fit with the probability that their order changes."""
    import pandas as pd

    import measurebayes as mb

    parts = [mb.inversions(fit, success, kind).assign(fit=name) for name, fit in fits.items()]
    table = pd.concat(parts, ignore_index=True)
    return table[["fit", *(column for column in table if column != "fit")]]


def short_list(
    pairs: pd.DataFrame, success: tuple[float, ...], curves: str
) -> tuple[str, pd.DataFrame]:
    """Return a title and the pairs to show: of fits, those whose order may well change."""
    rates = " and ".join(f"{100 * rate:g} %" for rate in dict.fromkeys(success))
    title = f"Pairs of agents whose order changes between the {rates} horizons {curves}"
    if "p_changes" not in pairs:
        return title, pairs
    likely, sure = pairs[pairs["p_changes"] >= 0.1], (pairs["p_changes"] > 0.5).sum()
    which = "none" if likely.empty else "those"
    note = f"{sure} of {len(pairs)} more likely than not; {which} of 10 % and more"
    return f"{title}: {note}", likely.head(MOST_PAIRS)


def regressions(
    data: str,
    reading: dict[str, Any],
    success: tuple[float, ...],
    unweighted: bool,
    bootstrap: int,
    error_sd: float | None,
    seed: int,
    level: float,
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
        table = mb.classical_horizons(runs, bootstrap=bootstrap, level=level, **shared)
        kind += f"; {100 * level:g} % intervals" if bootstrap else ""
        return table, f"Horizons in minutes, {kind}"
    if bootstrap:
        raise InputError(
            "--error-sd and --bootstrap",
            where="the command line",
            expected="one of them: corrected horizons come without intervals",
            remedy="leave out --bootstrap",
        )
    doublings = f"{error_sd:g} doubling" + ("" if error_sd == 1 else "s")
    table = mb.simex(load_data(data, reading), error_sd, **shared)
    return table, f"Horizons in minutes, {kind}; corrected for an error of {doublings}"


COMMANDS = [horizons]
