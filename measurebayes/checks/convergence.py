"""Has the sampler converged? R-hat, effective sample sizes, divergences, tree depth, E-BFMI.

Rules and their sources:

* R-hat: rank-normalised split R-hat below 1.01 for every parameter [1]_.
* Effective sample size (ESS), in the bulk and in the tails (5 % and 95 % quantiles): at least 100
  a chain and never under 400 in all, the size from which R-hat and Monte Carlo errors can be
  trusted [1]_.
* No divergent transition after warm-up [2]_.
* At most 1 % of the draws stopped by the largest tree depth: a matter of speed, not of bias [2]_.
* E-BFMI at least 0.3 in every chain [2]_.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021). Rank-normalization, folding, and
   localization: an improved R-hat. Bayesian Analysis 16(2). doi:10.1214/20-BA1221
.. [2] Betancourt (2017). A conceptual introduction to Hamiltonian Monte Carlo. arXiv:1701.02434
"""

from functools import partial
from itertools import product

import numpy as np
import xarray as xr

from measurebayes.checks.approximation import approximation_rows, is_approximate
from measurebayes.checks.rows import Check, not_judged
from measurebayes.inference.rotation import SAMPLED

RHAT_LIMIT = 1.01
ESS_PER_CHAIN = 100
ESS_LEAST = 400
TREE_DEPTH_SHARE = 0.01
EBFMI_LEAST = 0.3

_RHAT_SOURCE = "Vehtari et al. 2021, doi:10.1214/20-BA1221"
_LONGER = "run longer (draws=, tune=) or look at how this parameter is identified"


def ess_threshold(chains: int) -> int:
    """Smallest effective sample size that passes: 100 a chain, and at least 400 in all."""
    return max(ESS_LEAST, ESS_PER_CHAIN * chains)


def scalars(posterior: xr.Dataset) -> tuple[list[str], np.ndarray]:
    """Every scalar parameter of a posterior, named by its labels.

    Parameters
    ----------
    posterior : xr.Dataset
        Variables with dims (chain, draw, ...).

    Returns
    -------
    names : list of str
        ``ability_sd``, ``ability[agent]``, ``loading[task, dimension]``.
    draws : np.ndarray
        Shape (scalar, chain, draw), float64.
    """
    names: list[str] = []
    blocks = []
    for name, variable in posterior.data_vars.items():
        own = [d for d in variable.dims if d not in ("chain", "draw")]
        draws = variable.transpose(*own, "chain", "draw").values.astype(float)
        blocks.append(draws.reshape(-1, *draws.shape[-2:]))
        labels = product(*(posterior[d].values for d in own))
        names += [f"{name}[{', '.join(map(str, at))}]" if at else str(name) for at in labels]
    if not blocks:
        return [], np.empty((0, posterior.sizes["chain"], posterior.sizes["draw"]))
    return names, np.concatenate(blocks)


def comparable(posterior: xr.Dataset) -> xr.Dataset:
    """Leave out what belongs to dimensions before draws were rotated: axes of each chain's own."""
    own = [n for n, x in posterior.items() if any(str(d).startswith(SAMPLED) for d in x.dims)]
    return posterior.drop_vars(own)


def diagnostics(posterior: xr.Dataset) -> dict[str, dict[str, float]]:
    """R-hat, bulk ESS and tail ESS of every scalar parameter that moves.

    Parameters
    ----------
    posterior : xr.Dataset
        Variables with dims (chain, draw, ...).

    Returns
    -------
    dict
        Keys ``rhat``, ``ess_bulk``, ``ess_tail``: each maps a parameter's name to its value (NaN
        where a draw is not finite, or R-hat of a single chain). Constants are left out.
    """
    from arviz_stats.base import array_stats

    names, draws = scalars(posterior)
    moving = ~(draws == draws[:, :1, :1]).all(axis=(1, 2)) if names else np.empty(0, bool)
    kept = [name for name, moves in zip(names, moving, strict=True) if moves]
    draws = draws[moving]
    broken = ~np.isfinite(draws).all(axis=(1, 2))
    axes = {"chain_axis": 1, "draw_axis": 2}
    measures = {
        "rhat": partial(array_stats.rhat, method="rank", **axes),
        "ess_bulk": partial(array_stats.ess, method="bulk", **axes),
        "ess_tail": partial(array_stats.ess, method="tail", prob=(0.05, 0.95), **axes),
    }
    results = {}
    for key, measure in measures.items():
        values = np.full(len(kept), np.nan)
        enough = draws.shape[2] >= 4 and (key != "rhat" or draws.shape[1] >= 2)
        if enough and not broken.all():
            # a chain that never moves divides by a within-chain variance of zero
            with np.errstate(divide="ignore", invalid="ignore"):
                values[~broken] = measure(draws[~broken])
        results[key] = dict(zip(kept, values.tolist(), strict=True))
    return results


def convergence(fit: xr.DataTree) -> list[Check]:
    """Rows of R-hat, ESS, divergences, tree depth and E-BFMI of a fit.

    Parameters
    ----------
    fit : xr.DataTree
        With groups ``posterior`` and, where the sampler has them, ``sample_stats``.

    Returns
    -------
    list of Check
        Names rhat, ess_bulk, ess_tail, divergences, tree_depth, ebfmi; of an engine that
        approximates, the one row approximation.
    """
    if is_approximate(fit):
        return approximation_rows(fit)
    posterior = fit["posterior"].to_dataset()
    found = diagnostics(comparable(posterior))
    stats = fit["sample_stats"].to_dataset() if "sample_stats" in fit.children else xr.Dataset()
    chains = posterior.sizes["chain"]
    return [
        _rhat(found["rhat"], chains),
        _ess("ess_bulk", "bulk", found["ess_bulk"], chains),
        _ess("ess_tail", "tail", found["ess_tail"], chains),
        _divergences(stats),
        _tree_depth(stats, fit.attrs),
        _ebfmi(stats),
    ]


