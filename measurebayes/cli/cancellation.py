"""The command cancellation: whether what the data measure can be a quantity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    check_output,
    json_option,
    load_data,
    model_option,
    output_option,
    reader_options,
)
from measurebayes.cli.output import print_json, print_table, printable, save_csv
from measurebayes.cli.results import open_fits, warn_unconverged
from measurebayes.cli.work import executor, jobs_option
from measurebayes.errors import InputError, did_you_mean, shown

if TYPE_CHECKING:
    import pandas as pd

    from measurebayes.checks.cancellation import Cancellation

LISTED = 10  # violations on the screen
NOTHING = "none"  # as the only word after --against

check_options: Decorator = all_of(
    bands_options,
    click.option(
        "--cuts",
        type=click.IntRange(0),
        default=0,
        help="Average over this many random divisions into N bands.",
    ),
    click.option(
        "--against",
        cls=Several,
        metavar="NAME|FIT...",
        help="What might explain the violations: point estimates (common_slope, agent_slopes, "
        "constant_hazard, weibull, rasch_ml, two_pl_ml, dimensions_K), files of fits, or none. "
        "Default: the usual point estimates.",
    ),
    click.option(
        "--replicates",
        type=click.IntRange(1),
        help="Replicated data sets of each explanation; default 2000, with --cuts 200.",
    ),
    subset_option,
    jobs_option,
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
    click.option("--quiet", is_flag=True, help="No progress bar."),
)


@click.command(cls=Command)
@model_option
@click.argument("data")
@reader_options
@check_options
@json_option
@output_option("CSV file of the largest violations (double cancellation).", required=False)
def cancellation(
    data: str,
    reading: dict[str, Any],
    bands: tuple[float, ...],
    against: tuple[str, ...],
    parts: tuple[str, ...],
    jobs: int,
    quiet: bool,
    as_json: bool,
    output: Path | None,
    **settings: Any,
) -> None:
    """Whether success rates are ordered as those of a quantity must be.

    If success depends on ability minus difficulty alone, the order of success rates of agents in
    bands of tasks keeps rules, the cancellation axioms. Noise breaks them too: so violations are
    counted in DATA, and in data replicated from each explanation. A small p means more violations
    than an explanation accounts for; that is a finding, and the exit status is 0.
    """
    import measurebayes as mb

    if output is not None:
        _check_listing(output, [data, *against], settings)
    explanations, chosen = explanations_named(against), parts_named(parts)
    divided = bands_named(bands)
    runs = load_data(data, reading)
    try:
        with executor(jobs if settings["cuts"] else 1) as pool:
            result = mb.cancellation(
                runs,
                bands=divided,
                against=explanations,
                subset=chosen or None,
                progress=not quiet,
                executor=pool,
                **settings,
            )
    except InputError as error:
        error.remedy = as_options(error.remedy or "")
        raise
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result)
    if output is not None:
        save_csv(result.violations, output)


def explanations_named(words: Sequence[str]) -> dict[str, Any] | list[Any] | None:
    """Find what each word after --against names; None where there is none.

    Returns
    -------
    dict, list or None
        Names of point estimates as they are, and opened fits by the names of their files.

    Raises
    ------
    InputError
        A word is neither a point estimate nor a file, or two have the same name.
    """
    if not words:
        return None
    if NOTHING in words:
        if len(words) > 1:
            raise InputError(
                f"--against {' '.join(words)}",
                where="the command line",
                expected=f"{NOTHING} alone, or names and files without it",
                remedy=f"write --against {NOTHING}, or leave {NOTHING} out",
            )
        return []
    from measurebayes.classical import is_name

    files = [word for word in words if not is_name(word)]
    for word in files:
        _must_be_there(word)
    names = {word: word if is_name(word) else Path(word).stem for word in words}
    for word, name in names.items():
        others = [w for w, n in names.items() if n == name and w != word]
        if others or words.count(word) > 1:
            raise InputError(
                f"two of the explanations are called {name!r}",
                where=f"--against {' '.join([word, *(others or [word])])}",
                expected="a different name for each: it is the name in the table",
                remedy=f"name {word} once" if not others else f"rename the file {_file(files)}",
            )
    fits = open_fits(files)
    warn_unconverged(fits)
    return {names[word]: fits.get(names[word], word) for word in words}


def _file(files: Sequence[str]) -> str:
    return files[-1] if files else ""


def _must_be_there(word: str) -> None:
    """Refuse a word that is neither an estimate's name nor a file, saying both."""
    if Path(word).is_file():
        return
    from measurebayes.classical import NAMES

    raise InputError(
        f"{shown(word)} is neither a file nor the name of a point estimate",
        where="--against",
        expected="the file of a fit, such as fit.nc; or one of "
        + ", ".join([*NAMES, "dimensions_2", "dimensions_3", "..."]),
        remedy=did_you_mean(word, [*NAMES, *_fits_beside(word)])
        or "measurebayes fit two_pl DATA -o fit.nc makes a fit",
    )


