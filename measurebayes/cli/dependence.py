"""Commands about what a model misses: dependence, misfit, suspects; and pairs of agents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from measurebayes.cli.options import (
    Command,
    Several,
    check_output,
    json_option,
    level_option,
    load_data,
    model_option,
    output_option,
    reader_options,
)
from measurebayes.cli.output import print_json, print_table, printable, save_csv
from measurebayes.cli.results import open_warned
from measurebayes.cli.work import memory_option

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from measurebayes.checks.dependence import LocalDependence

LISTED = 15  # rows that a table shows
MOST_PAIRS = 30


@click.command(cls=Command)
@model_option
@click.argument("fit")
@memory_option
@json_option
@output_option("CSV file of all pairs of tasks to write as well.", required=False)
def dependence(fit: str, memory: str | None, as_json: bool, output: Path | None) -> None:
    """Whether tasks go together more than FIT says, and which.

    What is measured on the data is measured on data replicated from the model too: Q3 of pairs of
    tasks, groups (an agent with a family) all solved or all failed, the design effect of families,
    residual dimensions. Small p: the data have more than the model expects; that is a finding, and
    the exit status is 0. Plain success rates come with intervals that resample whole families.
    """
    import measurebayes as mb

    if output is not None:
        check_output(output, [fit])
    result = mb.local_dependence(open_warned(fit), memory=memory)
    if as_json:
        print_json(result.to_dict(LISTED * 10))
    else:
        _print(result)
    if output is not None:
        save_csv(result.pairs, output)


def _print(result: LocalDependence) -> None:
    from measurebayes.checks.dependence.result import MEASURES

    table = _rounded(result.measures.reset_index())
    table["measure"] = table["measure"].map(MEASURES)
    print_table(table, "Local dependence: data against replicates of the model (95 %)")
    click.echo(printable(result.text()))
    dimensions = _rounded(result.dimensions)
    for title, rows, number in (
        (f"Pairs of tasks with the largest Q3, of {len(result.pairs)}", result.pairs, LISTED),
        (f"Families, the least probable of {len(result.families)} first", result.families, LISTED),
        ("Residual dimensions, share of what is left", dimensions, len(dimensions)),
        ("Plain success rates: families resampled, tasks resampled (95 %)", result.rates, 1000),
    ):
        if len(rows):
            click.echo()
            print_table(_rounded(rows.head(number)), title)


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    return table.round(3)


@click.command(cls=Command)
@model_option
@click.argument("fit")
@click.option(
    "--group",
    cls=Several,
    default=(),
    metavar="AGENT...",
    help="Differential functioning: tasks that are harder for these agents than for the others at "
    "equal ability.",
)
@memory_option
@json_option
@output_option("CSV file to write as well.", required=False)
def misfit(
    fit: str, group: tuple[str, ...], memory: str | None, as_json: bool, output: Path | None
) -> None:
    """Tasks and agents whose results FIT misses, by infit and outfit.

    Both are 1 where the model holds; p is the share of replicates with a larger value. Noisier than
    the model: solved by the weak and failed by the able. With --group: differences in difficulty
    between two groups of agents, in logits.
    """
    import pandas as pd

    import measurebayes as mb
    from measurebayes.checks.dependence.misfit import fitness_tables
    from measurebayes.checks.replicates import REPLICATES

    if output is not None:
        check_output(output, [fit])
    opened = open_warned(fit)
    if group:
        table = mb.differential_functioning(opened, group, memory)
        _show_functioning(table, as_json)
    else:
        tables = fitness_tables(opened, ("task", "agent"), REPLICATES, memory)
        _show_misfit(tables, as_json)
        named = [part.rename(columns={kind: "name"}) for kind, part in tables.items()]
        table = pd.concat(named, keys=list(tables), names=["kind"]).reset_index("kind")
    if output is not None:
        save_csv(table, output)


def _show_misfit(tables: dict[str, pd.DataFrame], as_json: bool) -> None:
    if as_json:
        print_json({f"{kind}s": table for kind, table in tables.items()})
        return
    for place, (kind, table) in enumerate(tables.items()):
        noted = table[table["note"] != ""]
        title = (
            f"{len(noted)} of {len(table)} {kind}s differ from the model (by chance at most "
            f"{0.03 * len(table):.1f})"
        )
        if place:
            click.echo()
        if noted.empty:
            click.echo(f"{title}.")
            continue
        if len(noted) > LISTED:
            title += f"; the noisiest {LISTED}"
        print_table(_rounded(noted.head(LISTED)), title)


def _show_functioning(table: pd.DataFrame, as_json: bool) -> None:
    if as_json:
        print_json({"p": table.attrs["p"], "tasks": table})
        return
    noted = int((table["size"] != "negligible").sum())
    title = (
        f"Differential functioning of {noted} of {len(table)} tasks (p of all together "
        f"{table.attrs['p']:.3f}); positive: harder for the group"
    )
    print_table(_rounded(table.head(max(noted, LISTED))), title)


@click.command(cls=Command)
@model_option
@click.argument("source", metavar="FIT | DATA")
@reader_options
@json_option
@output_option("CSV file to write as well.", required=False)
def suspects(source: str, reading: dict[str, Any], as_json: bool, output: Path | None) -> None:
    """Tasks that able agents fail and weak ones solve, as with a wrong key.

    Of DATA: by the correlation of a task with the rest. Of a FIT with signed discrimination
    (three_pl:discrimination=signed) also by the probability that success falls with ability. Models
    with positive slopes can't see a wrong key.
    """
    import measurebayes as mb

    if output is not None:
        check_output(output, [source])
    read: xr.DataTree | xr.Dataset = (
        open_warned(source) if holds_fit(source) else load_data(source, reading)
    )
    table = mb.suspect_tasks(read)
    noted = int((table["note"] != "").sum())
    if as_json:
        print_json(table)
    else:
        title = f"{noted} of {len(table)} tasks are suspect; the most suspect first"
        print_table(_rounded(table.head(max(LISTED, min(noted, 100)))), title)
        if "p_negative" not in table:
            click.echo(
                "Without a fit of signed discrimination (measurebayes fit "
                "three_pl:discrimination=signed) this is the cheap measure alone."
            )
    if output is not None:
        save_csv(table, output)


def holds_fit(path: str) -> bool:
    """Whether a path is a file that `measurebayes fit` wrote."""
    if not Path(path).is_file() or not path.endswith(".nc"):
        return False
    import netCDF4

    try:
        with netCDF4.Dataset(path) as file:
            return "model_sha256" in file.ncattrs()
    except OSError:
        return False


@click.command(cls=Command)
@model_option
@click.argument("fit")
@click.option("--variable", help="What agents are compared by; ability where left out.")
@level_option(0.95)
@json_option
@output_option("CSV file to write as well.", required=False)
def pairs(fit: str, variable: str | None, level: float, as_json: bool, output: Path | None) -> None:
    """How probably one agent of FIT is abler than another, and by how much.

    Intervals are as wide as the model says: of tasks in families fit testlet, as other models take
    each task for new evidence.
    """
    import measurebayes as mb

    if output is not None:
        check_output(output, [fit])
    table = mb.agent_pairs(open_warned(fit), variable, level)
    if as_json:
        print_json(table)
    else:
        unsure = table[table["p_greater"] < 0.975]
        title = (
            f"Pairs of agents by {table.attrs['variable']}, {100 * level:g} % intervals: "
            f"{len(unsure)} of {len(table)} pairs are in doubt (probability under 0.975)"
        )
        rows = table if len(table) <= MOST_PAIRS else unsure.head(MOST_PAIRS)
        print_table(_rounded(rows), title)
    if output is not None:
        save_csv(table, output)


COMMANDS = [dependence, misfit, suspects, pairs]
