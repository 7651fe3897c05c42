import warnings

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from measurebayes.compare import ComparisonWarning, UnconvergedWarning, compare, loo
from measurebayes.compare.psis import log_likelihood_blocks, relative_efficiency
from measurebayes.compare.stacking import stacking_weights
from measurebayes.errors import InputError

CHAINS, DRAWS = 4, 1000


def grid_data(successes, attempts):
    """Two agents by half as many tasks as there are cells."""
    cells = len(successes)
    tasks = cells // 2
    return xr.Dataset(
        {
            "agent_index": ("cell", np.repeat([0, 1], tasks)),
            "task_index": ("cell", np.tile(np.arange(tasks), 2)),
            "attempts": ("cell", attempts),
            "successes": ("cell", successes),
        },
        coords={
            "agent": np.array(["first", "second"]),
            "task": np.array([f"task {j}" for j in range(tasks)]),
        },
    )


def fit_of(data, posterior, log_likelihood, fingerprint="same"):
    """A fit from arrays (chain, draw) and (chain, draw, cell)."""
    stats_ = {"energy": posterior["chance"], "diverging": np.zeros((CHAINS, DRAWS), bool)}
    batch = ("chain", "draw")
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset(attrs={"data_fingerprint": fingerprint, "data_name": "toy"}),
            "posterior": xr.Dataset({k: (batch, v) for k, v in posterior.items()}),
            "sample_stats": xr.Dataset({k: (batch, v) for k, v in stats_.items()}),
            "log_likelihood": xr.Dataset({"successes": ((*batch, "cell"), log_likelihood)}),
            "observed_data": xr.Dataset({"successes": ("cell", data["successes"].values)}),
            "data": data,
        }
    )


def common_chance(rng, data, prior=(1.0, 1.0), **options):
    """All cells share one chance ~ Beta(prior): exact posterior draws."""
    y, n = data["successes"].values, data["attempts"].values
    a, b = prior[0] + y.sum(), prior[1] + (n - y).sum()
    chance = rng.beta(a, b, size=(CHAINS, DRAWS))
    return fit_of(data, {"chance": chance}, stats.binom.logpmf(y, n, chance[..., None]), **options)


def exact_loo(data, prior=(1.0, 1.0)):
    """Log predictive density of each cell given all others: beta-binomial, in closed form."""
    y, n = data["successes"].values, data["attempts"].values
    a, b = prior[0] + y.sum() - y, prior[1] + (n - y).sum() - (n - y)
    return stats.betabinom.logpmf(y, n, a, b)


@pytest.fixture
def data(rng):
    attempts = rng.integers(1, 9, 40)
    return grid_data(rng.binomial(attempts, 0.6), attempts)


def test_elpd_of_every_cell_equals_exact_leave_one_out(rng, data):
    found = loo(common_chance(rng, data))
    np.testing.assert_allclose(found["elpd"], exact_loo(data), atol=0.01)
    assert found.attrs["elpd"] == pytest.approx(exact_loo(data).sum(), abs=0.05)
    assert found.attrs["p"] == pytest.approx(1, abs=0.5)  # one parameter
    assert found.attrs["bad_k"] == 0
    assert found["agent"].values[-1] == "second"
    assert found["task"].values[-1] == "task 19"


def test_equals_arviz_on_the_same_fit(rng, data):
    import arviz_stats

    fit = common_chance(rng, data)
    ours, theirs = loo(fit), arviz_stats.loo(fit, pointwise=True)
    np.testing.assert_allclose(ours["elpd"], theirs.elpd_i, rtol=1e-10)
    np.testing.assert_allclose(ours["pareto_k"], theirs.pareto_k, rtol=1e-8, atol=1e-10)
    assert ours.attrs["elpd"] == pytest.approx(theirs.elpd)
    assert ours.attrs["se"] == pytest.approx(theirs.se)
    assert ours.attrs["p"] == pytest.approx(theirs.p)


def test_table_equals_that_of_arviz(rng, data):
    import arviz_stats

    fits = {
        "flat": common_chance(rng, data),
        "low": common_chance(rng, data, prior=(10.0, 100.0)),
        "lower": common_chance(rng, data, prior=(10.0, 300.0)),
    }
    ours = compare(fits)
    theirs = arviz_stats.compare(fits, round_to="none")
    assert list(ours.index) == ["flat", "low", "lower"]
    assert list(ours.columns) == [
        "elpd", "se", "elpd_diff", "dse", "p", "weight", "unit", "bad_k",
    ]  # fmt: skip
    for column in ("elpd", "se", "elpd_diff", "p"):
        np.testing.assert_allclose(ours[column], theirs[column].astype(float), rtol=1e-8)
    # ArviZ divides by n - 1 for se but by n for dse; here both divide by n - 1
    by_n = ours["dse"] * np.sqrt(1 - 1 / data.sizes["cell"])
    np.testing.assert_allclose(by_n, theirs["dse"].astype(float), rtol=1e-8)
    np.testing.assert_allclose(ours["weight"], theirs["weight"].astype(float), atol=1e-3)
    assert ours["elpd_diff"].iloc[0] == 0
    assert (ours["elpd_diff"].iloc[1:] < 0).all()
    assert (ours["unit"] == "cell").all()


