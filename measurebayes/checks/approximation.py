"""What the draws of an engine that approximates are worth, in place of checks of chains.

Independent draws have no chains that could disagree: R-hat, effective sample sizes and divergences
say nothing of them. What can go wrong is that they are draws of another distribution. Importance
weights compare the two: the shape k of their tail is below 0.7 where weighted means can be trusted,
and higher where the approximation misses part of the posterior [1]_. They judge what is weighted:
the engine's own text says what that is. In many dimensions k is high
for approximations whose means and standard deviations are useful all the same, so that a row that
fails means: not known to be right.

References
----------
.. [1] Yao, Y., Vehtari, A., Simpson, D., & Gelman, A. (2018). Yes, but did it work? Evaluating
   variational inference. Proceedings of Machine Learning Research 80, 5581-5590.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import xarray as xr

from measurebayes.checks.rows import Check
from measurebayes.inference.approximate import K_LIMIT

NAME = "approximation"
ATTRIBUTE = "approximation"


class Quality(NamedTuple):
    """What an engine says of its draws.

    Attributes
    ----------
    pareto_k
        Shape of the tail of the importance weights; NaN where the engine has none.
    text
        What that figure means, and what it does not.
    """

    pareto_k: float
    text: str


def is_approximate(fit: xr.DataTree) -> bool:
    """Whether the draws of a fit are independent ones of an approximation."""
    return ATTRIBUTE in fit.attrs


def quality_of(attrs: Mapping[Any, Any]) -> Quality:
    """Return what is kept with a fit of its approximation; nothing known where it is no such text.

    Parameters
    ----------
    attrs
        Attributes of the fit.
    """
    try:
        found = json.loads(str(attrs[ATTRIBUTE]))
        k = found["pareto_k"]
        return Quality(math.nan if k is None else float(k), str(found["text"]))
    except (KeyError, TypeError, ValueError):
        return Quality(math.nan, "The fit does not say what its draws are worth.")


def approximation_rows(fit: xr.DataTree) -> list[Check]:
    """Return the row that judges an approximation: it passes where Pareto k is below 0.7.

    Parameters
    ----------
    fit
        Of an engine that approximates.
    """
    k, text = quality_of(fit.attrs)
    text = text.rstrip(".") + "."
    method = str(fit.attrs.get("method", ""))
    if k < K_LIMIT:
        lead = f"Pareto k {k:.2f}, below {K_LIMIT}: the weights of the draws can be trusted."
    elif math.isnan(k):
        lead = "No importance weights judge these draws."
    else:
        lead = (
            f"Pareto k {k:.2f}, not below {K_LIMIT}: the draws may not be those of the posterior."
        )
    todo = "" if k < K_LIMIT else f' Use "{method}" for a first look, and fit with method="nuts".'
    return [Check(NAME, k < K_LIMIT, k, f"{lead} {text}{todo}")]


def doubt(fit: xr.DataTree) -> str:
    """Return what a fit whose draws can't be trusted is said to be."""
    return "is a poor approximation" if is_approximate(fit) else "has not converged"
