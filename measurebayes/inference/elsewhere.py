"""Work in an executor: sent small, sent again where it was lost, called off when a study ends.

Any `concurrent.futures.Executor` will do: threads, processes that start afresh, or what other
libraries make of a cluster (``dask.distributed.Client.get_executor()``).
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    as_completed,
)
from typing import Any

from measurebayes.errors import ExecutorError, InputError

TRIES = 3  # of a task that the executor itself lost
_LEVEL = 1  # of compression: counts and positions shrink 20 to 100 times, slower levels little more


def refuse_forks(executor: Executor) -> None:
    """Refuse a pool of forked processes: JAX has threads, and a fork of them can hang for good.

    Raises
    ------
    InputError
        The executor forks, or is none.
    """
    if not callable(getattr(executor, "submit", None)):
        raise InputError(
            f"{type(executor).__name__} is no executor",
            where="executor",
            expected="a concurrent.futures.Executor, or None for this process alone",
            remedy="concurrent.futures.ThreadPoolExecutor(2), or leave executor out",
        )
    context = getattr(executor, "_mp_context", None)
    if context is not None and context.get_start_method() == "fork":
        raise InputError(
            "the process pool starts its processes by forking",
            where="executor",
            expected="processes that start afresh: JAX has threads, which a fork breaks",
            remedy="ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('spawn'))",
        )


def results_of[Task, Result](
    function: Callable[[Task], Result], tasks: Sequence[Task], executor: Executor
) -> Iterator[tuple[int, Result]]:
    """Yield the place of each task that is done, and its result, as they come.

    Where workers die, clusters such as Dask run their tasks again elsewhere; a task whose future
    was cancelled (a scheduler that started anew) is sent again from here. Where the executor itself
    gave up, what it had done comes first, and then the error.

    Parameters
    ----------
    function
        A function of a module, so that processes can find it.
    tasks
        Picklable, unless the executor runs threads.
    executor
        See `refuse_forks`.

    Raises
    ------
    ExecutorError
        Processes were killed and the executor takes no more work, or gave a task up.
    """
    refuse_forks(executor)
    work, done = _Work(function, tasks, executor), 0
    try:
        while work.to_send:
            work.send()
            for future in as_completed(list(work.waiting)):
                for found in work.received(future):
                    done += 1
                    yield found
    finally:  # Ctrl-C and errors among others: nothing that waits is begun
        for future in work.waiting:
            future.cancel()
    if work.broken is not None:
        raise _in_words(work.broken, done, len(tasks)) from work.broken


class _Work[Task, Result]:
    """Tasks on their way to an executor and back.

    Tasks are packed where they leave this process. Fields that are the same object in many of them,
    as the data are, are packed once.
    """

    def __init__(
        self, function: Callable[[Task], Result], tasks: Sequence[Task], executor: Executor
    ) -> None:
        self.function, self.tasks, self.executor = function, tasks, executor
        self.to_send = list(range(len(tasks)))
        self.waiting: dict[Future[Result], int] = {}
        self.broken: BaseException | None = None
        self._sent: Counter[int] = Counter()
        self._packed: dict[int, bytes] = {}

    def send(self) -> None:
        """Send all that is to be sent."""
        places, self.to_send = self.to_send, []
        try:
            for place in places:
                self.waiting[self._submitted(self.tasks[place])] = place
                self._sent[place] += 1
        except RuntimeError as error:  # a broken pool, or one that was shut down
            self.broken = self.broken or error

    def received(self, future: Future[Result]) -> Iterator[tuple[int, Result]]:
        """Yield place and result of a future, if it has one; one that was lost is sent again."""
        place = self.waiting.pop(future)
        try:
            yield place, future.result()
        except CancelledError as error:
            if self._sent[place] < TRIES:
                self.to_send.append(place)
            else:
                self.broken = self.broken or error
        except Exception as error:
            if not _gave_up(error):
                raise
            self.broken = self.broken or error

    def _submitted(self, task: Task) -> Future[Result]:
        if isinstance(self.executor, ThreadPoolExecutor):
            return self.executor.submit(self.function, task)
        return self.executor.submit(run_packed, self.function, *self.packed(task))

    def packed(self, task: Any) -> tuple[type | None, tuple[bytes, ...]]:
        """Return the type of a named tuple, or None, and what it holds, packed."""
        if not hasattr(task, "_fields"):
            return None, (_pack(task),)
        for field in task:
            if id(field) not in self._packed:
                self._packed[id(field)] = _pack(field)
        return type(task), tuple(self._packed[id(field)] for field in task)


def _pack(value: Any) -> bytes:
    return zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), _LEVEL)


def run_packed(function: Callable[[Any], Any], kind: Any, fields: tuple[bytes, ...]) -> Any:
    """Unpack a task and run it; this is what other processes are given."""
    values = [pickle.loads(zlib.decompress(field)) for field in fields]
    return function(values[0] if kind is None else kind(*values))


def _gave_up(error: Exception) -> bool:
    """Whether an error is of the executor: its processes were killed."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, BrokenExecutor) or "KilledWorker" in names  # the latter is Dask's


def _in_words(error: BaseException, done: int, tasks: int) -> ExecutorError:
    return ExecutorError(
        f"the executor gave up with {done} of {tasks} tasks done: {str(error) or repr(error)}",
        where="executor",
        expected="processes that live to the end; most often they are killed for want of memory, "
        "or a script lacks `if __name__ == '__main__':`",
        remedy="make a new executor, of fewer processes or with more memory for each",
    )
