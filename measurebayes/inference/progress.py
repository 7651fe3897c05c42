"""Progress bars of a run on standard error: one a chain, with the time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np


class Report(Protocol):
    """Is told how far a chain is."""

    def __call__(self, chain: int, done: int, diverging: int, n_steps: float) -> None:
        """Take note: draws done (warm-up included), divergences since warm-up, steps a draw."""


def silent(chain: int, done: int, diverging: int, n_steps: float) -> None:
    """Report nothing."""


@contextmanager
def bars(model: str, chains: int, tune: int, draws: int, show: bool) -> Iterator[Report]:
    """Show a bar for each chain while the block runs; give the function that moves them."""
    if not show:
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:>5.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[phase]:<8}"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeLeft(),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as progress:
        tasks = [
            progress.add_task(f"{model} chain {c + 1}", total=tune + draws, phase="", note="")
            for c in range(chains)
        ]

        def report(chain: int, done: int, diverging: int, n_steps: float) -> None:
            note = f"{n_steps:.0f} steps a draw" if np.isfinite(n_steps) else ""
            if diverging:
                note += f", {diverging} divergent"
            phase = "warm-up" if done <= tune else "sampling"
            progress.update(tasks[chain], completed=done, phase=phase, note=note)

        yield report


@contextmanager
def working(text: str, show: bool) -> Iterator[None]:
    """Say what is being done while the block runs: turning on a terminal, one line elsewhere."""
    if not show:
        yield
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        console.print(text, highlight=False)
        yield
