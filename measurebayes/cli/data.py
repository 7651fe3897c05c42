"""Commands about data: data, load, concat, formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from measurebayes.cli.options import (
    Command,
    as_options,
    check_output,
    json_option,
    load_data,
    output_option,
    reader_options,
)
from measurebayes.cli.output import print_json, print_pairs, print_table, say

AGENTS_SHOWN = 20  # in the table of statuses; --json has all


@click.command("data", cls=Command)
@click.argument("data")
@reader_options
@json_option
def data_command(data: str, reading: dict[str, Any], as_json: bool) -> None:
    """What DATA hold: counts, holes, saturated tasks."""
    from measurebayes.data import summarise

    show_summary(summarise(load_data(data, reading)), as_json)


@click.command(cls=Command)
@click.argument("data")
@reader_options
@click.option(
    "--subset",
    "parts",
    multiple=True,
    metavar="WHAT=LABEL",
    help="Keep this agent, task, family or source alone; may be repeated.",
)
@json_option
@output_option("File of the data set (.nc).")
def load(
    data: str,
    reading: dict[str, Any],
    parts: tuple[str, ...],
    as_json: bool,
    output: Path,
) -> None:
    """Read records, check them, and write a data set.

    The file keeps where the data come from, and what was left out and why.
    """
    from measurebayes.data import save, subset, summarise

    check_output(output, [data])
    kept = _kept(parts)
    runs = load_data(data, reading)
    if kept:
        runs = subset(runs, **kept)
    save(runs, output)
    show_summary(summarise(runs), as_json)
    say(f"wrote {output}")


def _kept(parts: tuple[str, ...]) -> dict[str, list[str]]:
    """Read WHAT=LABEL words; labels may hold anything, also commas and =."""
    from measurebayes.errors import InputError, did_you_mean

    kinds = ("agent", "task", "family", "source")
    kept: dict[str, list[str]] = {}
    for part in parts:
        kind, equals, label = part.partition("=")
        if kind not in kinds or not equals or not label:
            raise InputError(
                f"--subset {part!r}",
                where="the command line",
                expected=f"WHAT=LABEL, WHAT one of {', '.join(kinds)}",
                remedy=did_you_mean(kind, kinds) or "write for example --subset agent=o1-preview",
            )
        kept.setdefault(kind, []).append(label)
    return kept


@click.command(cls=Command)
@click.argument("datasets", nargs=-1, required=True, metavar="DATA...")
@click.option(
    "--duplicates",
    type=click.Choice(["error", "sum", "first", "last"]),
    default="error",
    show_default=True,
    help="What a pair of agent and task in several DATA is: other attempts (sum) or the same.",
)
@click.option(
    "--shared",
    type=click.Choice(["both", "agents", "tasks"]),
    default="both",
    show_default=True,
    help="Which labels mean the same in all DATA; others get the file's name in front.",
)
@json_option
@output_option("File of the data set (.nc).")
def concat(
    datasets: tuple[str, ...], duplicates: str, shared: str, as_json: bool, output: Path
) -> None:
    """Put several data sets together: equal labels are one agent, one task.

    DATA are read as `measurebayes load` reads them without options; load those that need options
    to .nc files first.
    """
    from measurebayes.data import concat as put_together
    from measurebayes.data import save, summarise
    from measurebayes.errors import InputError

    check_output(output, datasets)
    names = [Path(name).stem for name in datasets]
    keys = names if len(set(names)) == len(names) else datasets
    parts = {key: load_data(name, {}) for key, name in zip(keys, datasets, strict=True)}
    try:
        with as_options():
            both = put_together(parts, duplicates=duplicates, shared=shared)
    except InputError as error:
        error.remedy = (error.remedy or "").replace("--option duplicates=", "--duplicates ")
        raise
    save(both, output)
    show_summary(summarise(both), as_json)
    say(f"wrote {output}")


@click.command(cls=Command)
@click.argument("name", required=False)
@json_option
def formats(name: str | None, as_json: bool) -> None:
    """The formats of records that can be read; of NAME its fields and options.

    A field of another name is given by --column FIELD=ITS_NAME, an option by --option NAME=VALUE.
    """
    from measurebayes.data import READERS
    from measurebayes.errors import InputError, did_you_mean

    if name is None:
        rows = [{"format": reader.name, "title": reader.title} for reader in READERS.values()]
        if as_json:
            print_json(rows)
        else:
            print_table(rows)
        return
    if name not in READERS:
        raise InputError(
            f"there is no format {name!r}",
            where="the command line",
            expected=f"one of: {', '.join(READERS)}",
            remedy=did_you_mean(name, READERS) or "measurebayes formats",
        )
    reader = READERS[name]
    fields = [vars(column) for column in reader.columns]
    options = [
        {"option": o.name, "default": o.default, "meaning": o.meaning, "choices": list(o.choices)}
        for o in reader.options
    ]
    if as_json:
        print_json({"format": name, "title": reader.title, "fields": fields, "options": options})
        return
    click.echo(f"{name}: {reader.title}\n")
    print_table([{"field": f.pop("name"), **f} for f in map(dict, fields)], "Fields")
    click.echo()
    written = {"policy": "--policy", "columns": "--column"}
    rows = [
        {
            "option": written.get(option["option"], f"--option {option['option']}="),
            "default": option["default"],
            "choices": " or ".join(option["choices"]),
            "meaning": option["meaning"],
        }
        for option in options
    ]
    print_table(rows, "Options")
    click.echo(
        "\nFor every format: --join tasks=FILE, agents=FILE, families=FILE or family=prefix:/, and "
        "--option name=,\ntitle=, source=, licence= or citation=, which are stored with the data."
    )


def show_summary(summary: dict[str, Any], as_json: bool) -> None:
    """Print what `measurebayes.data.summarise` found."""
    from measurebayes.data.summary import status_rows, status_words

    if as_json:
        print_json(summary)
        return
    tables = ("statuses", "counted_as")
    known = {
        key: {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value
        for key, value in summary.items()
    }
    print_pairs(
        {
            key: value
            for key, value in known.items()
            if value not in ({}, "", None) and key not in tables
        }
    )
    if summary["statuses"]:
        click.echo()
        print_table(
            status_rows(summary, AGENTS_SHOWN), f"Records by status ({status_words(summary)})"
        )


COMMANDS = [data_command, load, concat, formats]
