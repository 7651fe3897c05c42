"""Paired comparison of agents: how probably one is abler than the other, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.errors import InputError, check_level, did_you_mean, shown
from measurebayes.inference.results import check_fit

VARIABLES = ("ability", "log2_horizon")  # what agents are compared by, the first that a fit has


def agent_pairs(
    fit: xr.DataTree,
    variable: str | None = None,
    level: float = 0.95,
    agents: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Compare every two agents by a variable of the posterior.

    Draws of both agents are taken together, so that what they share, such as the level of all
    tasks, cancels. How wide the intervals are follows from the model: a testlet model counts an
    agent's successes at tasks of one family as fewer than so many independent ones, while a Rasch
    model of the same data is surer than it may be.

    Parameters
    ----------
    fit
        Fit of a model with a value of each agent.
    variable
        Its name; ability, or else log2_horizon, where left out.
    level
        Probability of the equal-tailed interval.
    agents
        Names of those to compare; all where left out.

    Returns
    -------
    pandas.DataFrame
        One row a pair, agents from the highest mean to the lowest: one (the agent with the higher
        mean), other, p_greater (probability that one exceeds other), difference (mean of one less
        other), low, high, all in the unit of the variable. Attribute ``variable``.

    Raises
    ------
    InputError
        The model has no such variable, an agent is not in the data, there are fewer than two, or
        `level` is not between 0 and 1.
    """
    name = _variable(fit, variable)
    check_level(level, "agent_pairs")
    draws, names = _ordered(fit, name, agents)
    tail = (1.0 - level) / 2.0
    rows = []
    for i in range(len(names) - 1):
        difference = draws[i] - draws[i + 1 :]
        low, high = np.quantile(difference, [tail, 1.0 - tail], axis=1)
        greater = _greater(difference)
        rows.append(np.stack([greater, difference.mean(axis=1), low, high], axis=1))
    one, other = zip(*combinations(names, 2), strict=True)
    values = pd.DataFrame(np.concatenate(rows), columns=["p_greater", "difference", "low", "high"])
    table = pd.concat([pd.DataFrame({"one": one, "other": other}), values], axis=1)
    table.attrs["variable"] = name
    return table


def pair_matrix(
    fit: xr.DataTree, variable: str | None = None, agents: Sequence[str] | None = None
) -> pd.DataFrame:
    """Probability that the agent of the row exceeds that of the column.

    Parameters
    ----------
    fit, variable, agents
        As for `agent_pairs`.

    Returns
    -------
    pandas.DataFrame
        Shape (agent, agent), agents from the highest mean to the lowest; 0.5 on the diagonal.
    """
    draws, names = _ordered(fit, _variable(fit, variable), agents)
    chance = np.stack([_greater(own - draws) for own in draws])
    return pd.DataFrame(chance, index=names, columns=names)


def ablest(fit: xr.DataTree, most: int, variable: str | None = None) -> list[str]:
    """Names of the agents with the highest means, `most` at most."""
    return _ordered(fit, _variable(fit, variable), None)[1][:most]


def _greater(difference: np.ndarray) -> np.ndarray:
    """Share of draws (last axis) above 0; ties count half."""
    share: np.ndarray = (difference > 0).mean(axis=-1) + 0.5 * (difference == 0).mean(axis=-1)
    return share


def _variable(fit: xr.DataTree, name: str | None) -> str:
    check_fit(fit)
    posterior = fit["posterior"].to_dataset()
    own = [
        str(n) for n, v in posterior.data_vars.items() if set(v.dims) == {"chain", "draw", "agent"}
    ]
    wanted = [name] if name is not None else [*VARIABLES]
    found = next((n for n in wanted if n in own), None)
    if found is None:
        _refuse_several(fit, posterior, wanted if name is not None else ["trait"], own)
        raise InputError(
            f"no variable {' or '.join(wanted)} of each agent",
            where=f"the posterior of model {fit.attrs.get('model', '')}",
            expected="one of " + ", ".join(own) if own else "a model with a value of each agent",
            remedy=f"agent_pairs(fit, variable={own[0]!r})" if own else "fit rasch or testlet",
        )
    return found


def _refuse_several(
    fit: xr.DataTree, posterior: xr.Dataset, wanted: Sequence[str], own: Sequence[str]
) -> None:
    """Refuse a variable with several values an agent, and say what can be compared."""
    for name in wanted:
        axes = set(posterior[name].dims) - {"chain", "draw"} if name in posterior else set()
        if "agent" not in axes or len(axes) < 2:
            continue
        along = " and ".join(
            f"{axis} ({posterior.sizes[axis]})" for axis in sorted(map(str, axes - {"agent"}))
        )
        abilities = "compare abilities of a fit of rasch, two_pl or testlet"
        remedy = f"agent_pairs(fit, variable={own[0]!r})" if own else abilities
        if "dimension" in axes:
            remedy += "; the report shows traits by dimension, with intervals"
        raise InputError(
            f"{name} has a value of each agent for each {along}, so that there is no one order",
            where=f"the posterior of model {fit.attrs.get('model', '')}",
            expected="one of " + ", ".join(own) if own else "a model with one value of each agent",
            remedy=remedy,
        )


def _ordered(
    fit: xr.DataTree, name: str, agents: Sequence[str] | None
) -> tuple[np.ndarray, list[str]]:
    """Draws (agent, draw) and names of agents, the highest mean first."""
    labels = fit["data"].to_dataset()["agent"].values.astype(str)
    wanted = labels if agents is None else np.unique(np.asarray(agents, dtype=str))
    for agent in wanted[~np.isin(wanted, labels)]:
        raise InputError(
            f"no agent {shown(str(agent))}",
            where="agents",
            expected="names of agents in the data of the fit",
            remedy=did_you_mean(str(agent), labels) or 'fit["data"]["agent"] lists them',
        )
    kept = np.flatnonzero(np.isin(labels, wanted))
    if len(kept) < 2:
        raise InputError(
            f"{len(kept)} agents", where="agents", expected="two agents or more to compare"
        )
    values = fit["posterior"].to_dataset()[name].isel(agent=kept)
    draws = values.transpose("agent", "chain", "draw").values.reshape(len(kept), -1).astype(float)
    order = np.argsort(-draws.mean(axis=1), kind="stable")
    return draws[order], [str(labels[kept[at]]) for at in order]
