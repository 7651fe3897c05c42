import numpy as np
import pytest

from measurebayes.checks.discrepancy import (
    LEAST_COMMON_AGENTS,
    Q3,
    freeman_tukey,
    group_sums,
    mixed_share,
)
from measurebayes.checks.predictive import p_value, time_bands


def test_group_sums_equal_a_loop(rng):
    per_cell, group = rng.random((3, 40)), rng.integers(-1, 5, 40)
    expected = [[row[group == g].sum() for g in range(6)] for row in per_cell]
    np.testing.assert_allclose(group_sums(per_cell, group, 6), expected)
    np.testing.assert_allclose(group_sums(per_cell[0], group, 6), expected[0])


def test_freeman_tukey_is_close_to_chi_square_for_large_counts(rng):
    attempts, p = np.full(50, 4000), rng.uniform(0.2, 0.8, 50)
    y = rng.binomial(attempts, p)
    chi_square = np.sum((y - attempts * p) ** 2 / (attempts * p * (1 - p)))
    assert freeman_tukey(y, attempts * p, attempts) == pytest.approx(chi_square, rel=0.01)


def test_freeman_tukey_stays_bounded_where_nothing_is_expected():
    one_success = freeman_tukey(np.array([1]), np.array([1e-9]), np.array([20]))
    assert 3.9 < one_success < 4.1  # Pearson's chi-square would be 1e9


def test_mixed_share_counts_cells_with_several_attempts():
    y = np.array([[0, 1, 1, 2, 3], [1, 0, 0, 1, 1]])
    n = np.array([1, 2, 2, 2, 3])
    np.testing.assert_allclose(mixed_share(y, n), [2 / 4, 2 / 4])


def simulated(rng, agents, tasks, holes):
    seen = rng.random((agents, tasks)) >= holes
    agent, task = np.nonzero(seen)
    attempts = rng.integers(1, 6, agent.size)
    p = rng.uniform(0.2, 0.8, agent.size)
    return agent, task, attempts, p, rng.binomial(attempts, p)


def slow_q3(agent, task, attempts, p, y, agents, tasks):
    """Q3 pair by pair with np.corrcoef."""
    result = np.full((tasks, tasks), np.nan)
    residual = {(i, j): r for i, j, r in zip(agent, task, y / attempts - p, strict=True)}
    solved = {(i, j): s for i, j, s in zip(agent, task, y > 0, strict=True)}
    failed = {(i, j): s for i, j, s in zip(agent, task, y < attempts, strict=True)}
    for j in range(tasks):
        for k in range(j + 1, tasks):
            both = [i for i in range(agents) if (i, j) in residual and (i, k) in residual]
            counts = [sum(o[i, t] for i in both) for o in (solved, failed) for t in (j, k)]
            if len(both) >= LEAST_COMMON_AGENTS and min(counts) >= 3:
                pairs = [[residual[i, t] for i in both] for t in (j, k)]
                result[j, k] = np.corrcoef(pairs)[0, 1]
    return result


@pytest.mark.parametrize("holes", [0.0, 0.35])
def test_q3_equals_correlations_pair_by_pair(rng, holes):
    agent, task, attempts, p, y = simulated(rng, 18, 9, holes)
    y[task == 2] = 0  # a task that nobody solved counts in no pair
    expected = slow_q3(agent, task, attempts, p, y, 18, 9)
    q3 = Q3(agent, task, attempts, 18, 9)
    found = q3.matrix(y, p)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.isnan(found[2]).all()
    assert q3.largest(y, p) == pytest.approx(np.nanmax(expected))
    if holes:
        assert np.isnan(np.delete(expected, 2, 0)[np.triu_indices(7, 2)]).any()


def test_q3_finds_two_copies_of_a_task(rng):
    agent, task, attempts, p, y = simulated(rng, 60, 6, 0.0)
    y[task == 4], p[task == 4], attempts[task == 4] = (
        y[task == 1],
        p[task == 1],
        attempts[task == 1],
    )
    found = Q3(agent, task, attempts, 60, 6).matrix(y, p)
    assert np.unravel_index(np.nanargmax(found), found.shape) == (1, 4)
    assert found[1, 4] == pytest.approx(1)


def test_q3_without_any_pair_that_counts(rng):
    agent, task, attempts, p, y = simulated(rng, 5, 4, 0.0)
    q3 = Q3(agent, task, attempts, 5, 4)
    assert np.isnan(q3.matrix(y, p)).all()
    assert q3.largest(y, p) == -1


def test_q3_of_equal_residuals_is_no_huge_number(rng):
    """Holes, and chances that leave each residual of a task the same but for rounding."""
    agent, task = np.nonzero(rng.random((40, 6)) < 0.8)
    attempts = np.full(len(agent), 3)
    y = rng.integers(0, 4, len(agent))
    p = y / 3 - 0.1 * (1 + task) + rng.normal(0, 1e-9, len(agent))
    found = Q3(agent, task, attempts, 40, 6).matrix(y, p)
    assert np.isfinite(found).any()
    assert np.nanmax(np.abs(found)) <= 1


def test_bands_hold_equal_numbers_and_leave_out_unknown_minutes():
    minutes = np.array([np.nan, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048])
    band, labels = time_bands(minutes)
    assert band[0] == -1
    np.testing.assert_array_equal(np.bincount(band[1:]), [2] * 6)
    assert labels[0].startswith("1 to")
    assert np.all(np.diff(band[1:]) >= 0)


@pytest.mark.parametrize("minutes", [[np.nan] * 4, [5.0] * 4])
def test_no_bands_where_minutes_are_unknown_or_equal(minutes):
    band, labels = time_bands(np.array(minutes))
    assert labels == []
    assert (band == -1).all()


def test_p_value_counts_ties_as_a_half():
    assert p_value(np.array([1.0, 1, 1, 1]), np.array([0.0, 1, 2, 3])) == 0.625
