"""The command line: the same functions as in Python, one file in and one file out a command."""

from measurebayes.cli import (
    additivity,
    cancellation,
    crossval,
    data,
    dependence,
    fitting,
    horizons,
    lint,
    models,
    plan,
    power,
    results,
    trend,
)
from measurebayes.cli.group import main

for _module in (
    data,
    lint,
    models,
    fitting,
    results,
    crossval,
    dependence,
    cancellation,
    power,
    additivity,
    horizons,
    trend,
    plan,
):
    for _command in _module.COMMANDS:
        main.add_command(_command)

__all__ = ["main"]