def _fits_beside(word: str) -> list[str]:
    """Files of the folder that the word names a file in."""
    folder = Path(word).parent
    if not folder.is_dir():
        return []
    return [str(folder / file.name) for file in sorted(folder.glob("*.nc"))]


# Arguments of measurebayes.cancellation as messages write them.


def _check_listing(output: Path, inputs: Sequence[str], settings: Mapping[str, Any]) -> None:
    check_output(output, inputs)
    if settings["axiom"] != "double" or settings["cuts"]:
        raise InputError(
            "single violations are listed for double cancellation without random cuts only",
            where=f"-o {output}",
            expected="--axiom double, and no --cuts",
            remedy="leave -o out; --json prints everything that was found",
        )


def _print(result: Cancellation) -> None:
    """Print tables, rates in per cent, and the sentences."""
    from measurebayes.report.quantity import left_out

    table = _per_cent(result.table.reset_index(), ["rate", "low", "high"])
    print_table(table.assign(p=table["p"].round(4)), "Violations, % of cases")
    click.echo()
    click.echo(printable(result.text()))
    if left := left_out(result):
        click.echo(printable(left))
    click.echo()
    bands = result.bands.assign(number=range(1, len(result.bands) + 1))
    bands = bands[["number", "band", "tasks", "attempts"]]
    if not len(result.by_band):
        print_table(bands, f"Bands by {result.by}, first random cut")
        return
    print_table(_rates(bands.join(result.by_band.drop(columns="band"))), f"Bands by {result.by}")
    if len(result.by_agent):
        click.echo()
        print_table(_rates(result.by_agent), "Agents")
    click.echo(
        "Cases and violations that a band or an agent takes part in; violations observed and "
        "expected, % of cases."
    )
    if len(result.violations):
        click.echo()
        _print_largest(result)


def _rates(table: pd.DataFrame) -> pd.DataFrame:
    """Put rates into per cent, under short names."""
    rates = [name for name in table if name == "rate" or str(name).startswith("expected ")]
    short = {name: str(name).removeprefix("expected ") for name in rates}
    return _per_cent(table, rates).rename(columns=short | {"rate": "observed"})


def _per_cent(table: pd.DataFrame, columns: Sequence[Any]) -> pd.DataFrame:
    return table.assign(**{str(name): (100 * table[name]).round(2) for name in columns})


def _print_largest(result: Cancellation) -> None:
    from measurebayes.checks.cancellation.distinct import distinct

    rows = distinct(result.violations, list(result.bands["band"])).head(LISTED)
    place = {band: i for i, band in enumerate(result.bands["band"], 1)}
    table: dict[str, Any] = {f"agent {n}": rows[f"agent_{n}"] for n in "abc"}
    table |= {n: rows[f"band_{n}"].map(place) for n in "xyz"}
    for one, sign, other in (("ay", ">=", "bx"), ("bz", ">=", "cy"), ("az", "<", "cx")):
        pairs = zip(100 * rows[one], 100 * rows[other], strict=True)
        table[f"{one} {sign} {other}"] = [f"{p:.1f} {sign} {q:.1f}" for p, q in pairs]
    table |= {"size": (100 * rows["size"]).round(2), "probability": rows["probability"].round(3)}
    print_table(_frame(table), "Largest violations")
    click.echo(
        "x, y, z are numbers of bands; ay is the rate (%) of agent a in band y. Size: the smallest "
        "of the three\ndifferences (points). Probability: that all three relations hold between "
        "the true rates."
    )


def _frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(columns)


COMMANDS = [cancellation]
