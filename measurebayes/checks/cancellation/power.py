"""How often the check finds a departure from additivity of a given size, at the data's own design.

Data are simulated from an additive fit to the data, with a departure added, for the same agents,
tasks, attempts and holes. Each simulated data set goes through the whole check: the additive model
is fitted to it anew, replicated, and gives a p value. With a departure of size 0 the model is true,
and the share of small p values shows how far the check can be trusted. Where a few parameters are
plugged in for many attempts, p is uniform or errs to the safe side [1]_; with a parameter for every
task, as in ``rasch_ml``, and one attempt a cell it may be too small (docs/cancellation_power.md has
the numbers).

References
----------
.. [1] Robins, van der Vaart, Ventura (2000). Asymptotic distribution of P values in composite null
   models. Journal of the American Statistical Association 95(452).
   doi:10.1080/01621459.2000.10474310
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.special import expit
from scipy.stats import beta

from measurebayes.checks.cancellation.arrange import (
    EQUAL,
    arranged,
    check_choices,
    check_numbers,
    replicated,
)
from measurebayes.checks.cancellation.counting import BANDS_OF, count
from measurebayes.checks.cancellation.references import references
from measurebayes.checks.cancellation.result import AXIOMS
from measurebayes.checks.cancellation.summary import compared
from measurebayes.checks.cancellation.table import Layout
from measurebayes.checks.cancellation.tasks import divisions, task_values
from measurebayes.checks.finished import Finished
from measurebayes.checks.studies import run_tasks
from measurebayes.classical import estimate
from measurebayes.data.schema import validate
from measurebayes.errors import InputError, check_level, shown

# Point estimates that are additive: an increasing function of ability less difficulty.
NULLS = ("common_slope", "rasch_ml", "constant_hazard", "weibull")
MOST_SIZE = 100.0  # far beyond any departure, and safe from overflow of exp(size z)


def _slopes(
    log_odds: np.ndarray, runs: xr.Dataset, size: float, rng: np.random.Generator
) -> np.ndarray:
    """Multiply the log odds of agent i by exp(size z_i), z_i ~ N(0, 1)."""
    factor = np.exp(size * rng.standard_normal(runs.sizes["agent"]))
    return log_odds * factor[runs["agent_index"].values]


def _dimension(
    log_odds: np.ndarray, runs: xr.Dataset, size: float, rng: np.random.Generator
) -> np.ndarray:
    """Add size z_i w_j to the log odds of agent i at task j, z_i and w_j ~ N(0, 1)."""
    trait, loading = (rng.standard_normal(runs.sizes[dim]) for dim in ("agent", "task"))
    product = trait[runs["agent_index"].values] * loading[runs["task_index"].values]
    return log_odds + size * product


class Departure(NamedTuple):
    """A departure from additivity that grows with a number.

    Attributes
    ----------
    unit : str
        What its size is.
    log_odds : callable
        From log odds of cells (cell,), data, size and random numbers to log odds of cells (cell,).
    """

    unit: str
    log_odds: Callable[[np.ndarray, xr.Dataset, float, np.random.Generator], np.ndarray]


DEPARTURES = {
    "slopes": Departure("standard deviation of the agents' log slopes", _slopes),
    "dimension": Departure(
        "standard deviation of an interaction of agent and task, logits", _dimension
    ),
}


class Study(NamedTuple):
    """What all replications share; picklable.

    Attributes
    ----------
    design : xr.Dataset
        Agents, tasks and attempts.
    log_odds : np.ndarray
        Of the additive fit (cell,).
    layout : Layout or None
        Table of agents by bands; None where each data set's own difficulties make the bands.
    bands, equal, min_attempts
        For those bands.
    departure, null, axiom, replicates, seed
        As for `cancellation_power`.
    """

    design: xr.Dataset
    log_odds: np.ndarray
    layout: Layout | None
    bands: int | Sequence[float]
    equal: str
    min_attempts: int
    departure: str
    null: str
    axiom: str
    replicates: int
    seed: int


class Task(NamedTuple):
    """All that one replication needs; picklable."""

    study: Study
    size: float
    replication: int


class Outcome(NamedTuple):
    """What one replication gives back: rate of violations, the mean rate expected, p value."""

    observed: float
    expected: float
    p: float


def cancellation_power(
    runs: xr.Dataset,
    departure: str = "slopes",
    sizes: Sequence[float] = (0.0, 0.25, 0.5, 1.0),
    bands: int | Sequence[float] = 6,
    by: str | xr.DataArray = "minutes",
    min_attempts: int = 20,
    axiom: str = "double",
    null: str = "common_slope",
    replications: int = 200,
    replicates: int = 200,
    level: float = 0.05,
    subset: Mapping[str, Any] | None = None,
    equal: str = "tasks",
    executor: Executor | None = None,
    seed: int = 0,
    progress: bool = True,
    checkpoint: str | Path | None = None,
) -> xr.Dataset:
    """Simulate how often `cancellation` finds a departure from additivity, at this design.

    Parameters
    ----------
    runs : xr.Dataset
        Data of the schema: their agents, tasks, attempts and holes are those of the simulated data,
        and an additive fit to them is where these come from.
    departure : str
        ``"slopes"``: the log odds of each agent are multiplied by a number of its own, log-normal
        around 1 with a standard deviation of the logarithm of `sizes`. Agents keep the tasks that
        they solve half of the time; their curves over difficulty get different slopes, all of the
        same sign.
        ``"dimension"``: a second ability of each agent times a loading of each task is added, both
        standard normal, times `sizes` (logits).
    sizes : sequence of float
        Of the departure, each once, 0 (none) to 100.
    bands, by, min_attempts, axiom, subset, equal
        As for `cancellation`. With ``by="difficulty"`` each simulated data set has bands by its own
        estimated difficulties.
    null : str
        Additive point estimate that the data are simulated from and that is checked:
        ``"common_slope"``, ``"rasch_ml"``, ``"constant_hazard"`` or ``"weibull"``.
    replications : int
        Simulated data sets of each size.
    replicates : int
        Replicates of the fit to each simulated data set, which its p value comes from.
    level : float
        The departure counts as found where p is at most this.
    executor : concurrent.futures.Executor, optional
        Runs the replications; one after another in this process without it. Results are the same.
    seed : int
        Replication r has random numbers of its own, made from (seed, r), for every size the same:
        differences between sizes vary less than each by itself.
    progress : bool
        Show a progress bar on standard error.
    checkpoint : str or Path, optional
        File to which each replication is added when it is done, and from which those of the same
        study that are there are taken.

    Returns
    -------
    xr.Dataset
        Dims size, replication. On size: power (share found among the data sets that can be judged;
        NaN where there are none), power_error (its Monte Carlo standard error), unjudged (number of
        data sets without a case, whose p is NaN), rate (mean rate of violations), expected_rate
        (mean of what the additive fit expects). On (size, replication): p, observed_rate. The
        attributes say what was simulated.

    Raises
    ------
    InputError
        An argument can't be used, there are too few agents or bands, too few attempts reach
        `min_attempts` for any data set to be judged, `null` needs human minutes that a task
        lacks, or the checkpoint is no file of results.
    ExecutorError
        Processes of the executor were killed. Results that were done are kept.
    """
    validate(runs)
    check_choices(
        "cancellation_power",
        departure=(departure, tuple(DEPARTURES)),
        null=(null, NULLS),
        axiom=(axiom, tuple(AXIOMS)),
        equal=(equal, EQUAL),
    )
    check_numbers(
        "cancellation_power",
        min_attempts=(min_attempts, 1),
        replications=(replications, 1),
        replicates=(replicates, 1),
        seed=(seed, 0),
    )
    _check_level(level, replicates)
    tried = _sizes(sizes)
    part, values, (division,), _ = arranged(runs, axiom, bands, by, subset, equal)
    own_bands = isinstance(by, str) and by == "difficulty"
    layout = Layout.of(part, division, min_attempts)
    if not own_bands and not _can_have_cases(layout, axiom):
        raise _too_few_attempts(layout, axiom)  # before any data set is simulated
    study = Study(
        design=part,
        log_odds=estimate(null, part).log_odds,
        layout=None if own_bands else layout,
        bands=bands,
        equal=equal,
        min_attempts=min_attempts,
        departure=departure,
        null=null,
        axiom=axiom,
        replicates=replicates,
        seed=seed,
    )
    tasks = [Task(study, size, r) for size in tried for r in range(replications)]
    finished = Finished("cancellation_power", checkpoint)
    found = run_tasks(run_replication, tasks, executor, "Simulating", progress, finished)
    outcomes = np.reshape(found, (len(tried), replications, 3))
    if np.isnan(outcomes[:, :, 2]).all():
        raise _too_few_attempts(layout, axiom)
    described = {"bands": division.labels, "by": values.name, "level": level}
    return _summary(outcomes, tried, study, described)


def run_replication(task: Task) -> Outcome:
    """Simulate, fit and check once; a module-level function, so that processes can run it."""
    study = task.study
    departing, rng = np.random.default_rng([study.seed, task.replication]).spawn(2)
    departed = DEPARTURES[study.departure].log_odds(
        study.log_odds, study.design, task.size, departing
    )
    successes = rng.binomial(study.design["attempts"].values, expit(departed))
    data = study.design.assign(successes=("cell", successes))
    layout = study.layout or _layout_by_difficulty(data, study)
    (reference,) = references(study.null, data, int(rng.integers(2**31)))
    (rates,) = replicated(reference, [layout], study.replicates)
    observed = float(count(layout.rates(successes[None]), study.axiom).rate[0])
    found = compared(reference, observed, count(rates, study.axiom).rate)
    return Outcome(observed, found["rate"], found["p"])


def _layout_by_difficulty(data: xr.Dataset, study: Study) -> Layout:
    values = task_values(data, "difficulty")
    (division,) = divisions(data, values, study.bands, study.equal)
    return Layout.of(data, division, study.min_attempts)


def _summary(
    outcomes: np.ndarray, sizes: np.ndarray, study: Study, described: Mapping[str, Any]
) -> xr.Dataset:
    """Summarise outcomes (size, replication, 3)."""
    replications = outcomes.shape[1]
    # A data set without a case has no p value: it says nothing of whether the check finds.
    judged = np.isfinite(outcomes[:, :, 2]).sum(axis=1)
    found = np.where(judged, (outcomes[:, :, 2] <= described["level"]).sum(axis=1), np.nan)
    chance = beta(found + 0.5, judged - found + 0.5)
    result = xr.Dataset(
        {
            "power": ("size", found / np.maximum(judged, 1)),
            # a posterior standard deviation (Jeffreys prior) is not 0 where none or all are found
            "power_error": ("size", chance.std()),
            "unjudged": ("size", replications - judged),
            "p": (("size", "replication"), outcomes[:, :, 2]),
            "observed_rate": (("size", "replication"), outcomes[:, :, 0]),
            "rate": ("size", _mean(outcomes[:, :, 0])),
            "expected_rate": ("size", _mean(outcomes[:, :, 1])),
        },
        {"size": sizes, "replication": np.arange(replications)},
    )
    settings = ("departure", "null", "axiom", "min_attempts", "replicates", "seed")
    result.attrs = {name: getattr(study, name) for name in settings} | dict(described)
    result["size"].attrs["long_name"] = DEPARTURES[study.departure].unit
    return result


def _mean(rates: np.ndarray) -> np.ndarray:
    """Mean over the replications that have a case (size,); NaN where none has."""
    there = np.isfinite(rates)
    number = there.sum(axis=1)
    total = np.where(there, rates, 0).sum(axis=1)
    return np.divide(total, number, where=number > 0, out=np.full(len(rates), np.nan))


def _can_have_cases(layout: Layout, axiom: str) -> bool:
    """Whether enough agents and bands have a rate at all; necessary, not sufficient."""
    there = layout.attempts >= layout.least
    return bool(min(there.any(axis=1).sum(), there.any(axis=0).sum()) >= BANDS_OF[axiom])


def _too_few_attempts(layout: Layout, axiom: str) -> InputError:
    there = layout.attempts[layout.attempts > 0] if layout.attempts.any() else np.zeros(1, int)
    usual, least, needed = int(np.median(there)), layout.least, BANDS_OF[axiom]
    lower = 0 < usual < least
    return InputError(
        f"too few attempts reach min_attempts={least}: no simulated data set has a case of "
        f"{AXIOMS[axiom]}",
        where=f"the attempts of an agent at the tasks of a band, {there.min():,} to "
        f"{there.max():,}",
        expected=f"{needed} agents or more that have at least {least:,} in the same bands",
        remedy=f"min_attempts={usual}" if lower else "fewer bands, or data of more agents",
    )


def _sizes(sizes: Sequence[float]) -> np.ndarray:
    try:
        tried = np.atleast_1d(np.asarray(sizes, dtype=float))
    except (TypeError, ValueError):
        tried = np.zeros(0)
    usable = tried.ndim == 1 and len(tried) and ((tried >= 0) & (tried <= MOST_SIZE)).all()
    if not usable or len(np.unique(tried)) < len(tried):
        raise InputError(
            f"sizes={shown(str(sizes))}",
            where="the arguments of cancellation_power",
            expected=f"one or more numbers, 0 or larger, at most {MOST_SIZE:g}, none of them twice",
            remedy="sizes=[0, 0.25, 0.5, 1]",
        )
    return tried


def _check_level(level: Any, replicates: int) -> None:
    check_level(level, "the arguments of cancellation_power", "level=0.05")
    if level * (1 + replicates) < 1:
        raise InputError(
            f"the smallest p value from {replicates} replicates is {1 / (1 + replicates):.3g}, "
            f"above the level of {level:g}: nothing could be found",
            where="the arguments of cancellation_power",
            expected=f"at least {int(np.ceil(1 / level - 1))} replicates",
            remedy=f"replicates={max(200, int(np.ceil(10 / level)))}",
        )
