"""Options about how long work is done: in how many processes, and where what is done is kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from measurebayes.cli.output import say
from measurebayes.errors import InputError

if TYPE_CHECKING:
    from concurrent.futures import Executor

jobs_option = click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes."
)
checkpoint_option = click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="File that keeps each result when it is done; the same command goes on from there.",
)


def _checked(_: click.Context, __: click.Parameter, memory: str | None) -> str | None:
    if memory is not None:
        from measurebayes.backends.blocks import in_bytes

        try:
            in_bytes(memory)
        except InputError as error:
            error.remedy = "--memory 2GiB"
            raise
    return memory


memory_option = click.option(
    "--memory",
    default=None,
    metavar="SIZE",
    callback=_checked,
    help="What temporary arrays may take, such as 2GiB or 500MB; by default 128MiB. Changes no "
    "result.",
)


@contextmanager
def executor(jobs: int) -> Iterator[Executor | None]:
    """Processes to work in, one a core at most, or None for this process alone."""
    if jobs == 1:
        yield None
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if jobs > (most := max(2, os.cpu_count() or 1)):
        say(f"--jobs {jobs:,}: {most} processes, as more than the cores here gain nothing")
        jobs = most
    # Not forked: a process that has run JAX has threads, and forking it can deadlock.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield pool


@contextmanager
def kept(checkpoint: Path | None, output: Path | None) -> Iterator[Path | None]:
    """Give the file that keeps results: OUTPUT.part where none is named, removed in the end."""
    if checkpoint is not None or output is None:
        yield checkpoint
        return
    beside = Path(f"{output}.part")
    yield beside
    beside.unlink(missing_ok=True)
