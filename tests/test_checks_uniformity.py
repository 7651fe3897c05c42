import numpy as np
import pytest
from scipy import stats

from measurebayes.checks.calibration import Outcome, summarise, thinned
from measurebayes.checks.uniformity import (
    bins_for,
    chi_square_p,
    ecdf_p,
    holm,
    pooled_p,
    rank_of,
)

L = 99
REPLICATIONS = 300
ATTEMPTS = 10


def beta_binomial(rng, fitted_scale=1.0, ignore_data=False):
    """Calibration of a Beta(3, 3) prior with exact posterior draws, or with a wrong fit.

    The parameters are two chances of which each sees its own successes.
    """
    outcomes = []
    for replication in range(REPLICATIONS):
        truth = rng.beta(3, 3, size=2)
        y = rng.binomial(ATTEMPTS, truth)
        n = ATTEMPTS
        if ignore_data:
            draws = rng.beta(3, 3, size=(L, 2))
        else:
            a = 3 * fitted_scale
            draws = rng.beta(a + y, a + n - y, size=(L, 2))
        joint = stats.binom.logpmf(y, n, draws).sum(axis=1)
        true_joint = stats.binom.logpmf(y, n, truth).sum()
        ranks = [rank_of(truth[i], draws[:, i], rng) for i in range(2)]
        ranks.append(rank_of(true_joint, joint, rng))
        names = ["chance[a]", "chance[b]", "log_likelihood"]
        diagnostics = {"rhat": 1.0, "ess_bulk": 500.0, "divergences": 0.0, "draws": L}
        outcomes.append(Outcome(replication, names, np.array(ranks), diagnostics))
    return summarise(outcomes, L, "beta-binomial", 1)


def test_exact_posterior_draws_give_uniform_ranks(rng):
    result = beta_binomial(rng)
    assert result.uniform(0.01)
    assert list(result.table.index) == ["chance[a]", "chance[b]", "log_likelihood", "chance[all]"]
    assert result.ranks.shape == (REPLICATIONS, 3)
    assert result.unconverged == 0


def test_a_wrong_prior_scale_in_the_fit_is_found(rng):
    result = beta_binomial(rng, fitted_scale=4.0)
    assert not result.uniform(0.01)
    assert result.table.loc["chance[all]", "p"] < 1e-4
    assert result.summary()["uniform"] is False


def test_a_posterior_that_ignores_the_data_is_found_by_the_likelihood_alone(rng):
    table = beta_binomial(rng, ignore_data=True).table
    assert table.loc["log_likelihood", "p_holm"] < 1e-3
    assert table.drop("log_likelihood")["p"].min() > 0.01


@pytest.mark.parametrize("test", [ecdf_p, chi_square_p])
def test_p_values_of_uniform_ranks_are_uniform(rng, test):
    p = np.array([test(rng.integers(0, L + 1, 200), L) for _ in range(1000)])
    for level in (0.05, 0.5):
        assert stats.binomtest(int((p <= level).sum()), 1000, level).pvalue > 0.001


def test_pooled_p_holds_its_level_when_elements_depend_on_each_other(rng):
    def ranks():
        z = rng.normal(size=(200, 8))
        z -= z.mean(axis=1, keepdims=True)  # zero-sum, as abilities are
        return np.floor(stats.norm.cdf(z, scale=np.sqrt(7 / 8)) * (L + 1)).astype(int)

    p = np.array([pooled_p(ranks(), L) for _ in range(1000)])
    assert stats.binomtest(int((p <= 0.05).sum()), 1000, 0.05).pvalue > 0.001


@pytest.mark.parametrize(
    "shift",
    [
        lambda r: np.minimum(r + 12, L),  # posterior too low
        lambda r: (L / 2 + (r - L / 2) * 0.75).astype(int),  # too wide
        lambda r: np.where(np.arange(len(r)) % 4 == 0, r % 2 * L, r),  # too narrow: piles at ends
    ],
)
def test_ecdf_p_finds_shifted_wide_and_narrow_posteriors(rng, shift):
    assert ecdf_p(shift(rng.integers(0, L + 1, 200)), L) < 1e-3


def test_ranks_all_in_one_place_are_rejected_by_every_test():
    same = np.full((200, 3), 50)
    assert ecdf_p(same[:, 0], L) < 1e-4
    assert chi_square_p(same[:, 0], L) < 1e-4
    assert pooled_p(same, L) < 1e-4


def test_rank_breaks_ties_at_random_and_counts_those_below(rng):
    assert rank_of(2.0, np.array([0.0, 1, 3]), rng) == 2
    tied = [rank_of(1.0, np.ones(3), rng) for _ in range(200)]
    assert set(tied) == {0, 1, 2, 3}


def test_holm_equals_the_textbook_example():
    p = np.array([0.01, 0.04, np.nan, 0.03, 0.005])
    np.testing.assert_allclose(holm(p), [0.03, 0.06, np.nan, 0.06, 0.02])


def test_bins_divide_the_ranks_and_expect_five_each():
    assert bins_for(200, 99) == 20
    assert bins_for(60, 99) == 10
    assert bins_for(3, 99) == 1
    assert np.isnan(chi_square_p(np.array([1, 2, 3]), 99))


def test_thinned_draws_are_evenly_spaced_over_all_chains():
    at = thinned(4, 250, 99)
    assert len(np.unique(at)) == 99
    assert at.max() < 1000
    assert np.ptp(np.diff(at)) <= 1
