"""Abilities of new agents from the tasks of a fit.

For each posterior draw of the tasks and of the population, the posterior of one new agent's ability
is one-dimensional, so that it is drawn exactly, by the inverse of its distribution function on a
grid. The tasks' uncertainty is carried along; the new agents don't change what is believed of the
tasks (a cut posterior: Plummer 2015, doi:10.1007/s11222-014-9503-z).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.backends.blocks import in_bytes
from measurebayes.backends.evaluate import log_likelihood
from measurebayes.data import validate
from measurebayes.errors import InputError, did_you_mean
from measurebayes.inference.results import check_fit, model_of
from measurebayes.program.registry import ModelFile

COARSE, FINE = 61, 121  # points of the two grids
REACH = 8.0  # population standard deviations that the coarse grid covers on each side
LOST = 1e-9  # relative density beyond which the fine grid ends
USUAL = 256 * 2**20  # bytes
LIVE = 4  # arrays of draws by cells by points at once


def score(
    runs: xr.Dataset,
    fit: xr.DataTree,
    draws: int = 1000,
    seed: int = 0,
    memory: int | str | None = None,
) -> xr.Dataset:
    """Return the posterior of the abilities of agents that were not part of a fit.

    Parameters
    ----------
    runs
        Records of the new agents (one is enough) at tasks of the fit (one is enough).
    fit
        Fit of a model whose only agent parameter is ``ability``.
    draws
        Number of posterior draws to use, spread evenly over those of each chain.
    seed
        Makes the draws reproducible.
    memory
        What temporary arrays of draws by cells by points of a grid may take together, such as
        "2GiB" or "500MB"; 256 MiB by default. Changes no result.

    Returns
    -------
    xarray.Dataset
        ``ability`` (chain, draw, agent), in logits on the scale of the fit: 0 is the mean of the
        agents that were fitted. ArviZ functions work on it.

    Raises
    ------
    InputError
        `fit` is no fit, a task is not in it, or the model has other parameters of agents.
    """
    budget = in_bytes(memory, USUAL)
    check_fit(fit)
    validate(runs)
    runs = _attempted(runs)
    posterior = _thinned(fit["posterior"].to_dataset(), draws)
    model, rng = model_of(fit), np.random.default_rng(seed)
    _only_ability(posterior, model.label)
    _known_tasks(runs, posterior)
    fitted = posterior.sizes["agent"]
    tasks = posterior.drop_vars("ability").drop_dims("agent", errors="ignore")
    tasks = tasks.sel(task=runs["task"].values)
    # The fitted agents' abilities are deviations from their own mean, which is itself uncertain.
    spread = posterior["ability_sd"] * np.sqrt(1.0 + 1.0 / fitted)

    ability = np.empty((posterior.sizes["chain"], posterior.sizes["draw"], runs.sizes["agent"]))
    for number in range(runs.sizes["agent"]):
        own = _one_agent(runs, number)
        ability[..., number] = _draw(model, own, tasks, spread, rng, budget)
    coords = {n: posterior[n].values for n in ("chain", "draw")} | {"agent": runs["agent"].values}
    return xr.Dataset(
        {"ability": (("chain", "draw", "agent"), ability)},
        coords,
        attrs={"model": model.label, "unit": "logit", "seed": seed},
    )


def score_table(scores: xr.Dataset) -> pd.DataFrame:
    """Summarise the result of `score`: one row an agent, best first.

    Returns
    -------
    pandas.DataFrame
        Columns agent, mean, sd, and the 2.5, 50 and 97.5 % quantiles, in logits.
    """
    ability = scores["ability"].stack(sample=("chain", "draw"))
    low, middle, high = np.quantile(ability.values, [0.025, 0.5, 0.975], axis=-1)
    table = pd.DataFrame(
        {
            "agent": scores["agent"].values,
            "mean": ability.mean("sample").values,
            "sd": ability.std("sample").values,
            "q2.5": low,
            "q50": middle,
            "q97.5": high,
        }
    )
    return table.sort_values("mean", ascending=False, ignore_index=True)


def _attempted(runs: xr.Dataset) -> xr.Dataset:
    """Leave out agents without any attempt."""
    present = np.unique(runs["agent_index"].values)
    if len(present) == 0:
        raise InputError(
            "no attempts",
            where="the records to score",
            expected="at least one attempt of one agent",
            remedy="`measurebayes data FILE` shows what the file holds",
        )
    new = np.full(runs.sizes["agent"], -1)
    new[present] = np.arange(len(present))
    index = new[runs["agent_index"].values]
    return runs.isel(agent=present).assign(agent_index=("cell", index))


def _thinned(posterior: xr.Dataset, draws: int) -> xr.Dataset:
    each = max(1, draws // posterior.sizes["chain"])
    length = posterior.sizes["draw"]
    keep = np.unique(np.linspace(0, length - 1, min(each, length)).round().astype(int))
    return posterior.isel(draw=keep)


def _only_ability(posterior: xr.Dataset, model: str) -> None:
    others = [n for n, v in posterior.items() if "agent" in v.dims and n != "ability"]
    known = all(name in posterior for name in ("ability", "ability_sd", "task"))
    if others or not known:
        lacks = "no ability" if "ability" not in posterior else "nothing by task"
        raise InputError(
            f"model {model} has "
            + (f"{', '.join(map(str, others))} by agent" if others else lacks),
            where="the posterior of the fit",
            expected="a model of tasks whose only parameter of an agent is its ability",
            remedy="score with a fit of rasch or two_pl, or refit with the new agents",
        )


def _known_tasks(runs: xr.Dataset, posterior: xr.Dataset) -> None:
    known = set(posterior["task"].values.tolist())
    unknown = [t for t in runs["task"].values.tolist() if t not in known]
    if unknown:
        raise InputError(
            f"{len(unknown)} of {runs.sizes['task']} tasks are not in the fit, the first is "
            f"{unknown[0]!r}{did_you_mean(unknown[0], sorted(known))}",
            where="the records to score",
            expected="tasks that were fitted, by the same names",
            remedy="mb.subset(runs, task=[...]) keeps the tasks that the fit has",
        )


def _one_agent(runs: xr.Dataset, number: int) -> xr.Dataset:
    own = runs.isel(cell=runs["agent_index"].values == number, agent=[number])
    return own.assign(agent_index=("cell", np.zeros(own.sizes["cell"], dtype=np.int64)))


def _draw(
    model: ModelFile,
    own: xr.Dataset,
    tasks: xr.Dataset,
    spread: xr.DataArray,
    rng: np.random.Generator,
    budget: int,
) -> np.ndarray:
    """Draw one ability for each (chain, draw)."""
    widest = REACH * float(spread.max())
    every = max(1, tasks.sizes["draw"] // 25)
    coarse = np.linspace(-widest, widest, COARSE)
    rough = _log_posterior(
        model, own, tasks.isel(draw=slice(None, None, every)), spread[:, ::every], coarse, budget
    )
    likely = np.exp(rough - rough.max(-1, keepdims=True)).max((0, 1)) > LOST
    step = coarse[1] - coarse[0]
    fine = np.linspace(coarse[likely].min() - step, coarse[likely].max() + step, FINE)
    return _inverse(fine, _log_posterior(model, own, tasks, spread, fine, budget), rng)


def _log_posterior(
    model: ModelFile,
    own: xr.Dataset,
    tasks: xr.Dataset,
    spread: xr.DataArray,
    grid: np.ndarray,
    budget: int,
) -> np.ndarray:
    """Return the log density, up to a constant, of each draw at the grid (chain, draw, grid)."""
    ability = xr.DataArray(grid[:, None], dims=("grid", "agent"))
    chains, cells = tasks.sizes["chain"], own.sizes["cell"]
    step = max(1, budget // (8 * LIVE * chains * cells * len(grid)))
    pieces = []
    for start in range(0, tasks.sizes["draw"], step):
        block = tasks.isel(draw=slice(start, start + step))
        values = {str(n): v for n, v in block.items()} | {"ability": ability}
        terms = log_likelihood(model, own, values).sum("cell")
        pieces.append(terms.transpose("chain", "draw", "grid").values)
    prior = -0.5 * (grid / spread.transpose("chain", "draw").values[..., None]) ** 2
    return np.concatenate(pieces, axis=1) + prior


def _inverse(grid: np.ndarray, log_density: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw from densities on a grid, linear between its points."""
    density = np.exp(log_density - log_density.max(-1, keepdims=True))
    mass = (density[..., 1:] + density[..., :-1]) / 2.0
    cumulative = np.cumsum(mass, axis=-1)
    target = rng.uniform(size=density.shape[:-1]) * cumulative[..., -1]
    cell = np.minimum((cumulative < target[..., None]).sum(-1), mass.shape[-1] - 1)

    def at(values: np.ndarray, index: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, index[..., None], axis=-1)[..., 0]

    left, right = at(density, cell), at(density, cell + 1)
    rest = target - np.where(cell > 0, at(cumulative, np.maximum(cell - 1, 0)), 0.0)
    # Solve left u + (right - left) u^2 / 2 = rest for the share u of the cell, without cancelling.
    root = np.sqrt(np.maximum(left**2 + 2.0 * (right - left) * rest, 0.0))
    share = np.clip(2.0 * rest / np.maximum(left + root, np.finfo(float).tiny), 0.0, 1.0)
    return grid[cell] + share * (grid[1] - grid[0])
