"""Commands about data: data, load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from measurebayes.cli.options import (
    Command,
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
@json_option
@output_option("File of the data set (.nc).")
def load(
    data: str,
    reading: dict[str, Any],
    as_json: bool,
    output: Path,
) -> None:
    """Read records, check them, and write a data set.

    The file keeps where the data come from, and what was left out and why.
    """
    from measurebayes.data import save, summarise

    check_output(output, [data])
    runs = load_data(data, reading)
    save(runs, output)
    show_summary(summarise(runs), as_json)
    say(f"wrote {output}")


def show_summary(summary: dict[str, Any], as_json: bool) -> None:
    """Print what `measurebayes.data.summarise` found."""
    from measurebayes.data.summary import status_rows, status_words

    if as_json:
        print_json(summary)
        return
    tables = ("statuses", "counted_as")
    print_pairs(
        {
            key: value
            for key, value in summary.items()
            if value not in ({}, "") and key not in tables
        }
    )
    if summary["statuses"]:
        click.echo()
        print_table(
            status_rows(summary, AGENTS_SHOWN), f"Records by status ({status_words(summary)})"
        )


COMMANDS = [data_command, load]
