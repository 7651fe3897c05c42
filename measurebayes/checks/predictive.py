"""Does the model reproduce the data? Posterior predictive checks.

Parameters are drawn from the posterior, successes are drawn given them, and a number computed from
the replicated successes is compared with the same number computed from the observed ones [1]_.
Success rates are compared by agent, by task and by band of human minutes; one number for the whole
set of agents (tasks, bands) takes care of there being many. The share of mixed cells asks whether
repeated attempts differ as independent attempts would; the design effect of families asks the same
of an agent's tasks of a family; Q3 asks whether two tasks go together more than the model
says [2]_.

A posterior predictive p value is the share of replicates whose discrepancy is at least the observed
one. Agents, tasks, bands, families or Q3 fail when p is 0.005 or less; the share of mixed cells,
which may be off either way, when p isn't between 0.005 and 0.995. Such p values lie nearer to 0.5
than to uniform when the model holds, so a failure is rarely due to chance.

References
----------
.. [1] Gelman, Meng, Stern (1996). Posterior predictive assessment of model fitness via realized
   discrepancies. Statistica Sinica 6.
.. [2] Yen (1984). doi:10.1177/014662168400800201
"""

import numpy as np
import xarray as xr

from measurebayes.backends.blocks import USUAL
from measurebayes.checks.bands import Bands, with_equal_tasks
from measurebayes.checks.dependence.design import Design
from measurebayes.checks.discrepancy import (
    LEAST_COMMON_AGENTS,
    LEAST_EACH_OUTCOME,
    Q3,
    above,
    design_effect,
    freeman_tukey,
    group_sums,
    mixed_share,
)
from measurebayes.checks.replicates import REPLICATES, posterior_replicates
from measurebayes.checks.rows import Check, not_judged

P_LIMIT = 0.005
BANDS = 6

# name of the check, what its groups are called, what to do when it fails
_FAMILIES = {
    "agent": "a model with more than one number for an agent (slopes, dimensions)",
    "task": "a model with a discrimination or a guessing probability for each task",
    "band": "a model whose difficulty depends on human minutes in another way",
}


def time_bands(minutes: np.ndarray, bands: int = BANDS) -> Bands:
    """Put tasks into bands of equal numbers of tasks by human minutes; none where only one fits.

    Parameters
    ----------
    minutes : np.ndarray
        Shape (task,); NaN where unknown.
    bands : int
        Number of bands; fewer come out where many tasks have the same minutes.
    """
    found = with_equal_tasks(minutes, bands, "min")
    return found if len(found) >= 2 else Bands(np.full(len(minutes), -1), [])


def posterior_predictive(
    fit: xr.DataTree, replicates: int = REPLICATES, budget: int = USUAL
) -> xr.Dataset:
    """Replicate the data from the posterior and summarise replicates and data alike.

    Parameters
    ----------
    fit : xr.DataTree
    replicates : int
        Number of posterior draws used, one replicate each; at most the number of draws there are.
        Which draws and which replicates follows from the fit's seed.
    budget : int
        Bytes that arrays of draws by cells may take; changes no result.

    Returns
    -------
    xr.Dataset
        ``agent_observed`` (agent), ``agent_replicated`` (replicate, agent): success rates, NaN
        without attempts; the same for ``task`` and, where minutes are known, ``band``.
        ``mixed_observed`` (), ``mixed_replicated`` (replicate): share of mixed cells, where a cell
        has several attempts. ``families_observed``, ``families_replicated`` (replicate): design
        effect of groups, an agent with a family, where any has two tasks. ``q3`` (task,
        other_task): residual correlations at the posterior mean probabilities.
        ``distance_observed``, ``distance_replicated`` (replicate, check): realised discrepancies of
        agent, task, band, q3.
    """
    data = fit["data"].to_dataset()
    observed = data["successes"].values
    attempts = data["attempts"].values
    agent, task = data["agent_index"].values, data["task_index"].values
    band, band_labels = time_bands(data["human_minutes"].values)
    groups = {"agent": (agent, data["agent"].values), "task": (task, data["task"].values)}
    if band_labels:
        groups["band"] = (band[task], np.asarray(band_labels, dtype=str))
    q3 = Q3(agent, task, attempts, data.sizes["agent"], data.sizes["task"])
    pairs = q3.pairs(observed)
    design = Design.of(data)

    parts: dict[str, list[np.ndarray]] = {}
    mean_probability = np.zeros(len(observed))
    draws = fit["posterior"].sizes["chain"] * fit["posterior"].sizes["draw"]
    for probability, replicated in posterior_replicates(fit, min(replicates, draws), budget):
        mean_probability += probability.sum(axis=0)
        for name, values in _families(groups, observed, replicated, probability, attempts).items():
            parts.setdefault(name, []).append(values)
        largest = [q3.largest(observed, p, pairs) for p in probability]
        again = [q3.largest(y, p) for y, p in zip(replicated, probability, strict=True)]
        parts.setdefault("q3_observed", []).append(np.array(largest))
        parts.setdefault("q3_replicated", []).append(np.array(again))
        if (attempts >= 2).any():
            parts.setdefault("mixed_replicated", []).append(mixed_share(replicated, attempts))
        if design.shared:
            for kind, successes in (("observed", observed), ("replicated", replicated)):
                effect = design_effect(successes - probability * attempts, design.group)
                parts.setdefault(f"families_{kind}", []).append(effect)
    found = {name: np.concatenate(values) for name, values in parts.items()}
    mean_probability /= len(found["q3_observed"])
    matrix = q3.matrix(observed, mean_probability)
    result = _dataset(found, groups, observed, attempts, matrix)
    if design.shared:
        for kind in ("families_observed", "families_replicated"):
            result[kind] = ("replicate", found[kind])
    return result


