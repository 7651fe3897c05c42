"""The command crossval: models fitted to a part of the data predict the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from measurebayes.cli.options import (
    Command,
    Several,
    as_options,
    check_output,
    json_option,
    load_data,
    output_option,
    prior_values,
    reader_options,
    sampling_options,
)
from measurebayes.cli.output import print_json, print_table, save_csv
from measurebayes.cli.work import checkpoint_option, executor, jobs_option, kept, memory_option


@click.command(cls=Command)
@click.argument("data")
@click.option("--models", cls=Several, required=True, metavar="MODEL...", help="Models to compare.")
@reader_options
@click.option(
    "--folds",
    type=click.Choice(["task", "family", "agent", "cell", "attempt", "half-attempts"]),
    default="family",
    show_default=True,
    help="What is left out and predicted; half-attempts: models are fitted to a random half of the "
    "attempts of every cell and predict the other.",
)
@click.option(
    "--k",
    type=click.IntRange(1),
    help="Number of folds (by default 10), or of random splits into halves (3).",
)
@jobs_option
@checkpoint_option
@memory_option
@sampling_options
@json_option
@output_option(
    "CSV file to write as well; OUTPUT.part keeps what is done until all is.", required=False
)
def crossval(
    data: str,
    models: tuple[str, ...],
    reading: dict[str, Any],
    folds: str,
    k: int | None,
    jobs: int,
    checkpoint: Path | None,
    memory: str | None,
    priors: tuple[str, ...],
    unconnected: str,
    quiet: bool,
    as_json: bool,
    output: Path | None,
    **settings: Any,
) -> None:
    """Compare MODELS by exact cross-validation, best first.

    Each model is fitted without a part of the data, k times, and predicts that part. elpd is the
    log predictive density of what was left out: higher is better.
    """
    import measurebayes as mb
    from measurebayes.inference.fitting import check_scale
    from measurebayes.program.registry import get_model

    if output is not None:
        check_output(output, [data])
    changed = prior_values(priors)
    for model in models:
        get_model(model).with_priors(changed)  # a wrong name should not wait for the data to load
    runs = load_data(data, reading)
    if changed:
        settings["priors"] = changed
    with as_options():  # of the whole; priors alone may relate what is left of the data
        for model in models:
            check_scale(get_model(model), runs, unconnected)
    with kept(checkpoint, output) as file:
        with as_options(), executor(jobs) as pool:
            table = mb.crossval(
                list(models),
                runs,
                folds=folds,
                k=k,
                executor=pool,
                progress=not quiet,
                checkpoint=file,
                memory=memory,
                **settings,
            )
        if as_json:
            print_json(table)
        else:
            print_table(table)
        if output is not None:
            save_csv(table, output, index=True)


COMMANDS = [crossval]
