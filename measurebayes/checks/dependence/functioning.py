"""Differential functioning: tasks that are harder for one group of agents at equal ability.

References
----------
.. [1] Zwick (2012). A review of ETS differential item functioning assessment procedures. ETS
   Research Report RR-12-08. doi:10.1002/j.2333-8504.2012.tb02290.x
.. [2] McCullagh, Nelder (1989). Generalized Linear Models, section 4.5. Chapman and Hall.
   doi:10.1007/978-1-4899-3242-6
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit, ndtr

from measurebayes.backends.blocks import blocks_of_draws, in_bytes
from measurebayes.checks.dependence.design import Design, data_of
from measurebayes.checks.discrepancy import above, freeman_tukey, group_sums
from measurebayes.errors import InputError, listed

PRIOR_SD = 1.0  # logits, of a task's difference between groups and of its shift for both
DRAWS = 200
STEPS = 12  # Newton steps, which converge from 0 in half as many
SMALL, LARGE = 0.43, 0.64  # logits: 1 and 1.5 on the delta scale of 2.35 a logit
_LIVE = 6  # arrays of a block of draws by cells at once
_LARGEST = 30.0  # logits: at the edge the chance of a cell would round to 0 or 1


def differential_functioning(
    source: xr.DataTree | xr.Dataset,
    groups: Mapping[str, Sequence[str]] | Sequence[str],
    memory: int | str | None = None,
) -> pd.DataFrame:
    """Find tasks that are harder for one group of agents than for another at equal ability.

    At each posterior draw every task gets two shifts of its log odds, one for each group; abilities
    stay those of the draw, so that a group that is abler on the whole is not blamed. The difference
    of the two shifts has a normal prior of standard deviation 1 logit. Cells that scatter more than
    the model allows count less, by the ratio of their squared residuals to what the model expects
    [2]_. Differences are relative to the other tasks: they can't all be harder for one group.

    Parameters
    ----------
    source
        A fit, or a dataset of the schema. For a dataset, abilities are maximum likelihood estimates
        of a Rasch model and count as known.
    groups
        Two labels with the names of their agents each; or the names of the first group, all other
        agents being the second. Agents in neither group are left out.
    memory
        What temporary arrays of draws by cells may take together, such as "2GiB" or "500MB"; 128
        MiB by default. Changes no result.

    Returns
    -------
    pandas.DataFrame
        One row a task that both groups tried, the surest difference first: task, attempts and rate
        of each group (``attempts_<label>``, ``rate_<label>``), difference (logits; positive where
        the task is harder for the first group), sd, low, high (95 % interval), p_harder
        (probability that it is positive), size: "negligible", "moderate" or "large". Large is a
        difference of 0.64 logits or more that surely (95 %) exceeds 0.43; moderate one of 0.43 or
        more whose interval excludes 0 [1]_. For a fit the attribute ``p`` of the table is the
        posterior predictive p value of all tasks together.

    Raises
    ------
    InputError
        Groups are not two, share agents, or name agents that are not in the data; no task was
        tried by both; or `memory` is no size.
    """
    budget = in_bytes(memory)
    fit = source if isinstance(source, xr.DataTree) else None
    runs = data_of(source)
    names, side = _sides(runs, groups)
    design = Design.of(runs)
    cells = np.flatnonzero(side[design.agent] >= 0)
    cell = _Cells(design, cells, side[design.agent[cells]])
    both = cell.attempts_by.min(axis=0) > 0
    if not both.any():
        raise InputError(
            "no task was tried by both groups",
            where="groups",
            expected="tasks that agents of either group tried",
            remedy="put agents that share tasks into different groups",
        )
    log_odds = _log_odds(runs) if fit is None else _draws_of(fit, budget)
    shifts = [_shifts(cell, block[cells]) for block in log_odds]
    table = _table(runs, cell, names, shifts)[both]
    table = table.sort_values("_sure", ascending=False, kind="stable", ignore_index=True)
    result = table.drop(columns="_sure")
    result.attrs["p"] = float("nan") if fit is None else _together(fit, cell, cells, budget)
    return result


class _Cells:
    """The cells of the agents in either group, and sums over them by group and task."""

    def __init__(self, design: Design, cells: np.ndarray, side: np.ndarray) -> None:
        self.tasks = design.tasks
        self.attempts = design.attempts[cells]
        self.successes = design.successes[cells]
        self.place = side * design.tasks + design.task[cells]
        self.attempts_by, self.successes_by = self.by(self.attempts), self.by(self.successes)

    def by(self, per_cell: np.ndarray) -> np.ndarray:
        """Sum over the cells of each group and task (2, task)."""
        return np.bincount(self.place, per_cell, 2 * self.tasks).reshape(2, self.tasks)


def _sides(runs: xr.Dataset, groups: Any) -> tuple[list[str], np.ndarray]:
    """Names of the two groups, and 0, 1 or -1 (neither) for each agent."""
    agents = runs["agent"].values.tolist()
    if isinstance(groups, Mapping):
        names, members = [str(name) for name in groups], [_members(g) for g in groups.values()]
    else:
        names, members = ["first", "other"], [_members(groups)]
    if len(members) == 1 and not isinstance(groups, Mapping):
        members.append([agent for agent in agents if agent not in set(members[0])])
    if len(members) != 2 or not all(members):
        raise InputError(
            f"{len([m for m in members if m])} groups with agents",
            where="groups",
            expected="two labels with the names of their agents, or names of the first group",
            remedy='groups={"small": ["agent 1", "agent 2"], "large": ["agent 3"]}',
        )
    unknown = sorted({name for member in members for name in member} - set(agents))
    twice = sorted(set(members[0]) & set(members[1]))
    if unknown or twice:
        raise InputError(
            f"agents {listed(unknown)} are not in the data"
            if unknown
            else f"agents {listed(twice)} are in both groups",
            where="groups",
            expected="each agent in one group at most, named as in the data",
            remedy='runs["agent"].values lists the agents',
        )
    side = np.full(len(agents), -1)
    for number, member in enumerate(members):
        side[np.isin(agents, member)] = number
    return names, side


def _members(group: Any) -> list[str]:
    """Names of the agents of a group; one alone may be given as it is."""
    if isinstance(group, str):
        return [group]
    if not isinstance(group, Iterable):
        raise InputError(
            f"a group that is a {type(group).__name__}",
            where="groups",
            expected="names of agents",
            remedy='groups={"small": ["agent 1", "agent 2"], "large": ["agent 3"]}',
        )
    return list(map(str, group))


def _log_odds(runs: xr.Dataset) -> list[np.ndarray]:
    from measurebayes.classical.additive import rasch_ml

    return [np.clip(np.asarray(rasch_ml(runs).log_odds), -_LARGEST, _LARGEST)]


def _draws_of(fit: xr.DataTree, budget: int) -> Iterator[np.ndarray]:
    """Log odds of every cell at draws spread evenly over the chains, one draw after another."""
    from measurebayes.backends import evaluate
    from measurebayes.inference.results import model_of

    model, data, posterior = model_of(fit), fit["data"].to_dataset(), fit["posterior"].to_dataset()
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    kept = np.unique(np.linspace(0, draws - 1, max(1, min(draws, DRAWS // chains))).astype(int))
    few = posterior.isel(draw=kept)
    for block in blocks_of_draws(few, data.sizes["cell"], budget // _LIVE):
        values = {str(name): block[name] for name in block.data_vars}
        logits = evaluate.cell_logits(model, data, values).transpose("chain", "draw", "cell")
        flat = logits.values.reshape(-1, data.sizes["cell"])
        yield from np.clip(flat, -_LARGEST, _LARGEST)


def _shifts(cell: _Cells, log_odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mode and variance of each task's difference, first group less second, at one draw.

    With u of group 1 and v of group 2, log odds shift by u or v; (u + v) / 2 and u - v have normal
    priors. The mode is found by Newton steps of two unknowns a task.
    """
    precision = 1.0 / PRIOR_SD**2
    # precision of (u, v): both of the mean, halved twice, and of the difference
    same, cross = precision * 1.25, -precision * 0.75
    chance = expit(log_odds)
    variance = cell.attempts * chance * (1.0 - chance)
    residual = cell.successes - cell.attempts * chance
    scatter = max(1.0, float((residual**2).sum() / max(variance.sum(), 1e-300)))
    shift = np.zeros((2, cell.tasks))
    for _ in range(STEPS):
        chance = expit(log_odds + shift.ravel()[cell.place])
        slope = cell.by(cell.successes - cell.attempts * chance) / scatter
        slope -= same * shift + cross * shift[::-1]
        bend = cell.by(cell.attempts * chance * (1.0 - chance)) / scatter + same
        determinant = bend[0] * bend[1] - cross**2
        step = np.stack(
            [bend[1] * slope[0] - cross * slope[1], bend[0] * slope[1] - cross * slope[0]]
        )
        shift += np.clip(step / determinant, -2.0, 2.0)
    # harder for the first group: its shift is the lower one
    spread = (bend[0] + bend[1] + 2.0 * cross) / determinant
    return shift[1] - shift[0], spread


