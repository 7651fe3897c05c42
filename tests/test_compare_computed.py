"""Leave-one-out from a fit that carries no log-likelihood: it is computed from the model."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit

from measurebayes.compare import compare, loo
from measurebayes.program.registry import get_model

PRIORS = '{"ability_sd": 2.5, "difficulty_mean": 5.0, "difficulty_sd": 5.0}'


@pytest.fixture
def fit(rng):
    """Rasch draws around a truth, 5 agents by 6 tasks with holes, without log-likelihood."""
    agent, task = (x.ravel() for x in np.indices((5, 6)))
    seen = np.arange(30) % 7 != 3
    agent, task = agent[seen], task[seen]
    ability, difficulty = np.linspace(-1, 1, 5), np.linspace(-2, 2, 6)
    attempts = np.full(agent.size, 6)
    successes = rng.binomial(attempts, expit(ability[agent] - difficulty[task]))
    data = xr.Dataset(
        {
            "agent_index": ("cell", agent),
            "task_index": ("cell", task),
            "attempts": ("cell", attempts),
            "successes": ("cell", successes),
            "family_index": ("task", np.arange(6)),
        },
        coords={
            "agent": np.array(list("abcde")),
            "task": np.array(list("uvwxyz")),
            "family": np.array(list("uvwxyz")),
        },
    )
    batch, shape = ("chain", "draw"), (4, 250)
    spread = 0.2
    posterior = xr.Dataset(
        {
            "ability": ((*batch, "agent"), ability + spread * rng.normal(size=(*shape, 5))),
            "ability_sd": (batch, rng.uniform(0.5, 1.5, shape)),
            "difficulty": ((*batch, "task"), difficulty + spread * rng.normal(size=(*shape, 6))),
            "difficulty_mean": (batch, rng.normal(size=shape)),
            "difficulty_sd": (batch, rng.uniform(1, 2, shape)),
        }
    )
    attrs = {
        "model": "rasch",
        "priors": PRIORS,
        "model_source": get_model("rasch").source,
        "data_fingerprint": "x",
    }
    groups = {"/": xr.Dataset(attrs=attrs), "posterior": posterior, "data": data}
    return xr.DataTree.from_dict(groups)


def with_terms(fit):
    """The same fit with binomial terms written out."""
    data, posterior = fit["data"], fit["posterior"]
    ability = posterior["ability"].values[..., data["agent_index"].values]
    difficulty = posterior["difficulty"].values[..., data["task_index"].values]
    terms = stats.binom.logpmf(
        data["successes"].values, data["attempts"].values, expit(ability - difficulty)
    )
    result = fit.copy(deep=True)
    result["log_likelihood"] = xr.Dataset({"successes": (("chain", "draw", "cell"), terms)})
    return result


@pytest.mark.parametrize("budget", [2**27, 4 * 8 * 1000 * 4, 1])
def test_computed_terms_equal_stored_ones(fit, budget):
    computed, stored = loo(fit, memory=budget), loo(with_terms(fit))
    np.testing.assert_allclose(computed["elpd"], stored["elpd"], rtol=1e-9)
    np.testing.assert_allclose(computed["pareto_k"], stored["pareto_k"], rtol=1e-6, atol=1e-9)


def test_the_binomial_coefficient_is_in(fit):
    """A cell whose successes are certain to be any of 0..n has a density over all of them."""
    terms = np.exp([_terms_of(fit, y) for y in range(7)]).sum(axis=0)
    np.testing.assert_allclose(terms, 1, rtol=1e-12)


def _terms_of(fit, successes):
    from measurebayes.compare.psis import log_likelihood_blocks

    same = fit.copy(deep=True)
    data = same["data"].to_dataset()
    same["data"] = data.assign(successes=("cell", np.full(data.sizes["cell"], successes)))
    return np.concatenate(list(log_likelihood_blocks(same, 2**27)))


def test_stored_and_computed_compare_as_equal(fit):
    table = compare({"stored": with_terms(fit), "computed": fit})
    np.testing.assert_allclose(table["elpd_diff"], 0, atol=1e-9)
    np.testing.assert_allclose(table["weight"], 0.5, atol=1e-6)
