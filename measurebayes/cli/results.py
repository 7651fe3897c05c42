"""Commands that read fits: check, compare, score, report, cite."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from measurebayes.cli.group import CHECK_FAILED
from measurebayes.cli.options import (
    Command,
    check_output,
    json_option,
    load_data,
    model_option,
    output_option,
    reader_options,
)
from measurebayes.cli.output import print_json, print_table, save_csv, say
from measurebayes.cli.work import checkpoint_option, executor, jobs_option, kept, memory_option
from measurebayes.errors import InputError

if TYPE_CHECKING:
    import xarray as xr


@click.command(cls=Command)
@model_option
@click.argument("fit")
@memory_option
@json_option
@click.pass_context
def check(ctx: click.Context, fit: str, memory: str | None, as_json: bool) -> None:
    """Whether FIT converged, and predicts its data.

    Exit status 1 when a check fails.
    """
    import measurebayes as mb

    table = mb.check(mb.open(fit), memory=memory)
    if as_json:
        print_json(table)
    else:
        print_table(table)
    if not table["passed"].all():
        ctx.exit(CHECK_FAILED)


@click.command(cls=Command)
@model_option
@click.argument("fits", nargs=-1, required=True, metavar="FIT...")
@click.option(
    "--unit",
    type=click.Choice(["cell", "attempt", "task", "family", "agent"]),
    default="cell",
    show_default=True,
    help="What is left out and predicted.",
)
@click.option(
    "--refit",
    is_flag=True,
    help="Fit again without each unit that importance sampling fails for (Pareto k over 0.7). "
    "With -o, terms that are done are kept in OUTPUT.part until all are.",
)
@jobs_option
@checkpoint_option
@memory_option
@click.option("--quiet", is_flag=True, help="No progress bar.")
@json_option
@output_option("CSV file to write as well.", required=False)
def compare(
    fits: tuple[str, ...],
    unit: str,
    refit: bool,
    jobs: int,
    checkpoint: Path | None,
    memory: str | None,
    quiet: bool,
    as_json: bool,
    output: Path | None,
) -> None:
    """Leave-one-out comparison of fits, best first.

    The fits must be of the same data. elpd is the expected log predictive density: higher is
    better.
    """
    import measurebayes as mb

    if output is not None:
        check_output(output, fits)
    with kept(checkpoint, output if refit else None) as file:
        with executor(jobs) as pool:
            table = mb.compare(
                open_fits(fits),
                unit=unit,
                refit=refit,
                executor=pool,
                progress=not quiet,
                checkpoint=file,
                memory=memory,
            )
        if as_json:
            print_json(table)
        else:
            print_table(table)
        if output is not None:
            save_csv(table, output, index=True)


@click.command(cls=Command)
@model_option
@click.argument("data")
@click.argument("fit")
@reader_options
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@memory_option
@json_option
@output_option("CSV file to write as well.", required=False)
def score(
    data: str,
    fit: str,
    reading: dict[str, Any],
    seed: int,
    memory: str | None,
    as_json: bool,
    output: Path | None,
) -> None:
    """Abilities of new agents on the tasks of FIT, best first.

    The agents need not be among those that were fitted; the tasks must be.
    """
    import measurebayes as mb
    from measurebayes.estimands import score_table

    if output is not None:
        check_output(output, [data, fit])
    runs = load_data(data, reading)
    table = score_table(mb.score(runs, open_warned(fit), seed=seed, memory=memory))
    if as_json:
        print_json(table)
    else:
        title = "Abilities in logits; 0 is the mean of the agents that were fitted"
        print_table(table, title)
    if output is not None:
        save_csv(table, output)


@click.command(cls=Command)
@model_option
@click.argument("fits", nargs=-1, required=True, metavar="FIT...")
@output_option("HTML file to write: one page with all it needs inside.")
def report(fits: tuple[str, ...], output: Path) -> None:
    """One HTML page about fits of the same data."""
    import measurebayes as mb

    check_output(output, fits)
    mb.report(open_fits(fits), path=output)
    say(f"wrote {output}")


@click.command(cls=Command)
@click.argument("fit")
def cite(fit: str) -> None:
    """What to cite: model, data and programs."""
    import measurebayes as mb

    click.echo(mb.cite(mb.open(fit)))


def open_fits(paths: Sequence[str]) -> dict[str, xr.DataTree]:
    """Open fits under the names of their files, without the suffix.

    Raises
    ------
    InputError
        Two files have the same name.
    """
    import measurebayes as mb

    names = [Path(path).stem for path in paths]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"two fits are called {twice!r}",
            where=", ".join(p for p, n in zip(paths, names, strict=True) if n == twice),
            expected="a different file name for each fit: it is the name in the table",
            remedy=f"rename one of them, for example to {twice}_2.nc",
        )
    return {name: mb.open(path) for name, path in zip(names, paths, strict=True)}


def open_warned(path: str) -> xr.DataTree:
    """Open a fit, and warn where it has not converged."""
    fits = open_fits([path])
    warn_unconverged(fits)
    return next(iter(fits.values()))


def warn_unconverged(fits: Mapping[str, xr.DataTree]) -> None:
    """Warn of fits that have not converged, in the words of `measurebayes.compare`."""
    from measurebayes.compare import unconverged

    for category, text in unconverged(fits):
        warnings.warn(text, category, stacklevel=2)


COMMANDS = [check, compare, score, report, cite]