def predictive(fit: xr.DataTree, replicates: int = REPLICATES, budget: int = USUAL) -> list[Check]:
    """Rows of the posterior predictive checks of a fit.

    Parameters
    ----------
    fit : xr.DataTree
    replicates, budget : int
        See `posterior_predictive`.

    Returns
    -------
    list of Check
        Names predictive_agent, predictive_task, predictive_band, predictive_mixed,
        predictive_families, predictive_q3; the value is the posterior predictive p value.
    """
    found = posterior_predictive(fit, replicates, budget)
    families = [_family_row(found, name) for name in _FAMILIES]
    return [*families, _mixed_row(found), _families_row(found), _q3_row(found)]


def _families(
    groups: dict[str, tuple[np.ndarray, np.ndarray]],
    observed: np.ndarray,
    replicated: np.ndarray,
    probability: np.ndarray,
    attempts: np.ndarray,
) -> dict[str, np.ndarray]:
    """Distances and replicated rates of each family of groups, first axis draws."""
    result = {}
    expected_cells = probability * attempts
    for name, (group, labels) in groups.items():
        tried = group_sums(attempts, group, len(labels))
        expected = group_sums(expected_cells, group, len(labels))
        again = group_sums(replicated, group, len(labels))
        solved = group_sums(observed, group, len(labels))
        result[f"{name}_observed"] = freeman_tukey(solved, expected, tried)
        result[f"{name}_replicated"] = freeman_tukey(again, expected, tried)
        result[f"{name}_rates"] = again / np.where(tried > 0, tried, np.nan)
    return result


def _dataset(
    found: dict[str, np.ndarray],
    groups: dict[str, tuple[np.ndarray, np.ndarray]],
    observed: np.ndarray,
    attempts: np.ndarray,
    matrix: np.ndarray,
) -> xr.Dataset:
    checks = [*groups, "q3"]
    result = xr.Dataset(coords={"check": np.asarray(checks, dtype=str)})
    for kind in ("observed", "replicated"):
        stacked = np.stack([found[f"{name}_{kind}"] for name in checks], axis=1)
        result[f"distance_{kind}"] = (("replicate", "check"), stacked)
    for name, (group, labels) in groups.items():
        tried = group_sums(attempts, group, len(labels))
        solved = group_sums(observed, group, len(labels))
        result[f"{name}_observed"] = (name, solved / np.where(tried > 0, tried, np.nan))
        result[f"{name}_replicated"] = (("replicate", name), found[f"{name}_rates"])
        result = result.assign_coords({name: labels})
    if "mixed_replicated" in found:
        result["mixed_observed"] = ((), float(mixed_share(observed, attempts)))
        result["mixed_replicated"] = ("replicate", found["mixed_replicated"])
    result["q3"] = (("task", "other_task"), matrix)
    return result.assign_coords(other_task=result["task"].values)


def p_value(observed: np.ndarray, replicated: np.ndarray) -> float:
    """Share of replicates above the observed discrepancy; ties count half."""
    return float(above(observed, replicated))


def _distance_p(found: xr.Dataset, name: str) -> float:
    at = found.sel(check=name)
    return p_value(at["distance_observed"].values, at["distance_replicated"].values)