def failures(rows: list[Check]) -> list[Check]:
    """Failed rows that mean the draws can't be trusted; tree depth is only a matter of speed."""
    return [row for row in rows if not row.passed and row.name != "tree_depth"]


def _broken(name: str, values: dict[str, float]) -> Check | None:
    """Row that fails because nothing moved or a draw is not finite, else None."""
    if not values:
        text = "No parameter moved: every draw is the same. The sampler is stuck; fit again."
        return Check(name, False, float("nan"), text)
    bad = [parameter for parameter, value in values.items() if np.isnan(value)]
    if bad:
        text = (
            f"{len(bad)} parameters can't be judged, first {bad[0]}: too few draws, or draws that "
            "are not finite. Check the data and the priors, and fit again."
        )
        return Check(name, False, float("nan"), text)
    return None


def _rhat(values: dict[str, float], chains: int) -> Check:
    if chains < 2 and values:
        text = (
            "One chain: R-hat compares chains and can't be judged. "
            "Fit again with chains=4 (at least 2)."
        )
        return Check("rhat", False, float("nan"), text)
    broken = _broken("rhat", values)
    if broken:
        return broken
    worst = max(values, key=values.__getitem__)
    value = values[worst]
    over = sum(v >= RHAT_LIMIT for v in values.values())
    if over == 0:
        text = (
            f"Largest R-hat {value:.4f} ({worst}) of {len(values)} parameters; "
            f"all are below {RHAT_LIMIT} ({_RHAT_SOURCE})."
        )
    else:
        text = (
            f"The chains disagree: R-hat is {value:.4g} for {worst} and at least {RHAT_LIMIT} for "
            f"{over} of {len(values)} parameters ({_RHAT_SOURCE}); {_LONGER}."
        )
    return Check("rhat", over == 0, value, text)


def _ess(name: str, kind: str, values: dict[str, float], chains: int) -> Check:
    broken = _broken(name, values)
    if broken:
        return broken
    least = ess_threshold(chains)
    worst = min(values, key=values.__getitem__)
    value = values[worst]
    under = sum(v < least for v in values.values())
    rule = f"{least} (100 a chain, at least 400 in all; {_RHAT_SOURCE})"
    if under == 0:
        text = f"Smallest {kind} effective sample size {value:.0f} ({worst}); at least {rule}."
    else:
        text = (
            f"The {kind} effective sample size of {worst} is {value:.0f}, and {under} of "
            f"{len(values)} parameters are under {rule}; {_LONGER}."
        )
    return Check(name, under == 0, value, text)


def _divergences(stats: xr.Dataset) -> Check:
    if "diverging" not in stats:
        return not_judged("divergences", "this sampler reports no divergences.")
    diverging = stats["diverging"].values.astype(bool)
    count = int(diverging.sum())
    if count == 0:
        text = f"No divergent transition among {diverging.size} draws."
    else:
        text = (
            f"{count} of {diverging.size} draws diverged: part of the posterior may not have been "
            "reached. A longer warm-up (tune=2000) or narrower priors on the standard deviations "
            "may help."
        )
    return Check("divergences", count == 0, float(count), text)


def _reached(stats: xr.Dataset, attrs: dict) -> np.ndarray | None:
    """Which draws stopped at the largest tree depth; None where it isn't known."""
    if "reached_max_tree_depth" in stats:
        return stats["reached_max_tree_depth"].values.astype(bool)
    if "tree_depth" not in stats:
        return None
    for holder in (stats["tree_depth"].attrs, stats.attrs, attrs):
        if "max_tree_depth" in holder:
            return stats["tree_depth"].values >= int(holder["max_tree_depth"])
    return None


def _tree_depth(stats: xr.Dataset, attrs: dict) -> Check:
    reached = _reached(stats, attrs)
    if reached is None:
        return not_judged("tree_depth", "this sampler reports no tree depth or no largest depth.")
    share = float(reached.mean())
    passed = share <= TREE_DEPTH_SHARE
    text = f"{100 * share:.1f} % of the draws reached the largest tree depth (at most 1 % is fine)."
    if not passed:
        text += (
            " The draws are not biased by it but slow and correlated; a longer warm-up (tune=2000) "
            "may help."
        )
    return Check("tree_depth", passed, share, text)


def _ebfmi(stats: xr.Dataset) -> Check:
    from arviz_stats.base import array_stats

    if "energy" not in stats:
        return not_judged("ebfmi", "this sampler reports no energy.")
    energy = stats["energy"].transpose("chain", "draw").values.astype(float)
    moves = energy.shape[1] >= 2 and bool((np.ptp(energy, axis=1) > 0).all())
    if not (moves and np.isfinite(energy).all()):
        return not_judged("ebfmi", "the energies are constant or not finite.")
    values = np.atleast_1d(array_stats.bfmi(energy, chain_axis=0, draw_axis=1))
    worst = int(np.argmin(values))
    value = float(values[worst])
    passed = value >= EBFMI_LEAST
    if passed:
        text = f"Smallest E-BFMI {value:.2f} (chain {worst}); at least {EBFMI_LEAST}."
    else:
        text = (
            f"E-BFMI of chain {worst} is {value:.2f}, under {EBFMI_LEAST}: the sampler can't move "
            "between levels of energy, often a standard deviation near zero. Run longer, or "
            "use priors that keep the standard deviations off zero."
        )
    return Check("ebfmi", passed, value, text)
