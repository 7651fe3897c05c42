"""Commands about models: models, describe, verify, copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from measurebayes.cli.group import CHECK_FAILED
from measurebayes.cli.options import (
    Command,
    json_option,
    load_data,
    prior_option,
    prior_values,
    reader_options,
)
from measurebayes.cli.output import print_json, print_table, printable, say
from measurebayes.errors import InputError


@click.command(cls=Command)
@json_option
def models(as_json: bool) -> None:
    """List the bundled models.

    A model with options is named NAME:OPTION=VALUE wherever a model is named, for example
    horizon_logistic:slopes=common.
    """
    from measurebayes.program.options import written
    from measurebayes.program.registry import get_model, model_names

    found = [get_model(name) for name in model_names()]
    rows = [{"model": m.name, "title": m.title, "options": written(m.offered)} for m in found]
    if as_json:
        more = [{"options": m.offered, "priors": m.priors} for m in found]
        print_json([{**row, **parts} for row, parts in zip(rows, more, strict=True)])
    else:
        print_table(rows)


@click.command(cls=Command)
@click.argument("name", metavar="MODEL")
@click.argument("file", type=click.Path(path_type=Path))
def copy(name: str, file: Path) -> None:
    """Write the text of MODEL to FILE, to change it."""
    from measurebayes.program.registry import get_model

    source = get_model(name).source
    if file.suffix != ".py" or not file.parent.is_dir() or file.exists():
        raise InputError(
            f"{str(file)!r} " + ("exists already" if file.exists() else "can't be a model file"),
            where="FILE",
            expected="a new name that ends in .py, in a folder that exists",
            remedy=f"measurebayes copy {name} my_model.py",
        )
    file.write_text(source, encoding="utf-8")
    say(f"wrote {file}; check it after each change with: measurebayes verify {file}")


@click.command(cls=Command)
@click.argument("model")
@json_option
@click.pass_context
def verify(ctx: click.Context, model: str, as_json: bool) -> None:
    """Check a model file against the contract.

    The parts of the file; one density in all interpreters and layouts; simulated data. No sampler
    is run. MODEL is run as code: verify only files that you trust. Exit status 1 when a check
    fails.
    """
    from measurebayes.checks.contract import verify as run

    table = run(model)
    if as_json:
        print_json(table)
    else:
        print_table(table)
    if not table["passed"].all():
        ctx.exit(CHECK_FAILED)


@click.command(cls=Command)
@click.argument("model")
@click.argument("data")
@reader_options
@prior_option
@json_option
def describe(
    model: str,
    data: str,
    reading: dict[str, Any],
    priors: tuple[str, ...],
    as_json: bool,
) -> None:
    """What MODEL would estimate from DATA.

    Equations, priors, variables and the number of parameters, before anything runs.
    """
    import measurebayes as mb

    changed = prior_values(priors)
    described = mb.describe(model, load_data(data, reading), changed or None)
    if as_json:
        print_json(described.as_dict())
    else:
        click.echo(printable(str(described), keep="\n"))


COMMANDS = [models, describe, verify, copy]