def test_the_same_model_twice_differs_by_nothing_and_shares_the_weight(rng, data):
    fit = common_chance(rng, data)
    table = compare({"one": fit, "two": fit.copy(deep=True)})
    np.testing.assert_array_equal(table["elpd_diff"], 0)
    np.testing.assert_array_equal(table["dse"], 0)
    np.testing.assert_allclose(table["weight"], 0.5)
    assert table.attrs["warnings"] == []


def test_one_fit_alone(rng, data):
    table = compare({"only": common_chance(rng, data)})
    assert table.loc["only", "weight"] == 1
    assert table.loc["only", "dse"] == 0


def test_blocks_change_nothing(rng, data):
    fit = common_chance(rng, data)
    whole, by_cell = loo(fit), loo(fit, memory=1)
    xr.testing.assert_identical(whole, by_cell)
    sizes = [len(block) for block in log_likelihood_blocks(fit, 7 * 6 * 8 * CHAINS * DRAWS)]
    assert sizes == [7, 7, 7, 7, 7, 5]


def test_a_cell_without_information_costs_nothing(rng, data):
    fit = common_chance(rng, data)
    terms = fit["log_likelihood"]["successes"].values.copy()
    terms[..., 3] = -0.25
    fit["log_likelihood"] = xr.Dataset({"successes": (("chain", "draw", "cell"), terms)})
    found = loo(fit).isel(cell=3)
    assert float(found["elpd"]) == pytest.approx(-0.25)
    assert float(found["pareto_k"]) == 0
    assert float(found["p"]) == pytest.approx(0, abs=1e-12)


def test_single_precision_is_enough(rng, data):
    fit = common_chance(rng, data)
    single = fit.copy(deep=True)
    terms = fit["log_likelihood"].to_dataset()
    single["log_likelihood"] = terms.astype(np.float32)
    np.testing.assert_allclose(loo(single)["elpd"], loo(fit)["elpd"], atol=1e-5)
    # nearly flat terms: after rounding to single precision the tail is a handful of equal values
    nearly = -5 + 1e-5 * rng.normal(size=terms["successes"].shape)
    single["log_likelihood"] = terms.copy(data={"successes": nearly}).astype(np.float32)
    found = loo(single)
    np.testing.assert_allclose(found["elpd"], -5, atol=1e-5)
    assert found.attrs["bad_k"] == 0


def test_a_cell_that_outweighs_the_rest_is_reported(rng):
    data = grid_data(np.array([180, 0, 1, 0]), np.array([200, 4, 4, 4]))
    fit = common_chance(rng, data)
    with pytest.warns(ComparisonWarning, match=r"Pareto k is over 0.7 for 1 of 4.*first at task 0"):
        table = compare({"common": fit})
    assert table.loc["common", "bad_k"] == 1
    assert "can't be trusted" in table.attrs["warnings"][0]


def test_an_unconverged_fit_warns_by_name(rng, data):
    good, bad = common_chance(rng, data), common_chance(rng, data)
    shifted = bad["posterior"]["chance"].values + np.array([0, 0, 0, 0.2])[:, None]
    bad["posterior"] = xr.Dataset({"chance": (("chain", "draw"), shifted)})
    with pytest.warns(UnconvergedWarning, match="'bad' has not converged"):
        table = compare({"good": good, "bad": bad})
    assert any(text.startswith("'bad'") for text in table.attrs["warnings"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare({"good": good})


def test_fits_of_different_data_are_refused(rng, data):
    fits = {
        "a": common_chance(rng, data),
        "b": common_chance(rng, data, fingerprint="other"),
    }
    with pytest.raises(InputError, match=r"'b'.*other data than 'a'"):
        compare(fits)


@pytest.mark.parametrize("fits", [{}, [1, 2]])
def test_no_fits(fits):
    with pytest.raises(InputError, match="mapping"):
        compare(fits)


def test_an_unknown_unit():
    with pytest.raises(InputError, match="'tsak'"):
        compare({}, unit="tsak")


def test_log_likelihood_that_is_not_finite(rng, data):
    fit = common_chance(rng, data)
    terms = fit["log_likelihood"]["successes"].values.copy()
    terms[0, 0, 0] = -np.inf
    fit["log_likelihood"] = xr.Dataset({"successes": (("chain", "draw", "cell"), terms)})
    with pytest.raises(InputError, match=r"1 values.*not finite"):
        loo(fit)


def test_one_chain_has_relative_efficiency_one(rng):
    posterior = xr.Dataset({"x": (("chain", "draw"), rng.normal(size=(1, 100)))})
    assert relative_efficiency(posterior) == 1


def test_weights_of_models_that_are_right_in_turn():
    # where a model is wrong it gives nearly no density: the best mixture is how often each is right
    elpd = np.where(np.arange(100)[:, None] < 30, [0.0, -40.0], [-40.0, 0.0])
    np.testing.assert_allclose(stacking_weights(elpd), [0.3, 0.7], atol=1e-5)


def test_weights_leave_a_worse_model_out(rng):
    good = rng.normal(size=50)
    weights = stacking_weights(np.stack([good, good - 1, good - 2], axis=1))
    np.testing.assert_allclose(weights, [1, 0, 0], atol=1e-6)
