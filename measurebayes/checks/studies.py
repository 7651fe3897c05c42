"""Simulation studies: many independent tasks through any executor, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from measurebayes.checks.finished import Finished
from measurebayes.errors import ExecutorError
from measurebayes.inference.elsewhere import refuse_forks, results_of

if TYPE_CHECKING:
    from rich.progress import TaskID

Track = Callable[[range], Iterable[int]]  # passes numbers on and shows how far they are


def untracked(steps: range) -> Iterable[int]:
    """Pass numbers on and show nothing."""
    return steps


def run_tasks[Task, Result](
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    executor: Executor | None = None,
    title: str = "Simulating",
    progress: bool = True,
    finished: Finished | None = None,
) -> list[Result]:
    """Run a function on every task.

    Parameters
    ----------
    function
        A function of a module, so that processes can find it. It must take its random numbers from
        the task alone; the results then don't depend on the executor.
    tasks
        Picklable where the executor runs processes.
    executor : concurrent.futures.Executor, optional
        Without it, the tasks run one after another in this process.
    title
        What is said beside the bar.
    progress
        Show a bar on standard error.
    finished
        Results that are done already; new ones are added as they come. They come back as plain
        tuples.

    Returns
    -------
    list
        The results, in the order of the tasks.

    Raises
    ------
    InputError
        The executor forks its processes.
    ExecutorError
        Its processes were killed. The results that were done are kept in a file, if there is
        `finished`.
    """
    if executor is not None:
        refuse_forks(executor)
    results: dict[int, Result] = {}
    found = _done(function, tasks, executor, finished)
    try:
        for place, result in _tracked(found, len(tasks), title, progress):
            results[place] = result
    except ExecutorError as error:
        if finished is not None and results:
            path = finished.kept([(tasks[place], result) for place, result in results.items()])
            error.remedy = (
                f"{error.remedy}; checkpoint={str(path)!r} (on the command line --checkpoint) goes "
                "on from what is done"
            )
        raise
    return [results[place] for place in range(len(tasks))]


def _done[Task, Result](
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    executor: Executor | None,
    finished: Finished | None,
) -> Iterator[tuple[int, Result]]:
    """Yield the place of each task that is done, and its result."""
    known = dict(finished.known(tasks)) if finished is not None else {}
    yield from known.items()
    places = [place for place in range(len(tasks)) if place not in known]
    left = [tasks[place] for place in places]
    found = enumerate(map(function, left))
    for at, result in found if executor is None else results_of(function, left, executor):
        if finished is not None:
            finished.add(left[at], result)
        yield places[at], result


def _tracked[T](done: Iterator[T], total: int, title: str, progress: bool) -> Iterator[T]:
    if not progress:
        yield from done
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(done, title, total=total, console=Console(stderr=True))


@contextmanager
def stages(show: bool, *titles: str) -> Iterator[list[Track]]:
    """Show a bar for each stage on standard error while the block runs; give what moves each.

    A stage that passes on several ranges, one after another, begins its bar again with each.
    """
    if not show:
        yield [untracked for _ in titles]
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:

        def track(bar: TaskID, steps: range) -> Iterator[int]:
            progress.reset(bar, total=len(steps))
            for step in steps:
                yield step
                progress.advance(bar)

        yield [partial(track, progress.add_task(title, total=None)) for title in titles]


@contextmanager
def share_bar(title: str, show: bool) -> Iterator[Callable[[float], None]]:
    """Show a bar on a terminal while the block runs; give what moves it on by a share of all.

    Nothing is shown where standard error is no terminal.
    """
    if not show:
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(title, total=1.0)
        yield lambda share: progress.advance(bar, share)
        progress.update(bar, completed=1.0)
