"""Studies in executors: processes that are killed, a real Dask cluster, Ctrl-C."""

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from fake_fit import fake_data

import measurebayes as mb
from measurebayes.checks.finished import Finished
from measurebayes.checks.studies import run_tasks
from measurebayes.errors import ExecutorError
from measurebayes.inference.elsewhere import TRIES, results_of, run_packed

SPAWN = multiprocessing.get_context("spawn")


class Square(NamedTuple):
    """A task: a number, data that all tasks share, and the number that kills its process once."""

    number: int
    data: np.ndarray
    deadly: int = -1
    trace: str = ""


def square(task):
    if task.number == task.deadly and not Path(task.trace).exists():
        time.sleep(0.5)  # others end before
        Path(task.trace).write_text("was here")
        os.kill(os.getpid(), signal.SIGKILL)
    return (task.number**2 + int(task.data.sum()),)


class Fold(NamedTuple):
    """A task with a data set."""

    runs: xr.Dataset
    number: int


class Fickle(Executor):
    """Loses tasks: their futures are cancelled, or it breaks after some submissions."""

    def __init__(self, lost=(), times=1, breaks_after=None):
        self.lost, self.times, self.breaks_after = lost, times, breaks_after
        self.seen, self.submitted = {}, 0

    def submit(self, function, /, *arguments, **_):
        if self.submitted == self.breaks_after:
            raise BrokenExecutor("terminated abruptly")
        self.submitted += 1
        result = function(*arguments)
        self.seen[result] = self.seen.get(result, 0) + 1
        future = Future()
        if result[0] in self.lost and self.seen[result] <= self.times:
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_result(result)
        return future


def squares(number=6, **others):
    data = np.zeros(3, dtype=int)
    return [Square(i, data, **others) for i in range(number)]


EXPECTED = [(i**2,) for i in range(6)]


def test_tasks_that_were_lost_are_sent_again():
    executor = Fickle(lost=(4, 25), times=TRIES - 1)
    assert run_tasks(square, squares(), executor, progress=False) == EXPECTED
    assert executor.seen[(4,)] == TRIES
    assert executor.seen[(9,)] == 1
    with pytest.raises(ExecutorError, match="5 of 6 tasks done"):
        run_tasks(square, squares(), Fickle(lost=(4,), times=99), progress=False)


