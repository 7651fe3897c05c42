"""Expected log predictive density of left-out cells, by Pareto-smoothed importance sampling.

References
----------
.. [1] Vehtari, Gelman, Gabry (2017). Practical Bayesian model evaluation using leave-one-out
   cross-validation and WAIC. Statistics and Computing 27. doi:10.1007/s11222-016-9696-4
.. [2] Vehtari, Simpson, Gelman, Yao, Gabry (2024). Pareto smoothed importance sampling. Journal of
   Machine Learning Research 25(72).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.backends.blocks import in_bytes
from measurebayes.compare.attempts import outcome_blocks, outcomes
from measurebayes.compare.inputs import check_number_of_attempts
from measurebayes.errors import InputError
from measurebayes.inference.results import check_fit

K_LIMIT = 0.7
FEWEST_DRAWS = 25  # a fifth of them make the tail, which takes five
UNITS = ("cell", "attempt", "task", "family", "agent")
# Ratios that differ by less than this (in logs) need no smoothing, and ties among them would leave
# the Pareto fit without a tail: a saturated task, or terms stored in single precision.
_FLAT = 1e-3
# Of single attempts: where success is nearly sure, ratios lie within a tenth of one another, and a
# mean of these is right whatever the shape of their tail.
_FLAT_ATTEMPTS = 0.1


def check_unit(unit: str) -> None:
    """Refuse unknown units.

    Raises
    ------
    InputError
    """
    if unit not in UNITS:
        raise InputError(
            f"the unit {unit!r} is unknown",
            where="unit",
            expected=f"one of {', '.join(UNITS)}",
            remedy="pass unit='cell'",
        )


def loo(
    fit: xr.DataTree,
    unit: str = "cell",
    memory: int | str | None = None,
    done: Callable[[float], None] | None = None,
) -> xr.Dataset:
    """Leave-one-out predictive density of a fit, by cell, attempt, task, family or agent.

    A cell is one agent at one task with all its attempts: the question answered is how well the
    model predicts an agent's successes at a task from the agent's other tasks and the task's
    other agents. An attempt is predicted from all others, those of its own cell among them. Of a
    task, a family or an agent it is how well the model predicts all successes of
    one that it has seen nothing of, but for its human times, families and release dates; there the
    likelihood is integrated over the unit's own parameters (`measurebayes.compare.integrated`). The
    binomial coefficient is included, so models of the same counts compare; a single attempt has
    none.

    Parameters
    ----------
    fit : xr.DataTree
        For cells its group ``log_likelihood`` is used where present; otherwise the log-likelihood
        is computed from ``posterior`` and ``data``, some cells at a time.
    unit : {"cell", "attempt", "task", "family", "agent"}
        What is left out.
    memory : int or str, optional
        What temporary arrays of draws by cells (by nodes of an integral) may take together, such as
        "2GiB"; 128 MiB by default. Changes no result.
    done : callable, optional
        Is told, now and then, the share of the integrals that was done since.

    Returns
    -------
    xr.Dataset
        Dim cell with coordinates agent and task (names), dim attempt with these and success, or dim
        task, family or agent with its names: ``elpd`` (log predictive density of the unit, higher
        is better), ``p`` (effective number of parameters), ``pareto_k``. attrs: elpd, se, p (sums
        over units and the standard error of the sum), unit, bad_k (number of units with Pareto k
        over 0.7), n_units, n_draws, r_eff, integral_error (largest change of a log likelihood by
        more nodes, root mean square over draws; 0 for cells and attempts).

    Raises
    ------
    InputError
        For no fit, an unknown unit, more attempts than can be taken one by one, a unit with
        parameters that can't be integrated out, too few draws, or a log-likelihood that is not
        finite; or for a memory that is no size.
    """
    from arviz_stats.base import array_stats

    budget = in_bytes(memory)
    check_unit(unit)
    check_fit(fit)
    if unit == "attempt":
        check_number_of_attempts(int(fit["data"].to_dataset()["attempts"].sum()), "loo")
    r_eff = relative_efficiency(fit["posterior"].to_dataset())
    error = 0.0
    draws = fit["posterior"].sizes["chain"] * fit["posterior"].sizes["draw"]
    if unit == "cell":
        blocks = log_likelihood_blocks(fit, budget)
    elif unit == "attempt":
        model, data = _model(fit), fit["data"].to_dataset()
        blocks = outcome_blocks(model, data, draws_of(fit, model), budget)
    else:
        whole, error = _integrated(fit, unit, budget, done)
        blocks, draws = iter([whole]), whole.shape[1]
    flat = _FLAT_ATTEMPTS if unit == "attempt" else _FLAT
    found = [_loo_block(array_stats, block, r_eff, flat) for block in blocks]
    elpd, k, p = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if unit == "attempt":
        _, _, number = outcomes(fit["data"].to_dataset())
        elpd, k, p = (np.repeat(x, number) for x in (elpd, k, p))
    result = xr.Dataset(
        {"elpd": (unit, elpd), "p": (unit, p), "pareto_k": (unit, k)},
        coords=_names(fit["data"].to_dataset(), unit),
    )
    result.attrs = {
        "elpd": float(elpd.sum()),
        "se": standard_error(elpd),
        "p": float(p.sum()),
        "unit": unit,
        "bad_k": int(bad_k(k).sum()),
        "n_units": len(elpd),
        "n_draws": draws,
        "r_eff": r_eff,
        "integral_error": error,
    }
    return result


def _integrated(
    fit: xr.DataTree, unit: str, budget: int, done: Callable[[float], None] | None
) -> tuple[np.ndarray, float]:
    from measurebayes.compare.integrated import unit_log_likelihood

    model, data = _model(fit), fit["data"].to_dataset()
    found = unit_log_likelihood(model, data, draws_of(fit, model), unit, budget, done=done)
    # 1 / likelihood is what is averaged here: its bias is taken off.
    return found.log_likelihood + np.log1p(found.noise), found.error


def _names(data: xr.Dataset, unit: str) -> dict[str, Any]:
    """Coordinates of the units that have cells."""
    if unit == "cell":
        return {
            name: ("cell", data[name].values[data[f"{name}_index"].values])
            for name in ("agent", "task")
        }
    if unit == "attempt":
        cell, success, number = outcomes(data)
        of_cell = _names(data.isel(cell=np.repeat(cell, number)), "cell")
        names = {name: ("attempt", values) for name, (_, values) in of_cell.items()}
        return names | {"success": ("attempt", np.repeat(success, number))}
    at = data["agent_index" if unit == "agent" else "task_index"].values
    present = np.unique(data["family_index"].values[at] if unit == "family" else at)
    return {unit: (unit, data[unit].values[present])}


def bad_k(k: np.ndarray) -> np.ndarray:
    """Cells whose term can't be trusted: Pareto k over 0.7, or not computable (NaN)."""
    return ~(k <= K_LIMIT)


