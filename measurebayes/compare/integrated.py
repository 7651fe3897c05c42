"""Likelihood of whole tasks, families or agents, with their own parameters integrated out.

Leaving out a task means leaving out what its successes told of its difficulty. So the density of a
task's successes, given a draw of everything else, is the mean over the task's own parameters as the
model draws them anew:

    p(y_j | draw) = integral of p(y_j | own parameters, draw) p(own parameters | draw)

Own parameters are written as standard normal numbers (`measurebayes.compare.own`), and integrated
around their mode, with the curvature there, at each draw (`measurebayes.compare.laplace`): on a
grid where there are one or two, else at quasi-random points (`measurebayes.compare.nodes`). Numbers
of a unit that fall into blocks, independent given the others, are integrated out block by block, at
every node of the others: the tasks of a family whose own effect they share, or the effects of an
agent in families given its ability. Where effects of agents and parameters of tasks cross within a
family they make one block, given the family's own scale; where the family has one task, agents are
blocks given its parameters. A task that is alone in its family takes
the family's parameters with it. Records of human time of a task are not left out with it: its
length is drawn given them.

References
----------
.. [1] Merkle, E. C., Furr, D., & Rabe-Hesketh, S. (2019). Bayesian comparison of latent variable
   models: conditional versus marginal likelihoods. Psychometrika, 84, 802-829.
   doi:10.1007/s11336-019-09679-0
.. [2] Naylor, J. C., & Smith, A. F. M. (1982). Applications of a method for the efficient
   computation of posterior distributions. Applied Statistics, 31, 214-225. doi:10.2307/2347995
.. [3] Rabe-Hesketh, S., Skrondal, A., & Pickles, A. (2005). Maximum likelihood estimation of
   limited and discrete dependent variable models with nested random effects. Journal of
   Econometrics, 128, 301-323. doi:10.1016/j.jeconom.2004.08.017
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import xarray as xr

from measurebayes.backends.evaluate import log_likelihood
from measurebayes.compare.around_mode import starts
from measurebayes.compare.integrals import COARSE, FINE, Done, Fineness, Integral, draws_in_blocks
from measurebayes.compare.own import Draws, OwnParameters
from measurebayes.compare.places import inner_axis, places, positions_by_axis
from measurebayes.program.registry import ModelFile

DRAWS = 500  # at most: the integrals of a draw take many evaluations of the model
CROSSED = 200  # at most, where all parameters of a unit depend on one another
FINER = FINE.points // COARSE.points  # times as many nodes, and about as much work
CHECKED = 20  # draws at which the integrals are done again with more nodes


class Integrated(NamedTuple):
    """Integrated likelihoods.

    Attributes
    ----------
    log_likelihood
        (unit, draw), of units that have cells, in the order of the data.
    noise
        Squared relative error of the likelihoods (unit, draw): their own is unbiased, while that of
        1 / likelihood is too large by this part.
    error
        Largest difference that more nodes make to a unit, root mean square over some draws.
    """

    log_likelihood: np.ndarray
    noise: np.ndarray
    error: float


@dataclass(frozen=True)
class _Part:
    """Some of the cells, whose units are integrated over in one way."""

    unit: str
    inner: str | None
    cells: np.ndarray


def unit_log_likelihood(
    model: ModelFile,
    runs: xr.Dataset,
    posterior: xr.Dataset,
    unit: str,
    budget: int,
    left: np.ndarray | None = None,
    done: Callable[[float], None] | None = None,
) -> Integrated:
    """Log likelihood of every unit at draws of the posterior, own parameters integrated out.

    Parameters
    ----------
    model
        The model of the fit, with its options and priors.
    runs
        The data.
    posterior
        (chain, draw, ...); thinned to at most `DRAWS` draws, or `CROSSED`.
    unit
        ``"task"``, ``"family"`` or ``"agent"``.
    budget
        Bytes that an array of draws x nodes x cells may take; changes no result.
    left
        Whether each cell (cell,) is among those whose density is asked for; by default all.
    done
        Is told, now and then, the share of the work that was done since.

    Returns
    -------
    Integrated
        Units without such cells are left out.

    Raises
    ------
    InputError
        The model has an own parameter that can't be integrated out.
    """
    left = np.ones(runs.sizes["cell"], dtype=bool) if left is None else left
    where = positions_by_axis(runs)
    present = np.unique(where[unit][left])
    ways = list(_parts(model, runs, thinned(posterior, 1).isel(sample=[0]), unit, left))
    drawn = thinned(posterior, CROSSED if any(x.inner == x.unit for x in ways) else DRAWS)
    found = np.empty((2, len(present), drawn.sizes["sample"]))
    error = 0.0
    some = np.unique(np.linspace(0, drawn.sizes["sample"] - 1, CHECKED).round().astype(int))
    work = sum(part.cells.sum() for part in ways) * (drawn.sizes["sample"] + FINER * len(some))
    for part in ways:

        def tell(draws: int, each: float = part.cells.sum() / work) -> None:
            if done is not None:
                done(draws * each)

        def tell_finer(draws: int, tell: Done = tell) -> None:
            tell(FINER * draws)

        _, first = np.unique(where[part.unit][part.cells], return_index=True)
        rows = np.searchsorted(present, where[unit][part.cells][first])
        here = runs.isel(cell=part.cells)
        found[:, rows] = _integrals(model, here, drawn, part, COARSE, budget, tell)
        again = _integrals(model, here, drawn.isel(sample=some), part, FINE, budget, tell_finer)
        away = found[0, rows][:, some] - again[0]
        error = max(error, float(np.sqrt((away**2).mean(axis=1)).max()))
    return Integrated(found[0], found[1], error)


def thinned(posterior: xr.Dataset, most: int) -> xr.Dataset:
    """Stack chains and draws to `sample`, and keep at most so many, evenly spaced."""
    step = -(-posterior.sizes["chain"] * posterior.sizes["draw"] // most)
    kept = posterior.isel(draw=slice(None, None, step))
    stacked = kept.stack(sample=("chain", "draw"), create_index=False)
    return stacked.drop_vars(["chain", "draw"], errors="ignore").transpose("sample", ...)


def _values(drawn: xr.Dataset) -> Draws:
    return {str(name): drawn[name] for name in drawn.data_vars}


def _parts(
    model: ModelFile, runs: xr.Dataset, drawn: xr.Dataset, unit: str, left: np.ndarray
) -> Iterator[_Part]:
    """Say how the units of which cells are integrated over."""
    where = positions_by_axis(runs)
    program = OwnParameters(runs, _values(drawn), unit)
    model.run(program, runs, model.priors)
    if unit == "task" and any("family" in dims for dims in program.shared.values()):
        alone = _count_tasks(where, np.ones_like(left), runs.sizes["family"]) == 1
        if (left & alone).any():
            yield from _parts(model, runs, drawn, "family", left & alone)
        left = left & ~alone
    axis = inner_axis(program.own, unit)
    if axis == unit == "family":  # given the parameters of a single task, agents are independent
        few = _count_tasks(where, left, runs.sizes["family"]) == 1
        if few.any():
            yield _Part(unit, "agent", left & few)
        left = left & ~few
    if left.any():
        yield _Part(unit, axis, left)


def _count_tasks(where: dict[str, np.ndarray], some: np.ndarray, families: int) -> np.ndarray:
    """Count the tasks of each cell's family (cell,) among some of the cells; 0 for the others."""
    pairs = np.unique(np.stack([where["family"][some], where["task"][some]]), axis=1)
    return np.where(some, np.bincount(pairs[0], minlength=families)[where["family"]], 0)


