"""Running the chains of a NUTS fit: in threads or any executor, saved, stopped and gone on with."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from measurebayes.inference.checkpoint import Checkpoint, Saved, damaged
from measurebayes.inference.devices import Devices, devices_of, placed, put
from measurebayes.inference.elsewhere import refuse_forks, results_of
from measurebayes.inference.nuts import BLOCK, Arguments, Chain, Engine, Records, engine_for
from measurebayes.inference.pilot import run_pilot
from measurebayes.inference.progress import Report, bars, silent, working
from measurebayes.program.registry import ModelFile, model_from_source

SAVE_SECONDS = 2.0  # at most so much of a chain's work is lost when the process is killed


@dataclass(frozen=True)
class Job:
    """A run, apart from its chains; can be sent to another process."""

    name: str
    source: str
    path: str
    options: Mapping[str, Any]
    data: xr.Dataset
    priors: Mapping[str, float]
    tune: int
    draws: int
    chains: int
    seed: int
    checkpoint: str | None
    settings: Mapping[str, Any]

    @property
    def model(self) -> ModelFile:
        """The model, made from its text."""
        made = model_from_source(self.name, self.source, self.path)
        return made.with_options(**self.options)

    def engine(self) -> tuple[Engine, bool]:
        """Return the engine, and whether this process had it already."""
        return engine_for(self.model, self.data, self.priors, self.tune)

    def seed_of(self, chain: int) -> np.random.SeedSequence:
        """Return the seed of a chain; the pilot run is chain number `chains`."""
        return np.random.SeedSequence([self.seed, chain])

    def file(self) -> Checkpoint | None:
        """Open the checkpoint, if the run has one."""
        if self.checkpoint is None:
            return None
        return Checkpoint(self.checkpoint, self.settings, resume=True)


@dataclass(frozen=True)
class Drawn:
    """All chains of a run: named variables and statistics, each (chain, draw, ...).

    Attributes
    ----------
    variables, statistics
        Arrays by name.
    gradients
        Number of gradients, pilot run and warm-up included.
    compile_seconds, sampling_seconds
        Wall time; the pilot run counts as sampling.
    """

    variables: dict[str, np.ndarray]
    statistics: dict[str, np.ndarray]
    gradients: int
    compile_seconds: float
    sampling_seconds: float


def run(job: Job, executor: Executor | None, progress: bool) -> Drawn:
    """Draw all chains of a run.

    Parameters
    ----------
    job
        What to run.
    executor
        Where the chains run; by default threads of this process, one a core.
    progress
        Show a bar for each chain on standard error.
    """
    if executor is not None:
        refuse_forks(executor)
    label = job.model.label
    with working(f"{label}: compiling and a pilot run", progress):
        engine, had = job.engine()
        started = time.perf_counter()
        arguments, pilot_steps = _prepared(job, engine)
    with bars(label, job.chains, job.tune, job.draws, progress) as report:
        if executor is None:
            chains = _in_threads(job, arguments, report)
        else:
            chains = _elsewhere(job, arguments, report, executor)
    seconds = time.perf_counter() - started
    named = [engine.constrain(records.flat, arguments) for records, _ in chains]
    statistics = [_statistics(records) for records, _ in chains]
    steps = sum(int(records.n_steps.sum()) + warmup for records, warmup in chains)
    return Drawn(
        {name: np.stack([chain[name] for chain in named]) for name in named[0]},
        {name: np.stack([chain[name] for chain in statistics]) for name in statistics[0]},
        steps + pilot_steps,
        0.0 if had else engine.compile_seconds,
        seconds,
    )


def _prepared(job: Job, engine: Engine) -> tuple[Arguments, int]:
    """Return the result of the pilot run, from the checkpoint if it is there."""
    file = job.file()
    saved = file.pilot() if file else None
    if saved is not None:
        return _nested(saved[0]), saved[1]
    arguments, steps = run_pilot(engine, job.seed_of(job.chains), engine.arguments(job.data))
    if file:
        file.save_pilot(_by_path(arguments), steps)
    return arguments, steps


def _by_path(tree: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """Return the arrays of nested mappings under names such as ``geometry/shear``."""
    flat: dict[str, np.ndarray] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _by_path(value, f"{prefix}{name}/")
        else:
            flat[prefix + name] = np.asarray(value)
    return flat


def _nested(flat: Mapping[str, np.ndarray]) -> Arguments:
    tree: Arguments = {}
    for path, value in flat.items():
        *folders, name = path.split("/")
        at = tree
        for folder in folders:
            at = at.setdefault(folder, {})
        at[name] = value
    tree.setdefault("coordinates", {})
    return tree


def _in_threads(job: Job, arguments: Arguments, report: Report) -> list[tuple[Records, int]]:
    """Run chains in threads: JAX computes outside Python's lock, and compiles nothing again.

    Where JAX has several devices (GPUs), chains are dealt to them in turn.
    """
    stop, cells = threading.Event(), job.data.sizes["cell"]
    with ThreadPoolExecutor(max(os.cpu_count() or 1, len(jax.devices()))) as pool:
        futures = [
            pool.submit(run_chain, job, arguments, chain, report, stop, devices)
            for chain in range(job.chains)
            for devices in [devices_of(chain, job.chains, cells)]
        ]
        try:
            for future in as_completed(futures):
                future.result()  # an error in one chain should not wait for the others
        except BaseException:  # Ctrl-C among them: let every chain save and leave
            stop.set()
            for future in futures:
                future.cancel()
            raise
        return [future.result() for future in futures]


def _elsewhere(
    job: Job, arguments: Arguments, report: Report, executor: Executor
) -> list[tuple[Records, int]]:
    tasks = [_ChainTask(job, arguments, chain) for chain in range(job.chains)]
    results: dict[int, tuple[Records, int]] = {}
    for chain, drawn in results_of(_run_task, tasks, executor):
        results[chain] = drawn
        records = drawn[0]
        steps = float(records.n_steps.mean())
        report(chain, job.tune + job.draws, int(records.diverging.sum()), steps)
    return [results[chain] for chain in range(job.chains)]


class _ChainTask(NamedTuple):
    """All that a chain in another process needs; picklable."""

    job: Job
    arguments: Arguments
    number: int


def _run_task(task: _ChainTask) -> tuple[Records, int]:
    return run_chain(*task)


def run_chain(
    job: Job,
    arguments: Arguments,
    number: int,
    report: Report = silent,
    stop: threading.Event | None = None,
    devices: Devices = (),
) -> tuple[Records, int]:
    """Draw one chain; return its records and the number of its warm-up gradients."""
    engine, _ = job.engine()
    if devices:
        engine = placed(engine, devices)
    file = job.file()
    saved = file.chain(number) if file else None
    chain = _gone_on(saved, engine, job) if saved else engine.start(job.seed_of(number), arguments)
    if devices:  # the data go there once, not with every block of draws
        arguments = put(arguments, devices)
    total, kept, last = job.tune + job.draws, len(chain.records), time.monotonic()
    while chain.done < total:
        records = engine.advance(chain, min(BLOCK, total - chain.done), arguments)
        divergent = sum(int(r.diverging.sum()) for r in chain.records)
        report(number, chain.done, divergent, float(records.n_steps.mean()))
        leave = stop is not None and stop.is_set()
        late = time.monotonic() - last > SAVE_SECONDS or chain.done == total
        if file and (late or leave):
            _save(file, number, chain, kept)
            kept, last = len(chain.records), time.monotonic()
        if leave:
            break
    return Records.joined(chain.records) if chain.records else _nothing(engine), chain.warmup_steps


def _nothing(engine: Engine) -> Records:
    empty = {name: np.zeros(0) for name in Records.__dataclass_fields__}
    return Records(**{**empty, "flat": np.zeros((0, sum(engine.split.sizes)))})


def _gone_on(saved: Saved, engine: Engine, job: Job) -> Chain:
    try:
        leaves = [saved.state[str(i)] for i in range(len(saved.state))]
        with jax.enable_x64(True):
            state = jax.tree.unflatten(engine.state_structure, leaves)
        records = [Records(**part) for part in saved.parts]
        drawn = sum(len(r.n_steps) for r in records)
    except (KeyError, TypeError, ValueError) as error:
        raise damaged() from error
    if drawn != max(0, saved.done - job.tune) or saved.done > job.tune + job.draws:
        raise damaged()
    return Chain(state, saved.done, saved.warmup_steps, records)


def _save(file: Checkpoint, number: int, chain: Chain, kept: int) -> None:
    leaves = jax.tree.leaves(chain.state)
    state = {str(i): np.asarray(leaf) for i, leaf in enumerate(leaves)}
    new = chain.records[kept:]
    draws = vars(Records.joined(new)) if new else None
    file.save_chain(number, chain.done, chain.warmup_steps, state, draws)


def _statistics(records: Records) -> dict[str, np.ndarray]:
    n_steps = records.n_steps.astype(np.int64)
    return {
        "diverging": records.diverging.astype(bool),
        "n_steps": n_steps,
        "tree_depth": np.ceil(np.log2(n_steps + 1)).astype(np.int64),
        "acceptance_rate": records.acceptance_rate,
        "step_size": records.step_size,
        "energy": records.energy,
        "lp": records.lp,
    }
