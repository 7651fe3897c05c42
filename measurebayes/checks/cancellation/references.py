"""What to expect where an explanation is true: replicated data from each explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from measurebayes.errors import InputError, did_you_mean, listed, shown

# The point estimates of the article whose check this is, where human minutes are known.
BY_MINUTES = ("common_slope", "agent_slopes", "rasch_ml", "constant_hazard")
WITHOUT_MINUTES = ("rasch_ml",)
BLOCK_BYTES = 32 * 2**20

Against = Sequence[Any] | Mapping[str, Any] | str | xr.DataTree | None


class Reference(NamedTuple):
    """An explanation, and how it replicates the data.

    Attributes
    ----------
    name : str
        Name in tables.
    kind : str
        ``"maximum likelihood"`` or ``"posterior"``.
    title : str
        What it is, in words.
    replicates : callable
        From a number of replicates, blocks of successes (draw, cell) in the order of the data's
        cells.
    """

    name: str
    kind: str
    title: str
    replicates: Callable[[int], Iterator[np.ndarray]]


def references(against: Any, runs: xr.Dataset, seed: int) -> list[Reference]:
    """Make references of point estimates by name, and of fits.

    Parameters
    ----------
    against
        Names of point estimates, fits (DataTree), or a mapping from names of your own to either.
        None for the usual point estimates.
    runs
        Data whose cells are to be replicated.
    seed : int
        Of the replicates of point estimates; those of a fit follow from the fit's own seed.

    Raises
    ------
    InputError
        A name is unknown, two have the same name, or a fit is of other data.
    """
    if against is None:
        known = np.isfinite(runs["human_minutes"].values[runs["task_index"].values]).all()
        against = BY_MINUTES if known else WITHOUT_MINUTES
    if isinstance(against, str | xr.DataTree):
        against = [against]
    if isinstance(against, Mapping):
        for name in against:
            _check_name(name)
        return [_reference(what, runs, seed, str(name)) for name, what in against.items()]
    if not isinstance(against, Iterable):
        against = [against]
    found = [_reference(what, runs, seed) for what in against]
    names = [reference.name for reference in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"two of the explanations are called {listed(twice)}",
            where="against",
            expected="a different name for each",
            remedy="against={'with wide priors': fit, 'default': other}",
        )
    return found


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or name in ("", "observed"):
        raise InputError(
            f"an explanation called {shown(name)}",
            where="against",
            expected="names in text, other than 'observed', which is the data's",
            remedy="against={'default priors': fit}",
        )


def _reference(what: Any, runs: xr.Dataset, seed: int, name: str | None = None) -> Reference:
    from measurebayes.classical import NAMES, is_name

    if isinstance(what, xr.DataTree):
        return _of_fit(what, runs, name)
    if isinstance(what, str) and is_name(what):
        return _of_estimate(what, runs, seed, name)
    raise InputError(
        f"{shown(what) if isinstance(what, str) else type(what).__name__} is no explanation",
        where="against",
        expected="fits (what mb.fit returned), or names of point estimates: "
        + ", ".join([*NAMES, "dimensions_2", "dimensions_3", "..."]),
        remedy=did_you_mean(what, NAMES) if isinstance(what, str) else "against=[fit]",
    )


def _of_estimate(estimate_name: str, runs: xr.Dataset, seed: int, name: str | None) -> Reference:
    from scipy.special import expit

    from measurebayes.classical import estimate

    found = estimate(estimate_name, runs)
    chance, attempts = expit(found.log_odds), runs["attempts"].values

    def replicates(number: int) -> Iterator[np.ndarray]:
        rng = np.random.default_rng([seed, *estimate_name.encode()])
        step = max(1, BLOCK_BYTES // (8 * len(attempts)))
        for start in range(0, number, step):
            yield rng.binomial(attempts, chance, (min(step, number - start), len(attempts)))

    return Reference(name or estimate_name, "maximum likelihood", found.title, replicates)


def _of_fit(fit: xr.DataTree, runs: xr.Dataset, name: str | None) -> Reference:
    from measurebayes.checks.approximation import is_approximate
    from measurebayes.checks.convergence import convergence, failures
    from measurebayes.checks.replicates import posterior_replicates
    from measurebayes.inference.results import model_of

    model = model_of(fit)
    _check_draws(fit["posterior"].to_dataset(), name or model.label)
    place = cells_of(runs, fit["data"].to_dataset(), name or model.label)
    title = model.title.rstrip(".")
    if failed := failures(convergence(fit)):
        what = "A POOR APPROXIMATION" if is_approximate(fit) else "NOT CONVERGED"
        title += f" ({what}: {', '.join(row.name for row in failed)})"

    def replicates(number: int) -> Iterator[np.ndarray]:
        for _, successes in posterior_replicates(fit, number):
            yield successes[:, place]

    return Reference(name or model.label, "posterior", title, replicates)


def _check_draws(posterior: xr.Dataset, name: str) -> None:
    missing = [str(each) for each in posterior.data_vars if np.isnan(posterior[each]).any()]
    if missing:
        raise InputError(
            f"the fit {shown(name)} has draws that are no number (NaN)",
            where=f"the posterior of {listed(missing)}",
            expected="numbers: data can't be replicated from other draws",
            remedy="fit the model again: mb.fit(model, runs)",
        )


def cells_of(runs: xr.Dataset, fitted: xr.Dataset, name: str) -> np.ndarray:
    """Find the cells of `runs` among those of a fit's data.

    Returns
    -------
    np.ndarray
        Shape (cell,): position in the fit's data.

    Raises
    ------
    InputError
        A cell is not there, or has other counts there.
    """
    import pandas as pd

    keys = [
        pd.MultiIndex.from_arrays(
            [d["agent"].values[d["agent_index"].values], d["task"].values[d["task_index"].values]]
        )
        for d in (fitted, runs)
    ]
    place = keys[0].get_indexer(keys[1])
    same = place >= 0
    for counts in ("attempts", "successes"):
        same &= fitted[counts].values[place] == runs[counts].values
    if not same.all():
        agent, task = keys[1][int(np.argmin(same))]
        raise InputError(
            f"the fit {shown(name)} is of other data: {int((~same).sum())} of {len(same)} cells "
            "are not in it, or have other counts there",
            where=f"agent {shown(agent)}, task {shown(task)}",
            expected="a fit of the data that are checked, or of data that they are a part of",
            remedy="fit the model to these data: mb.fit(model, runs)",
        )
    return place
