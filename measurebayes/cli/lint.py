"""The command lint: every problem of tables and logs at once."""

from __future__ import annotations

from typing import Any

import click

from measurebayes.cli.group import CHECK_FAILED
from measurebayes.cli.options import (
    Command,
    as_options,
    json_option,
    on_command_line,
    reader_options,
)
from measurebayes.cli.output import print_json, printable

_PLACES = 5  # places of one problem that are printed


@click.command(cls=Command)
@click.argument("path")
@reader_options
@json_option
@click.pass_context
def lint(ctx: click.Context, path: str, reading: dict[str, Any], as_json: bool) -> None:
    """Every problem of the table or the logs at PATH, with place and severity.

    It goes on after a problem, and looks at what could be read: pieces without a common scale,
    labels that look alike, records without a score. docs/lint.md describes each code. Exit status
    1 where there is an error, 0 for warnings and notes, 2 where PATH or an option is wrong.
    """
    from measurebayes.data import lint as find_problems

    with as_options():
        result = find_problems(path, **reading)
    found = result.as_dict()
    for finding in found["findings"]:
        for key in ("expected", "remedy"):
            finding[key] = on_command_line(finding[key])
    if as_json:
        print_json({"path": path, **found})
    else:
        _print(found)
    if not result.ok:
        ctx.exit(CHECK_FAILED)


def _print(found: dict[str, Any]) -> None:
    findings: list[dict[str, Any]] = found["findings"]
    for finding, after in zip(findings, [*findings[1:], {}], strict=True):
        # of several findings of one kind, the last says what was expected and what to do
        same = all(finding[key] == after.get(key) for key in ("code", "expected", "remedy"))
        click.echo(printable(f"{finding['severity']} {finding['code']}: {finding['problem']}"))
        places = finding["places"][:_PLACES]
        more = finding["count"] - len(places)
        for label, text in (
            ("where", "; ".join(places) + (f"; and {more} more" if more > 0 else "")),
            ("expected", "" if same else finding["expected"]),
            ("remedy", "" if same else finding["remedy"]),
        ):
            if text:
                click.echo(printable(f"  {label + ':':<10}{text}"))
    numbers = (
        f"{found[name]} {name.removesuffix('s') if found[name] == 1 else name}"
        for name in ("errors", "warnings", "notes")
    )
    click.echo(", ".join(numbers))
    if found["taken"]:
        words = " ".join(on_command_line(f"{k}={v!r}") for k, v in found["taken"].items())
        click.echo(printable(f"Where a decision is open, it was read on as with {words}"))


COMMANDS = [lint]
