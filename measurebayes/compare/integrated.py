"""Likelihood of whole tasks, families or agents, with their own parameters integrated out.

Leaving out a task means leaving out what its successes told of its difficulty. So the density of a
task's successes, given a draw of everything else, is the mean over the task's own parameters as the
model draws them anew:

    p(y_j | draw) = integral of p(y_j | own parameters, draw) p(own parameters | draw)

Own parameters are written as standard normal numbers z through their distribution functions, and
the integral is a Gauss-Hermite rule around the posterior of z, with its covariance, so that few
nodes suffice. Records of human time of a task are not left out with it: its length is drawn given
them. Families are nested: tasks within a family are independent given its own parameters.

References
----------
.. [1] Merkle, E. C., Furr, D., & Rabe-Hesketh, S. (2019). Bayesian comparison of latent variable
   models: conditional versus marginal likelihoods. Psychometrika, 84, 802-829.
   doi:10.1007/s11336-019-09679-0
.. [2] Naylor, J. C., & Smith, A. F. M. (1982). Applications of a method for the efficient
   computation of posterior distributions. Applied Statistics, 31, 214-225. doi:10.2307/2347995
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats
from scipy.special import logsumexp, ndtr, ndtri

from measurebayes.backends.evaluate import EvaluateProgram, binomial_density
from measurebayes.errors import InputError, listed
from measurebayes.program.labelled import Labelled
from measurebayes.program.records_first import RecordsFirst
from measurebayes.program.registry import ModelFile

DRAWS = 500  # at most: the integrals of a draw take many evaluations of the model
NODES = {1: 61, 2: 17, 3: 9}  # per parameter, by the number of a unit's own parameters
FINER = {1: 91, 2: 27, 3: 13}
NESTED, FINER_NESTED = {1: 15, 2: 9}, {1: 23, 2: 13}  # where families have parameters too
CHECKED = 20  # draws at which the integrals are done again with more nodes
WIDER = 1.25  # than the posterior of z, since that has seen the successes
EDGE = 1e-15
#: Axes of a unit's own parameters, outermost first.
LEVELS = {"task": ("task",), "agent": ("agent",), "family": ("family", "task")}

Draws = Mapping[str, xr.DataArray]


@dataclass(frozen=True)
class Rule:
    """Nodes and log weights of an integral over standard normal numbers of one level of units.

    Attributes
    ----------
    names
        Own parameters.
    z
        (node, parameter, unit).
    log_weight
        (node, unit).
    """

    names: list[str]
    z: np.ndarray
    log_weight: np.ndarray


class OwnParameters(RecordsFirst, EvaluateProgram):
    """Evaluates a text with the own parameters of some axes given as standard normal numbers.

    Parameters
    ----------
    data, values
        As for `EvaluateProgram`.
    axes
        Axes whose parameters are own ones.
    numbers
        Name -> z with a batch axis of nodes; without, z of the given values is kept in `found`.
    """

    def __init__(
        self,
        data: xr.Dataset,
        values: Draws,
        axes: tuple[str, ...],
        numbers: Mapping[str, Labelled] | None = None,
    ) -> None:
        super().__init__(data, values)
        self.own, self.numbers = axes, numbers
        self.found: dict[str, Labelled] = {}

    def sample(self, name: str, family: str, parameters: tuple[Any, ...], dims: tuple) -> Labelled:
        """Return the value, given or made of z."""
        given = super().sample(name, family, parameters, dims)
        if not set(dims) & set(self.own):
            return given
        if len(dims) > 1 or family not in _TO_NORMAL:
            raise _no_rule(name, family, dims)
        batch = self.batch_dims(tuple(self._stated), dims)
        if self.numbers is None:
            value = given.value
            self.found[name] = Labelled(_TO_NORMAL[family](value, *parameters), given.dims)
            return given
        z = self.numbers[name]
        order = (*dict.fromkeys((*batch, *z.dims[:-1])), *dims)
        aligned = [_aligned(p, (*batch, *dims), order) for p in parameters]
        value = _FROM_NORMAL[family](_aligned(z.value, z.dims, order), *aligned)
        return Labelled(value, order, name)

    def note(self, name: str, family: str, parameters: tuple, dims: tuple[str, ...]) -> None:
        """Keep the parameters as stated, whose axes tell how those of `sample` are aligned."""
        self._stated = parameters

    def observe_times(self, kind: str, location: Any, scale: Any) -> None:
        """Refuse bounds, which have no place among the normal records."""
        raise InputError(
            "timed attempts that failed are part of the model",
            where="comparison by whole units",
            expected="failed='drop': a bound on a human time is not a normal record",
            remedy="fit without failed='censored', or compare by unit='cell'",
        )


def _aligned(value: Any, dims: tuple[str, ...], order: tuple[str, ...]) -> np.ndarray:
    """Give an array (dims) the axes `order`, absent ones of length 1."""
    value = np.asarray(value, dtype=float)
    if value.ndim == 0:
        return value
    at = [dims.index(d) for d in order if d in dims]
    value = value.transpose(at)
    return value[tuple(slice(None) if d in dims else None for d in order)]


def _no_rule(name: str, family: str, dims: tuple) -> InputError:
    return InputError(
        f"the variable {name!r} ({family}, {' x '.join(dims)}) can't be integrated out",
        where="comparison by whole units",
        expected="own parameters of the unit along one axis, with a distribution of their own; "
        "deviations that sum to zero have none",
        remedy="compare by unit='cell', or by another unit",
    )


_TO_NORMAL: dict[str, Any] = {
    "normal": lambda x, mean, sd: (x - mean) / sd,
    "log_normal": lambda x, mean, sd: (np.log(x) - mean) / sd,
    "half_normal": lambda x, sd: _z(stats.halfnorm.cdf(x, scale=sd)),
    "exponential": lambda x, scale: _z(stats.expon.cdf(x, scale=scale)),
    "beta": lambda x, a, b: _z(stats.beta.cdf(x, a, b)),
}
_FROM_NORMAL: dict[str, Any] = {
    "normal": lambda z, mean, sd: mean + sd * z,
    "log_normal": lambda z, mean, sd: np.exp(mean + sd * z),
    "half_normal": lambda z, sd: stats.halfnorm.ppf(_p(z), scale=sd),
    "exponential": lambda z, scale: stats.expon.ppf(_p(z), scale=scale),
    "beta": lambda z, a, b: stats.beta.ppf(_p(z), a, b),
}


def _z(p: Any) -> Any:
    return ndtri(np.clip(p, EDGE, 1.0 - EDGE))


def _p(z: Any) -> Any:
    return np.clip(ndtr(z), EDGE, 1.0 - EDGE)


def unit_log_likelihood(
    model: ModelFile, runs: xr.Dataset, posterior: xr.Dataset, unit: str, budget: int
) -> tuple[np.ndarray, float]:
    """Log likelihood of every unit at draws of the posterior, own parameters integrated out.

    Parameters
    ----------
    model
        The model of the fit, with its options and priors.
    runs
        The data.
    posterior
        (chain, draw, ...); thinned to at most `DRAWS` draws.
    unit
        ``"task"``, ``"family"`` or ``"agent"``.
    budget
        Bytes that an array of draws x nodes x cells may take; changes no result.

    Returns
    -------
    tuple
        Array (unit, draw), units without cells left out; and the largest difference that more
        nodes make to a unit, on average over some draws.

    Raises
    ------
    InputError
        The model has an own parameter that can't be integrated out.
    """
    coarse, fine = (rules(model, runs, posterior, unit, finer) for finer in (False, True))
    drawn = thinned(posterior, DRAWS)
    found = at_draws(model, runs, drawn, unit, coarse, budget)
    some = np.linspace(0, drawn.sizes["sample"] - 1, CHECKED).round().astype(int)
    again = at_draws(model, runs, drawn.isel(sample=some), unit, fine, budget)
    return found, float(np.abs((found[:, some] - again).mean(axis=1)).max())


def rules(
    model: ModelFile,
    runs: xr.Dataset,
    posterior: xr.Dataset,
    unit: str,
    finer: bool = False,
) -> dict[str, Rule]:
    """Rule of each level of a unit, around the posterior of its own parameters."""
    drawn = thinned(posterior, DRAWS)
    values = {str(name): drawn[name] for name in drawn.data_vars}
    numbers = _numbers(model, runs, values, LEVELS[unit])
    nested = all(numbers.values()) and len(numbers) > 1
    coarse, fine = (NESTED, FINER_NESTED) if nested else (NODES, FINER)
    nodes = fine if finer else coarse
    return {level: _rule(numbers[level], runs.sizes[level], nodes) for level in LEVELS[unit]}


def at_draws(
    model: ModelFile,
    runs: xr.Dataset,
    drawn: xr.Dataset,
    unit: str,
    given: Mapping[str, Rule],
    budget: int,
) -> np.ndarray:
    """Log likelihood (unit, sample) of the units that have cells, by given rules."""
    levels = LEVELS[unit]
    values = {str(name): drawn[name] for name in drawn.data_vars}
    outer, inner, axis = given[levels[0]], given[levels[-1]], levels[-1]
    at = runs["agent_index" if axis == "agent" else "task_index"].values
    order = np.argsort(at, kind="stable")
    present, starts = np.unique(at[order], return_index=True)
    parts = []
    for some in _blocks(values, inner, runs.sizes["cell"], budget):
        by_outer = []
        for node in range(len(outer.log_weight) if len(levels) > 1 else 1):
            fixed = _fixed(outer, node, levels[0]) if len(levels) > 1 else {}
            terms = _cell_terms(model, runs, some, levels, inner, fixed)
            summed = np.add.reduceat(terms[..., order], starts, axis=-1)
            by_outer.append(logsumexp(summed + inner.log_weight[:, present], axis=-2))
        parts.append(_joined(by_outer, outer, runs, present) if len(levels) > 1 else by_outer[0])
    return np.concatenate(parts).T


def thinned(posterior: xr.Dataset, most: int) -> xr.Dataset:
    """Stack chains and draws to `sample`, and keep at most so many, evenly spaced."""
    step = -(-posterior.sizes["chain"] * posterior.sizes["draw"] // most)
    kept = posterior.isel(draw=slice(None, None, step))
    stacked = kept.stack(sample=("chain", "draw"), create_index=False)
    return stacked.drop_vars(["chain", "draw"], errors="ignore").transpose("sample", ...)


def _numbers(
    model: ModelFile, runs: xr.Dataset, values: Draws, axes: tuple[str, ...]
) -> dict[str, dict[str, np.ndarray]]:
    """Z of the own parameters at all draws: axis -> name -> (sample, unit)."""
    program = OwnParameters(runs, values, axes)
    model.run(program, runs, model.priors)
    found: dict[str, dict[str, np.ndarray]] = {axis: {} for axis in axes}
    samples = next(iter(values.values())).sizes["sample"]
    for name, z in program.found.items():
        axis = z.dims[-1]
        found[axis][name] = np.broadcast_to(z.value, (samples, runs.sizes[axis]))
    return found


def _rule(numbers: Mapping[str, np.ndarray], size: int, nodes: Mapping[int, int]) -> Rule:
    """Gauss-Hermite rule around the posterior of z of each unit."""
    names, count = list(numbers), len(numbers)
    if not count:
        return Rule([], np.zeros((1, 0, size)), np.zeros((1, size)))
    if count not in nodes:
        raise InputError(
            f"each unit has {count} parameters of its own: {listed(names)}",
            where="comparison by whole units",
            expected=f"at most {max(nodes)}",
            remedy="compare by unit='cell', or by another unit",
        )
    z = np.stack([numbers[name] for name in names])  # (parameter, sample, unit)
    middle = z.mean(axis=1)
    away = z - middle[:, None]
    covariance = np.einsum("psu,qsu->upq", away, away) / z.shape[1] * WIDER**2
    covariance += 1e-6 * np.eye(count)
    root = np.linalg.cholesky(covariance)  # (unit, parameter, parameter)
    points, weights = np.polynomial.hermite_e.hermegauss(nodes[count])
    grid = np.array(list(product(points, repeat=count)))  # (node, parameter)
    log_grid = np.log(np.array(list(product(weights, repeat=count)))).sum(axis=1)
    moved = middle[None] + np.einsum("upq,nq->npu", root, grid)
    log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    log_weight = (
        log_grid[:, None]
        + 0.5 * np.sum(grid**2, axis=1)[:, None]
        - 0.5 * np.sum(moved**2, axis=1)
        + log_det
        - 0.5 * count * np.log(2.0 * np.pi)
    )
    return Rule(names, moved, log_weight)


def _blocks(values: Draws, rule: Rule, cells: int, budget: int) -> Iterator[Draws]:
    samples = next(iter(values.values())).sizes["sample"]
    step = max(1, budget // (4 * 8 * cells * len(rule.log_weight)))
    for start in range(0, samples, step):
        yield {name: x.isel(sample=slice(start, start + step)) for name, x in values.items()}


def _fixed(rule: Rule, node: int, axis: str) -> dict[str, Labelled]:
    return {name: Labelled(rule.z[node, i], (axis,)) for i, name in enumerate(rule.names)}


def _cell_terms(
    model: ModelFile,
    runs: xr.Dataset,
    values: Draws,
    axes: tuple[str, ...],
    rule: Rule,
    fixed: Mapping[str, Labelled],
) -> np.ndarray:
    """Log density of every cell (sample, node, cell); the rule is of the last axis."""
    own = {name: Labelled(rule.z[:, i], ("node", axes[-1])) for i, name in enumerate(rule.names)}
    numbers = {**own, **fixed}
    program = OwnParameters(runs, values, axes, numbers)
    model.run(program, runs, model.priors)
    eta = program.log_odds
    assert eta is not None
    shape = (next(iter(values.values())).sizes["sample"], len(rule.log_weight), runs.sizes["cell"])
    full = np.broadcast_to(_aligned(eta.value, eta.dims, ("sample", "node", "cell")), shape)
    return binomial_density(full, runs)


def _joined(
    by_outer: list[np.ndarray], outer: Rule, runs: xr.Dataset, present: np.ndarray
) -> np.ndarray:
    """Sum tasks by family at each node of the families, then integrate over families."""
    family = runs["family_index"].values[present]
    order = np.argsort(family, kind="stable")
    there, starts = np.unique(family[order], return_index=True)
    totals = [np.add.reduceat(x[:, order], starts, axis=-1) for x in by_outer]
    return logsumexp(np.stack(totals) + outer.log_weight[:, None, there], axis=0)
