"""Maximum likelihood point estimates as published analyses use them: curves to compare with."""

from __future__ import annotations

import re
from collections.abc import Callable

import xarray as xr

from measurebayes.classical.additive import rasch_ml
from measurebayes.classical.counts import PointEstimate
from measurebayes.classical.curves import agent_slopes, common_slope, constant_hazard, weibull
from measurebayes.classical.factor import dimensions, two_pl_ml
from measurebayes.errors import InputError, did_you_mean, shown

__all__ = ["NAMES", "PointEstimate", "estimate", "is_name"]

ESTIMATORS: dict[str, Callable[[xr.Dataset], PointEstimate]] = {
    "common_slope": common_slope,
    "agent_slopes": agent_slopes,
    "constant_hazard": constant_hazard,
    "weibull": weibull,
    "rasch_ml": rasch_ml,
    "two_pl_ml": two_pl_ml,
}
NAMES: tuple[str, ...] = tuple(ESTIMATORS)  # and dimensions_1, dimensions_2, ...
DIMENSIONS = re.compile(r"dimensions_([1-9][0-9]{0,3})")


def is_name(text: str) -> bool:
    """Whether `text` names a point estimate.

    Parameters
    ----------
    text
        One of `NAMES`, or ``dimensions_K`` with a whole number K from 1 to 9999.
    """
    return text in ESTIMATORS or DIMENSIONS.fullmatch(text) is not None


def estimate(name: str, runs: xr.Dataset) -> PointEstimate:
    """Fit a model to the counts by (penalised) maximum likelihood.

    Parameters
    ----------
    name
        One of `NAMES`, or ``dimensions_K`` with K = 1, 2, ... dimensions.
    runs
        Data in the schema of measurebayes.data.schema. Not validated here: simulation studies call
        this thousands of times.

    Returns
    -------
    PointEstimate
        Log odds of every cell, log likelihood, parameters. The same data give the same estimate.

    Raises
    ------
    InputError
        The name is unknown, there are no cells, or the estimate needs human minutes that a task
        with attempts lacks.
    """
    if (found := DIMENSIONS.fullmatch(name)) is not None:
        return dimensions(runs, int(found[1]))
    if name not in ESTIMATORS:
        raise InputError(
            f"there is no point estimate {shown(name)}",
            where="measurebayes.classical",
            expected="one of " + ", ".join([*NAMES, "dimensions_1", "dimensions_2", "..."]),
            remedy=did_you_mean(name, [*NAMES, "dimensions_2"]) or "choose one of these names",
        )
    return ESTIMATORS[name](runs)
