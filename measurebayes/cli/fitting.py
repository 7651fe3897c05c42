"""Commands that run a sampler: fit, calibrate, analyse."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from measurebayes.cli.group import CHECK_FAILED
from measurebayes.cli.options import (
    Command,
    Several,
    as_options,
    check_output,
    json_option,
    level_option,
    load_data,
    output_option,
    prior_values,
    reader_options,
    sampling_options,
)
from measurebayes.cli.output import print_json, print_pairs, print_table, say
from measurebayes.cli.work import checkpoint_option, executor, jobs_option


@click.command(cls=Command)
@click.argument("model")
@click.argument("data")
@reader_options
@sampling_options
@click.option("--resume", is_flag=True, help="Go on from the checkpoint OUTPUT.part.")
@output_option("File of the fit (.nc); its checkpoint is OUTPUT.part until it is done.")
@click.pass_context
def fit(
    ctx: click.Context,
    model: str,
    data: str,
    reading: dict[str, Any],
    priors: tuple[str, ...],
    quiet: bool,
    resume: bool,
    output: Path,
    **settings: Any,
) -> None:
    """Fit MODEL to DATA: the posterior, in one file.

    The file holds the draws, the data, the model and the settings, and needs nothing else.
    """
    from measurebayes.program.registry import get_model

    check_output(output, [data])
    chosen = get_model(model)
    changed = prior_values(priors)
    chosen.with_priors(changed)  # a wrong name should not wait for the data to load
    runs = load_data(data, reading)
    checkpoint = Path(f"{output}.part")
    if resume and not checkpoint.exists():
        say(f"there is no checkpoint {checkpoint}: starting from the beginning")
    import measurebayes as mb

    try:
        with as_options():
            result = mb.fit(
                model,
                runs,
                priors=changed or None,
                progress=not quiet,
                checkpoint=str(checkpoint),
                resume=resume,
                **settings,
            )
    except KeyboardInterrupt:
        _say_how_to_resume(ctx, checkpoint)
        raise
    mb.save(result, str(output))
    checkpoint.unlink(missing_ok=True)
    say(f"wrote {output}")
    _say_what_failed(result, output)


def _say_what_failed(result: Any, output: Path) -> None:
    """Unconverged draws must not be used unawares."""
    from measurebayes.checks.approximation import doubt
    from measurebayes.checks.convergence import convergence, failures

    failed = failures(convergence(result))
    if failed:
        say(f"do not trust these draws: the fit {doubt(result)} (measurebayes check {output})")
    for row in failed:
        say(f"  {row.name}: {row.text}")


def _say_how_to_resume(ctx: click.Context, checkpoint: Path) -> None:
    if not checkpoint.exists():
        say("\nstopped before the first checkpoint: nothing was written")
        return
    words = [*ctx.obj, *([] if "--resume" in ctx.obj else ["--resume"])]
    say(f"\nthe draws so far are in {checkpoint}; go on with:\n  measurebayes {shlex.join(words)}")


@click.command(cls=Command)
@click.argument("data")
@click.option("--models", cls=Several, required=True, metavar="MODEL...", help="Models to compare.")
@reader_options
@sampling_options
@json_option
@output_option("Folder to write into; it is made if it does not exist.")
@click.pass_context
def analyse(
    ctx: click.Context,
    data: str,
    models: tuple[str, ...],
    reading: dict[str, Any],
    priors: tuple[str, ...],
    quiet: bool,
    as_json: bool,
    output: Path,
    **settings: Any,
) -> None:
    """The whole chain: fit, check, compare, report.

    Writes MODEL.nc and checks_MODEL.csv for every model, comparison.csv, cancellation.csv and
    report.html. A fit that is already there with the same data, model and settings is used again.
    Exit status 1 means that sampling did not converge; predictive misfit is a finding, and is
    printed.
    """
    from measurebayes.analyse import analyse as run

    runs = load_data(data, reading)
    try:
        analysis = run(
            runs,
            models,
            output,
            priors=prior_values(priors) or None,
            progress=not quiet,
            say=say,
            show=None if as_json else print_table,
            **settings,
        )
    except KeyboardInterrupt:
        say(
            "\nfinished fits are kept, and a running one goes on from its last checkpoint:\n"
            f"  measurebayes {shlex.join(ctx.obj)}"
        )
        raise
    if as_json:
        print_json(analysis.as_dict())
    if not analysis.all_converged:
        ctx.exit(CHECK_FAILED)


@click.command(cls=Command)
@click.argument("model")
@click.argument("data")
@reader_options
@click.option("--replications", type=click.IntRange(20), default=200, show_default=True)
@jobs_option
@checkpoint_option
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@level_option(0.01, "Smallest adjusted p value that passes.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
@json_option
@click.pass_context
def calibrate(
    ctx: click.Context,
    model: str,
    data: str,
    reading: dict[str, Any],
    replications: int,
    jobs: int,
    checkpoint: Path | None,
    seed: int,
    level: float,
    quiet: bool,
    as_json: bool,
) -> None:
    """Simulation-based calibration of MODEL.

    Draws parameters from the prior, simulates the attempts of DATA from them and fits: the ranks
    of the true values among the draws must be uniform. Exit status 1 where they are not.
    """
    import measurebayes as mb

    design = load_data(data, reading)
    with executor(jobs) as pool:
        result = mb.calibrate(
            model,
            design,
            replications,
            executor=pool,
            seed=seed,
            progress=not quiet,
            checkpoint=checkpoint,
        )
    uniform = result.uniform(level)
    if as_json:
        print_json({**result.summary(), "level": level, "uniform": uniform, "table": result.table})
    else:
        print_table(result.table)
        print_pairs({**result.summary(), "level": level, "uniform": uniform}, "\nIn short")
    if not uniform:
        ctx.exit(CHECK_FAILED)


COMMANDS = [fit, calibrate, analyse]