def standard_error(pointwise: np.ndarray) -> float:
    """Return the standard error of a sum over cells taken as independent, shape (cell,).

    NaN for a single one, which has no spread to tell it from.
    """
    if len(pointwise) < 2:
        return float("nan")
    return float(np.sqrt(len(pointwise) * np.var(pointwise, ddof=1)))


def relative_efficiency(posterior: xr.Dataset) -> float:
    """Effective draws per draw, mean over the parameters; 1 for a single chain.

    It decides how many draws make the tail to which the Pareto distribution is fitted, as in ArviZ.
    """
    from arviz_stats.base import array_stats

    from measurebayes.checks.convergence import scalars

    if posterior.sizes["chain"] == 1:
        return 1.0
    _, draws = scalars(posterior)
    ess = array_stats.ess(draws, method="mean", chain_axis=1, draw_axis=2)
    return float(np.mean(ess) / (draws.shape[1] * draws.shape[2]))


def log_likelihood_blocks(fit: xr.DataTree, budget: int) -> Iterator[np.ndarray]:
    """Pointwise log-likelihood, shape (cell, draw), some cells at a time in their order."""
    posterior, data = fit["posterior"].to_dataset(), fit["data"].to_dataset()
    draws = posterior.sizes["chain"] * posterior.sizes["draw"]
    step = max(1, budget // (8 * 6 * draws))  # about six arrays live at once
    stored = fit["log_likelihood"]["successes"] if "log_likelihood" in fit.children else None
    model = None if stored is not None else _model(fit)
    if model is not None:
        posterior = draws_of(fit, model)
    for start in range(0, data.sizes["cell"], step):
        some = slice(start, start + step)
        if stored is not None:
            block = stored.isel(cell=some)
        else:
            block = _computed(model, data, posterior, some)
        yield block.transpose("cell", "chain", "draw").values.reshape(-1, draws).astype(float)


def draws_of(fit: xr.DataTree, model: Any) -> xr.Dataset:
    """Return the posterior as the model's text states it, before any rotation."""
    from measurebayes.inference.rotation import as_sampled

    return as_sampled(fit["posterior"].to_dataset(), model.rotated)


def _model(fit: xr.DataTree) -> Any:
    from measurebayes.inference.results import model_of

    return model_of(fit)


def _computed(model: Any, data: xr.Dataset, posterior: xr.Dataset, cells: slice) -> xr.DataArray:
    from measurebayes.backends import evaluate

    some = posterior.isel(cell=cells, missing_dims="ignore")
    values = {str(name): some[name] for name in some.data_vars}
    return evaluate.log_likelihood(model, data.isel(cell=cells), values)


def _loo_block(
    array_stats: Any, log_likelihood: np.ndarray, r_eff: float, even: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Elpd, Pareto k and effective number of parameters of each cell, from (cell, draw)."""
    if not np.isfinite(log_likelihood).all():
        raise InputError(
            f"{int((~np.isfinite(log_likelihood)).sum())} values of the log-likelihood are not "
            "finite",
            where="log_likelihood of the fit",
            expected="finite numbers",
            remedy="look at measurebayes.check(fit): the posterior itself is likely broken",
        )
    cells = len(log_likelihood)
    elpd, k, p = np.empty(cells), np.zeros(cells), np.zeros(cells)
    flat = (np.ptp(log_likelihood, axis=1) < even) | _tied(log_likelihood)
    elpd[flat] = -log_mean(-log_likelihood[flat])
    p[flat] = log_mean(log_likelihood[flat]) - elpd[flat]
    if not flat.all():
        if log_likelihood.shape[1] < FEWEST_DRAWS:
            raise InputError(
                f"{log_likelihood.shape[1]} draws",
                where="importance sampling of the fit",
                expected=f"at least {FEWEST_DRAWS}, whose largest weights can be smoothed",
                remedy="fit again with more draws",
            )
        # one "chain": PSIS treats all draws alike
        rest = log_likelihood[~flat][:, None, :]
        elpd[~flat], k[~flat], p[~flat] = array_stats.loo(rest, r_eff=r_eff)
    return elpd, k, p


def _tied(log_likelihood: np.ndarray) -> np.ndarray:
    """Tell of each row whether its smallest values, a tail's worth, are all the same."""
    tail = max(5, int(np.ceil(3.0 * log_likelihood.shape[1] ** 0.5)))
    if log_likelihood.shape[1] <= tail:
        return np.zeros(len(log_likelihood), dtype=bool)
    smallest = np.partition(log_likelihood, tail, axis=1)[:, :tail]
    return np.asarray(np.ptp(smallest, axis=1) == 0.0)


def log_mean(x: np.ndarray) -> np.ndarray:
    """Log of the mean over draws, the last axis, of what these are logs of."""
    from scipy.special import logsumexp

    return np.asarray(logsumexp(x, axis=-1) - np.log(x.shape[-1]))
