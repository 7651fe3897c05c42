"""Replicated data from a posterior, a block of draws at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xarray as xr

from measurebayes.backends.blocks import USUAL
from measurebayes.errors import InputError, shown

LIVE = 8  # arrays of draws by cells at once, at most
REPLICATES = 400  # of a check, unless told otherwise
_STREAM = 20_250  # keeps these random numbers apart from others made from the same seed


def check_replicates(number: object, name: str = "replicates") -> None:
    """Refuse a number of replicates, or of resamples, that is none.

    Raises
    ------
    InputError
    """
    whole = hasattr(number, "__index__") and not isinstance(number, bool)
    if not whole or number < 1:  # type: ignore[operator]
        raise InputError(
            f"{name}={shown(number)}",
            where=name,
            expected="a whole number, 1 or more",
            remedy=f"leave {name} out to get its default",
        )


def posterior_replicates(
    fit: xr.DataTree, replicates: int, budget: int = USUAL
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Replicate the successes of a fit's data, from a draw of its posterior each.

    Parameters
    ----------
    fit : xr.DataTree
    replicates : int
        How many. Draws are taken at random, none twice before all were taken once. Which draws
        and which replicates follows from the fit's seed.
    budget : int
        Bytes that arrays of draws by cells may take together; changes no result.

    Yields
    ------
    tuple of np.ndarray
        Probability of success and replicated successes, each (draw, cell).
    """
    from scipy.special import expit

    from measurebayes.backends import evaluate
    from measurebayes.inference.results import model_of

    model, data = model_of(fit), fit["data"].to_dataset()
    for values, rng in chosen_draws(fit, replicates, budget):
        logits = evaluate.cell_logits(model, data, values).transpose("replicate", "cell")
        probability = expit(logits.values)
        yield probability, rng.binomial(data["attempts"].values, probability)


def chosen_draws(
    fit: xr.DataTree, replicates: int, budget: int = USUAL
) -> Iterator[tuple[dict[str, xr.DataArray], np.random.Generator]]:
    """Draws of a posterior at random, a block at a time, and the source of chance beside them.

    Parameters
    ----------
    fit, replicates, budget
        As for `posterior_replicates`.

    Yields
    ------
    tuple
        Variables of the posterior, their draws along ``replicate``; and the generator.
    """
    check_replicates(replicates)
    posterior, cells = fit["posterior"].to_dataset(), fit["data"].sizes["cell"]
    rng = np.random.default_rng([int(fit.attrs.get("seed", 0)), _STREAM])
    draws, available = posterior.sizes["draw"], posterior.sizes["chain"] * posterior.sizes["draw"]
    chosen = np.concatenate(
        [
            rng.choice(available, size=min(available, replicates - start), replace=False)
            for start in range(0, replicates, available)
        ]
    )
    step = max(1, budget // (8 * LIVE * cells))
    for start in range(0, replicates, step):
        at = chosen[start : start + step]
        values = posterior.isel(
            chain=xr.DataArray(at // draws, dims="replicate"),
            draw=xr.DataArray(at % draws, dims="replicate"),
        ).drop_vars(("chain", "draw"), errors="ignore")
        yield {str(name): values[name] for name in values.data_vars}, rng
