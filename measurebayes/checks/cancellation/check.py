"""The check itself: observed violations of a cancellation axiom, and what explanations expect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.checks.bands import Bands
from measurebayes.checks.cancellation.arrange import (
    EQUAL,
    MOST_REPLICATES,
    arranged,
    check_choices,
    check_numbers,
    replicated,
)
from measurebayes.checks.cancellation.references import Against, references
from measurebayes.checks.cancellation.result import AXIOMS, Cancellation
from measurebayes.checks.cancellation.summary import of_one_division, of_random_cuts
from measurebayes.checks.cancellation.table import Layout
from measurebayes.checks.cancellation.violations import largest
from measurebayes.data.schema import validate
from measurebayes.inference.elsewhere import refuse_forks

REPLICATES, REPLICATES_OF_CUTS = 2000, 200


def cancellation(
    runs: xr.Dataset,
    bands: int | Sequence[float] = 6,
    by: str | xr.DataArray = "minutes",
    min_attempts: int = 20,
    against: Against = None,
    replicates: int | None = None,
    axiom: str = "double",
    subset: Mapping[str, Any] | None = None,
    equal: str = "tasks",
    cuts: int = 0,
    seed: int = 0,
    progress: bool = True,
    executor: Executor | None = None,
) -> Cancellation:
    """Check whether success rates obey a cancellation axiom of additive conjoint measurement.

    If success depends on ability minus difficulty alone, through any increasing function, the order
    of success rates of agents in bands of tasks obeys single, double and triple cancellation [1]_.
    Noise breaks them too. So violations are counted in the data and in replicates of the data
    that pass through the same bands: from point estimates, or from the posterior of any fit.

    Parameters
    ----------
    runs : xr.Dataset
        Data of the schema.
    bands : int or sequence of float
        Number of bands of tasks, or their edges (one more than there are bands).
    by : str or xr.DataArray
        What puts tasks into bands: ``"minutes"`` (human minutes), ``"difficulty"`` (of the point
        estimate ``rasch_ml`` from these data), ``"family"``, a variable with dim ``task``, or an
        array (task,). Numbers are divided into `bands`; each label is a band of its own.
    min_attempts : int
        Rates of fewer attempts are missing.
    against : optional
        Explanations: names of point estimates (``measurebayes.classical.NAMES``, and
        ``dimensions_2``, ...), fits, or a mapping from names to either; an empty list for none.
        By default common_slope, agent_slopes, rasch_ml, constant_hazard; where a task has no
        human minutes rasch_ml alone.
    replicates : int, optional
        Replicated data sets of each explanation; 2,000, or 200 with random cuts.
    axiom : str
        ``"single"``, ``"double"`` or ``"triple"``.
    subset : mapping, optional
        Passed to `measurebayes.subset`, e.g. ``{"source": "HCAST"}``; a fit may be of all data.
    equal : str
        What a number of bands divides equally: ``"tasks"`` or ``"attempts"``.
    cuts : int
        Average over this many random divisions into `bands` bands in place of an equal one.
    seed : int
        Makes cuts and replicates of point estimates reproducible.
    progress : bool
        Show a progress bar on standard error.
    executor : concurrent.futures.Executor, optional
        Where random cuts are counted; results are the same.

    Returns
    -------
    Cancellation
        ``.observed`` has cases, violations and rate; ``.expected`` rate, p and more by explanation.

    Raises
    ------
    InputError
        An argument can't be used, there are too few agents or bands, or a fit is of other data.

    References
    ----------
    .. [1] Luce, Tukey (1964). Simultaneous conjoint measurement: a new type of fundamental
       measurement. Journal of Mathematical Psychology 1(1). doi:10.1016/0022-2496(64)90015-X
    """
    validate(runs)
    if executor is not None:
        refuse_forks(executor)
    check_choices("cancellation", axiom=(axiom, tuple(AXIOMS)), equal=(equal, EQUAL))
    usual = REPLICATES_OF_CUTS if cuts else REPLICATES
    number = usual if replicates is None else replicates
    check_numbers(
        "cancellation",
        min_attempts=(min_attempts, 1),
        cuts=(cuts, 0, 10_000),
        replicates=(number, 1, MOST_REPLICATES),
        seed=(seed, 0),
    )
    runs, values, divided, without_value = arranged(
        runs, axiom, bands, by, subset, equal, cuts, seed
    )
    layouts = [Layout.of(runs, division, min_attempts) for division in divided]
    observed = [layout.rates(runs["successes"].values[None]) for layout in layouts]
    explanations = references(against, runs, seed)
    if not any(np.isfinite(rates).any() for rates in observed):
        explanations = []  # there is nothing to set against what they expect
    with _bar(progress, number * len(explanations)) as (drawn, counted):
        expected = [(e, replicated(e, layouts, number, drawn)) for e in explanations]
        summarise = of_random_cuts if cuts else of_one_division
        parts = summarise(
            axiom, observed, expected, runs["agent"].values, divided[0].labels, counted, executor
        )
    listing = axiom == "double" and not cuts
    return Cancellation(
        axiom=axiom,
        bands=_bands_table(runs, divided[0]),
        rates=_labelled(observed[0][:, :, 0], runs, divided[0]),
        violations=_largest(runs, layouts[0], observed[0], divided[0])
        if listing
        else pd.DataFrame(),
        by=values.name,
        min_attempts=min_attempts,
        left_out={
            "tasks_without_value": without_value,
            "tasks_outside_bands": int(np.sum(divided[0].of_task < 0)),
            "entries_with_few_attempts": int(np.isnan(observed[0]).sum()),
        },
        **parts,
    )


def _bands_table(runs: xr.Dataset, division: Bands) -> pd.DataFrame:
    inside = division.of_task >= 0
    attempts = np.bincount(runs["task_index"].values, runs["attempts"].values, len(inside))
    count = len(division)
    return pd.DataFrame(
        {
            "band": division.labels,
            "tasks": np.bincount(division.of_task[inside], minlength=count),
            "attempts": np.bincount(division.of_task[inside], attempts[inside], count).astype(int),
        }
    )


def _labelled(rates: np.ndarray, runs: xr.Dataset, division: Bands) -> xr.DataArray:
    coords = {"agent": runs["agent"].values, "band": np.asarray(division.labels, dtype=str)}
    return xr.DataArray(rates, coords, ("agent", "band"), attrs={"long_name": "success rate"})


def _largest(runs: xr.Dataset, layout: Layout, rates: np.ndarray, division: Bands) -> pd.DataFrame:
    successes = layout.successes(runs["successes"].values[None])[:, :, 0]
    agents = runs["agent"].values
    return largest(successes, layout.attempts, rates[:, :, 0], agents, division.labels)


Moved = Callable[[str, float], None]


@contextmanager
def _bar(show: bool, total: int) -> Iterator[tuple[Moved, Moved]]:
    """Show bars over all replicates while the block runs: of drawing, and of counting."""
    if not show or not total:
        yield (lambda name, number: None), (lambda name, number: None)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        tasks = {word: progress.add_task(word, total=total) for word in ("Replicating", "Counting")}

        def mover(word: str) -> Moved:
            return lambda name, number: progress.update(
                tasks[word], advance=number, description=f"{word} {name}"
            )

        yield mover("Replicating"), mover("Counting")