def _family_row(found: xr.Dataset, name: str) -> Check:
    row = f"predictive_{name}"
    if f"{name}_observed" not in found:
        return not_judged(row, "human minutes are unknown, or too few differ, to make time bands.")
    p = _distance_p(found, name)
    number = int(found[f"{name}_observed"].notnull().sum())
    worst = _farthest(found[f"{name}_observed"], found[f"{name}_replicated"])
    things = {"band": "time bands"}.get(name, f"{name}s")
    if p > P_LIMIT:
        text = f"Success rates of {number} {things} agree with the model ({chance(p)}). {worst}"
    else:
        text = (
            f"The model does not reproduce the success rates of {number} {things} ({chance(p)}). "
            f"{worst} Try {_FAMILIES[name]}."
        )
    return Check(row, p > P_LIMIT, p, text)


def chance(p: float) -> str:
    """Write a share of replicates: their number can't tell less than 0.005 from nothing."""
    if p < 0.005:
        return "p < 0.005"
    return "p > 0.995" if p > 0.995 else f"p = {p:.3f}"


def _farthest(observed: xr.DataArray, replicated: xr.DataArray) -> str:
    """Sentence on the group whose rate is the most standard deviations from its replicates'."""
    name = observed.dims[0]
    spread = np.maximum(replicated.values.std(axis=0), 1e-6)
    off = np.abs(observed.values - replicated.values.mean(axis=0)) / spread
    at = int(np.nanargmax(off))
    low, high = np.quantile(replicated.values[:, at], [0.025, 0.975])
    return (
        f"Farthest off is {observed[name].values[at]}: solved {observed.values[at]:.3f} of its "
        f"attempts, the model expects {low:.3f} to {high:.3f} (95 %)."
    )


def _mixed_row(found: xr.Dataset) -> Check:
    row = "predictive_mixed"
    if "mixed_observed" not in found:
        return not_judged(row, "every cell has one attempt, so no cell can be mixed.")
    share, replicated = float(found["mixed_observed"]), found["mixed_replicated"].values
    p = p_value(np.full(len(replicated), share), replicated)
    passed = P_LIMIT < p < 1 - P_LIMIT
    low, high = np.quantile(replicated, [0.025, 0.975])
    numbers = f"{share:.3f} of the cells with several attempts are mixed (solved and failed)"
    expected = f"the model expects {low:.3f} to {high:.3f} (95 %; {chance(p)})"
    text = f"{numbers}; {expected}."
    if not passed and share < float(replicated.mean()):
        text += (
            " Repeated attempts of an agent at a task agree more than the model allows: agents "
            "differ in which tasks they can do by more than the model has. Their intervals are "
            "too narrow, since every attempt is taken as new evidence."
        )
    elif not passed:
        text += (
            " Repeated attempts agree less than the model allows: the probabilities are too near "
            "0 and 1."
        )
    return Check(row, passed, p, text)


def _families_row(found: xr.Dataset) -> Check:
    row = "predictive_families"
    if "families_observed" not in found:
        return not_judged(row, "no agent tried two tasks of one family.")
    observed, replicated = (found[f"families_{kind}"].values for kind in ("observed", "replicated"))
    p = p_value(observed, replicated)
    effect, (low, high) = float(np.median(observed)), np.quantile(replicated, [0.025, 0.975])
    text = (
        f"The design effect of families is {effect:.2f}, the model expects {low:.2f} to {high:.2f} "
        f"(95 %; {chance(p)})."
    )
    if p <= P_LIMIT:
        tasks = int(found["task_observed"].notnull().sum())
        text += (
            f" Tasks of a family go together more than the model allows: {tasks} tasks say as much "
            f"about an agent as {tasks / max(effect, 1.0):.0f} independent ones, so that "
            "intervals are too narrow. Try testlet; measurebayes.local_dependence says which "
            "families."
        )
    return Check(row, p > P_LIMIT, p, text)


def _q3_row(found: xr.Dataset) -> Check:
    row = "predictive_q3"
    q3 = found["q3"].values
    if np.isnan(q3).all():
        why = (
            f"no two tasks were tried by {LEAST_COMMON_AGENTS} agents of which "
            f"{LEAST_EACH_OUTCOME} or more solved each and failed each."
        )
        return not_judged(row, why)
    p = _distance_p(found, "q3")
    first, second = np.unravel_index(np.nanargmax(q3), q3.shape)
    tasks = found["task"].values
    pair = f"Q3 is largest, {q3[first, second]:.2f}, for {tasks[first]} and {tasks[second]}"
    if p > P_LIMIT:
        text = f"{pair}: no more than the model expects of so many pairs ({chance(p)})."
    else:
        text = (
            f"{pair}: more than the model expects ({chance(p)}). Tasks share something beyond the "
            "ability: look for near-duplicates, and read intervals as too narrow."
        )
    return Check(row, p > P_LIMIT, p, text)