def _integrals(
    model: ModelFile,
    runs: xr.Dataset,
    drawn: xr.Dataset,
    part: _Part,
    fineness: Fineness,
    budget: int,
    done: Done,
) -> np.ndarray:
    """Log likelihood and noise (2, unit, sample) of the units of these cells."""
    values = _values(drawn)
    first = {name: x.isel(sample=slice(1)) for name, x in values.items()}
    where = places(model, runs, first, part.unit, part.inner)
    order = np.lexsort((where.block_of_cell, where.unit_of_cell))
    runs = runs.isel(cell=order)
    where = places(model, runs, first, part.unit, part.inner)
    whole = where.unit_of_cell
    if where.blocks and not where.outer:  # blocks are the units, and a unit their sum
        where = replace(where.within_blocks(), index=where.index, dims=where.dims)
    if not where.count:  # nothing is the units' own
        return _as_drawn(model, runs, values, whole)
    integral = Integral(model, runs, part.unit, where, fineness)
    parts = []
    for start, some in draws_in_blocks(values, integral.bytes_of_a_draw(), budget):
        found = integral.at(some, start, budget, done)
        if where.units != whole[-1] + 1:
            of_block = whole[starts(where.unit_of_cell)]
            found = np.add.reduceat(found, starts(of_block), axis=-1)
        parts.append(found)
    return np.concatenate(parts, axis=1).transpose(0, 2, 1)


def _as_drawn(model: ModelFile, runs: xr.Dataset, values: Draws, unit: np.ndarray) -> np.ndarray:
    terms = log_likelihood(model, runs, values).transpose("cell", "sample").values
    total = np.add.reduceat(terms, starts(unit), axis=0)
    return np.stack([total, np.zeros_like(total)])