def _table(
    runs: xr.Dataset, cell: _Cells, names: list[str], shifts: list[tuple[np.ndarray, np.ndarray]]
) -> pd.DataFrame:
    modes, variances = (np.stack([s[i] for s in shifts]) for i in (0, 1))
    difference = modes.mean(axis=0)
    sd = np.sqrt(variances.mean(axis=0) + modes.var(axis=0))
    table = pd.DataFrame({"task": runs["task"].values.astype(object)})
    for number, name in enumerate(names):
        tried = cell.attempts_by[number]
        table[f"attempts_{name}"] = tried.astype(np.int64)
        table[f"rate_{name}"] = cell.successes_by[number] / np.where(tried > 0, tried, np.nan)
    table["difference"], table["sd"] = difference, sd
    table["low"], table["high"] = difference - 1.96 * sd, difference + 1.96 * sd
    table["p_harder"] = ndtr(difference / sd)
    beyond = ndtr((np.abs(difference) - SMALL) / sd) + ndtr((-np.abs(difference) - SMALL) / sd)
    table["size"] = np.select(
        [
            (np.abs(difference) >= LARGE) & (beyond >= 0.95),
            (np.abs(difference) >= SMALL) & (np.abs(difference) > 1.96 * sd),
        ],
        ["large", "moderate"],
        "negligible",
    ).astype(object)
    table["_sure"] = np.abs(difference) / sd
    return table


def _together(fit: xr.DataTree, cell: _Cells, cells: np.ndarray, budget: int) -> float:
    """Posterior predictive p value of the successes of all groups and tasks."""
    from measurebayes.checks.replicates import posterior_replicates

    draws = fit["posterior"].sizes["chain"] * fit["posterior"].sizes["draw"]
    groups = 2 * cell.tasks
    tried, solved = (group_sums(x, cell.place, groups) for x in (cell.attempts, cell.successes))
    observed, replicated = [], []
    for probability, again in posterior_replicates(fit, min(2 * DRAWS, draws), budget):
        expected = group_sums(probability[:, cells] * cell.attempts, cell.place, groups)
        observed.append(freeman_tukey(solved, expected, tried))
        other = group_sums(again[:, cells], cell.place, groups)
        replicated.append(freeman_tukey(other, expected, tried))
    return float(above(np.concatenate(observed), np.concatenate(replicated)))
