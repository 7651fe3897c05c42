"""testlet and bifactor on verbal aggression and data.read, by maximum likelihood elsewhere."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_expit, logsumexp

import measurebayes as mb
from measurebayes.checks.convergence import convergence

LEDGER = tomllib.loads((Path(__file__).parent / "ledger.toml").read_text(encoding="utf-8"))
FILES = {"read": ("sirt_testlets/data.read.csv", 1), "verbagg": ("verbagg/verbagg_wide01.csv", 2)}


def fitted(shared_data, model, name):
    file, length = FILES[name]
    runs = mb.load(shared_data / file)
    tasks = runs["task"].values
    families = pd.DataFrame({"task": tasks, "family": [t[:length] for t in tasks]})
    runs = mb.join(runs, families=families)
    fit = mb.fit(model, runs, draws=1500, seed=1, progress=False)
    rows = {row.name: row.value for row in convergence(fit)}
    assert rows["rhat"] < 1.03, rows
    assert rows["divergences"] <= 2, rows  # of 6,000; none seen
    return fit


def marginal_log_likelihood(fit):
    """Likelihood at posterior medians, abilities and effects integrated out by Gauss and Hermite.

    Given the ability, families are independent: two sums of 61 nodes are all it takes.
    """
    data, draws = fit["data"].to_dataset(), fit["posterior"].to_dataset()
    one = draws.median(("chain", "draw"))
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    log_weights = np.log(weights / weights.sum())
    solved = np.zeros((data.sizes["agent"], data.sizes["task"]))
    solved[data["agent_index"].values, data["task_index"].values] = data["successes"].values
    general = one.get("discrimination", np.ones(solved.shape[1]))
    special = one.get("family_loading", np.ones(solved.shape[1]))
    ability, total = float(one["ability_sd"]) * nodes, 0.0
    for place, sd in enumerate(one["testlet_sd"].values):
        at = np.flatnonzero(data["family_index"].values == place)
        a, b = np.asarray(general)[at], np.asarray(special)[at]
        level = a * (ability[:, None] - one["difficulty"].values[at])  # (ability, task)
        eta = level[:, None] + b * sd * nodes[:, None]  # (ability, effect, task)
        each = np.einsum("it,ket->ike", solved[:, at], log_expit(eta))
        each += np.einsum("it,ket->ike", 1.0 - solved[:, at], log_expit(-eta))
        total = total + logsumexp(each + log_weights, axis=-1)
    return float(logsumexp(total + log_weights, axis=-1).sum())


def check_likelihood(fit, name):
    best = LEDGER["testlet_log_likelihoods"]["value"][name]
    least = best - 8.0
    if "bifactor" in name:  # pooled loadings fit less well than free ones, better than equal ones
        least = LEDGER["testlet_log_likelihoods"]["value"][name.replace("bifactor", "testlet")]
    assert least < marginal_log_likelihood(fit) <= best + 0.05


def check_variances(fit, published, tolerance):
    draws = fit["posterior"].to_dataset()
    found = {"general": draws["ability_sd"] ** 2}
    found |= {str(f): draws["testlet_sd"].sel(family=f) ** 2 for f in draws["family"].values}
    assert set(found) == set(published)
    for name, value in published.items():
        low, median, high = np.quantile(found[name], [0.025, 0.5, 0.975])
        if value == 0.0:
            assert low < 0.01, name
            assert median < 0.15, name
        else:
            assert low < value < high, name
            assert abs(median - value) < tolerance, name


@pytest.mark.slow
def test_testlet_of_verbal_aggression(shared_data):
    fit = fitted(shared_data, "testlet", "verbagg")
    check_variances(fit, LEDGER["verbagg_testlet_variances"]["value"], 0.1)
    check_likelihood(fit, "verbagg_testlet")


@pytest.mark.slow
def test_testlet_of_data_read_piles_up_at_zero_without_divergences(shared_data):
    fit = fitted(shared_data, "testlet", "read")
    check_variances(fit, LEDGER["read_testlet_variances"]["value"], 0.35)
    check_likelihood(fit, "read_testlet")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_bifactor(shared_data, name):
    check_likelihood(fitted(shared_data, "bifactor", name), f"{name}_bifactor")