def test_an_executor_that_breaks_leaves_what_was_done(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broken = Fickle(breaks_after=4)
    with pytest.raises(ExecutorError, match="4 of 6 tasks done") as caught:
        run_tasks(square, squares(), broken, progress=False, finished=Finished("squares"))
    (path,) = tmp_path.iterdir()
    assert f"checkpoint={str(path)!r}" in caught.value.remedy
    asked = Fickle()
    again = Finished("squares", path)
    assert run_tasks(square, squares(), asked, progress=False, finished=again) == EXPECTED
    assert asked.submitted == 2
    with pytest.raises(ExecutorError, match="0 of 6") as caught:
        run_tasks(square, squares(), Fickle(breaks_after=0), progress=False)
    assert "checkpoint" not in caught.value.remedy
    with ThreadPoolExecutor(1) as threads:
        pass
    with pytest.raises(ExecutorError, match="after shutdown"):
        run_tasks(square, squares(), threads, progress=False)


def test_a_task_that_kills_its_workers_does_not_take_the_others_along(tmp_path):
    class KilledWorker(Exception):
        """As Dask names it."""

    class Killing(Fickle):
        def submit(self, function, /, *arguments, **_):
            future = super().submit(function, *arguments)
            if future.result() == (0,):  # the first one
                future = Future()
                future.set_exception(KilledWorker("attempted to run task on 4 workers"))
            return future

    path = tmp_path / "squares.part"
    with pytest.raises(ExecutorError, match="5 of 6 tasks done: attempted to run"):
        run_tasks(square, squares(), Killing(), progress=False, finished=Finished("squares", path))
    assert len(path.read_text().splitlines()) == 5


def test_random_cuts_are_counted_anywhere(metr):
    asked = {"cuts": 2, "replicates": 3, "against": "rasch_ml", "progress": False}
    alone = mb.cancellation(metr, **asked)
    with ThreadPoolExecutor(2) as threads:
        pd.testing.assert_frame_equal(
            mb.cancellation(metr, executor=threads, **asked).cuts, alone.cuts
        )
    with pytest.raises(mb.InputError, match="no executor"):
        mb.cancellation(metr, executor=3)


def test_control_c_begins_nothing_more():
    begun, go = [], threading.Event()

    def waits(number):
        begun.append(number)
        go.wait(10)
        return number

    def interrupted(futures):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as threads:
        patch.setattr("measurebayes.inference.elsewhere.as_completed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_tasks(waits, range(50), threads, progress=False)
        go.set()
    assert len(begun) <= 1


def test_what_tasks_share_is_packed_once_and_small(metr):
    class Kept(Executor):
        sent = []

        def submit(self, function, /, *arguments):
            self.sent.append(arguments)
            future = Future()
            future.set_result(function(*arguments))
            return future

    executor = Kept()
    tasks = [Fold(metr, 1), Fold(metr, 2)]
    found = dict(results_of(attempts_and_number, tasks, executor))
    assert found == {0: (int(metr["attempts"].sum()), 1), 1: (int(metr["attempts"].sum()), 2)}
    (_, kind, first), (_, _, second) = executor.sent
    assert kind is Fold
    assert first[0] is second[0]
    assert 5 * sum(map(len, first)) < len(pickle.dumps(tasks[0]))
    xr.testing.assert_identical(run_packed(runs_of, kind, first), metr)


def attempts_and_number(task):
    return int(task.runs["attempts"].sum()), task.number


def runs_of(task):
    return task.runs


def test_the_bar_counts_what_was_there_before(tmp_path, monkeypatch):
    told = []

    def track(done, title, total, console):
        for place, one in enumerate(done):
            told.append((place + 1, total))
            yield one

    monkeypatch.setattr("rich.progress.track", track)
    path = tmp_path / "squares.part"
    for expected in (4, 6):
        told.clear()
        run_tasks(square, squares(expected), finished=Finished("squares", path))
        assert told[-1] == (expected, expected)


@pytest.mark.slow
def test_a_killed_process_of_a_pool_loses_nothing(tmp_path):
    path, trace = tmp_path / "squares.part", str(tmp_path / "trace")
    tasks = squares(deadly=5, trace=trace)
    with (
        ProcessPoolExecutor(1, mp_context=SPAWN) as pool,
        pytest.raises(ExecutorError, match="5 of 6 tasks done"),
    ):
        run_tasks(square, tasks, pool, progress=False, finished=Finished("squares", path))
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        again = run_tasks(square, tasks, pool, progress=False, finished=Finished("squares", path))
    assert again == EXPECTED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Scheduler and two workers as processes, and a client."""
    distributed = pytest.importorskip("distributed", reason="pip install measurebayes[cluster]")
    file = tmp_path_factory.mktemp("dask") / "scheduler.json"
    local = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
    worker = ["--nthreads", "1", "--no-nanny", "--local-directory", str(file.parent)]
    words = [
        ["dask_scheduler", "--port", "0", *local],
        *(["dask_worker", *local, *worker] for _ in range(2)),
    ]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{one[0]}", *one[1:]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for one in words
    ]
    try:
        deadline = time.monotonic() + 30
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        with distributed.Client(scheduler_file=str(file), timeout=30) as client:
            client.wait_for_workers(2, timeout=30)
            yield client
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed")
def test_a_calibration_on_a_cluster_survives_a_killed_worker(cluster, tmp_path):
    design, _ = fake_data(4, 6, attempts=2)
    short = {"draws": 50, "tune": 50, "chains": 1, "ranked_among": 9, "progress": False}
    expected = mb.calibrate("rasch", design, 8, **short)
    path, killed = tmp_path / "study.part", []
    workers = cluster.run(os.getpid)

    def kill_one_half_way():
        while not path.exists() or len(path.read_text().splitlines()) < 3:
            time.sleep(0.02)
        killed.append(next(iter(workers.values())))
        os.kill(killed[0], signal.SIGKILL)

    watch = threading.Thread(target=kill_one_half_way, daemon=True)
    watch.start()
    executor = cluster.get_executor()
    found = mb.calibrate("rasch", design, 8, executor=executor, checkpoint=path, **short)
    watch.join(1)
    assert killed
    assert len(cluster.scheduler_info()["workers"]) == 1
    xr.testing.assert_identical(found.ranks, expected.ranks)
    pd.testing.assert_frame_equal(found.table, expected.table)
    pd.testing.assert_frame_equal(found.diagnostics, expected.diagnostics)
    kept = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    assert len(kept) == len(set(kept)) == 8


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::measurebayes.compare.UnconvergedWarning")
def test_other_work_on_a_cluster_gives_the_same(cluster, metr):
    executor, design = cluster.get_executor(), fake_data(4, 6, attempts=2)[0]
    short = {"draws": 50, "tune": 50, "chains": 1, "progress": False}
    for work in (
        lambda where: mb.crossval("rasch", design, "task", k=2, executor=where, **short),
        lambda where: (
            mb.cancellation(
                metr, cuts=2, replicates=5, against="rasch_ml", executor=where, progress=False
            ).cuts
        ),
        lambda where: mb.fit("rasch", design, executor=where, **short)["posterior"][
            "ability"
        ].to_dataframe(),
    ):
        pd.testing.assert_frame_equal(work(executor), work(None))
