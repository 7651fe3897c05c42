"""Time horizons by logistic regression: METR's numbers, resampling, data without a horizon."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit

import measurebayes as mb
from measurebayes.classical import estimate
from measurebayes.classical.batch import AgentCells, fit_lines
from measurebayes.classical.bootstrap import resampled_lines, task_times
from measurebayes.errors import InputError

LEDGER = tomllib.loads((Path(__file__).parent / "ledger.toml").read_text(encoding="utf-8"))


def loaded(successes, attempts, minutes, families=None):
    """A dataset of a table of agents by tasks; cells without attempts are left out."""
    successes, attempts = np.asarray(successes), np.asarray(attempts)
    who, what = np.nonzero(attempts)
    columns = {
        "agent": [f"agent {i}" for i in who],
        "task": [f"task {j:03d}" for j in what],
        "attempts": attempts[who, what],
        "successes": successes[who, what],
        "human_minutes": np.asarray(minutes, dtype=float)[what],
    }
    if families is not None:
        columns["family"] = [f"family {f}" for f in np.asarray(families)[what]]
    return mb.load(pd.DataFrame(columns))


# METR's numbers


def test_metr_regressions(metr):
    expected = LEDGER["metr_regressions"]["value"]
    found = mb.classical_horizons(metr).set_index("agent")
    assert set(found.index) == set(expected)
    for agent, (slope, intercept) in expected.items():
        assert found.slope[agent] == pytest.approx(slope, abs=0.001)
        assert found.intercept[agent] == pytest.approx(intercept, abs=0.001)
        # 2^(-intercept / slope), and the length at which the odds are 4
        at = found.intercept[agent] + found.slope[agent] * np.log2(found.horizon_80[agent])
        assert at == pytest.approx(np.log(4))
        at = found.intercept[agent] + found.slope[agent] * np.log2(found.horizon_50[agent])
        assert at == pytest.approx(0, abs=1e-9)


def test_metr_inversions(metr):
    expected = LEDGER["metr_inversions"]["value"]
    rows = LEDGER["metr_regressions"]["value"].items()
    published = pd.DataFrame([(a, *v) for a, v in rows], columns=["agent", "slope", "intercept"])
    assert len(mb.inversions(published)) == expected["metr"]
    unweighted = mb.classical_horizons(metr, weighted=False)
    found = mb.inversions(unweighted)
    assert len(found) == expected["unweighted"]
    horizon = unweighted.set_index("agent")
    for row in found.itertuples():
        assert horizon.horizon_50[row.longer_50] > horizon.horizon_50[row.longer_80]
        assert horizon.horizon_80[row.longer_80] > horizon.horizon_80[row.longer_50]
        ratio = horizon.horizon_50[row.longer_50] / horizon.horizon_50[row.longer_80]
        assert row.ratio_50 == pytest.approx(ratio)


def test_metr_slope_test(metr):
    expected, found = LEDGER["metr_logistic"]["value"], mb.slope_test(metr)
    assert found.ratio == pytest.approx(expected["ratio"], abs=0.006)
    assert found.df == 22
    assert found.p == pytest.approx(expected["p"], rel=0.02)
    assert -found.common == pytest.approx(expected["common_slope"], abs=0.0006)


# The fit


def test_unweighted_is_the_maximum_of_the_likelihood(metr):
    found = mb.classical_horizons(metr, weighted=False)
    other = estimate("agent_slopes", metr).parameters
    np.testing.assert_allclose(found.slope, other["slope"], atol=1e-5)
    np.testing.assert_allclose(found.intercept, other["intercept"], atol=1e-4)


def test_weights_are_of_the_family_as_the_agent_has_it(rng):
    """A general optimiser, on data in which agents lack different tasks."""
    minutes, families = 2.0 ** np.arange(12), np.arange(12) // 4
    attempts = rng.integers(1, 6, (2, 12)) * (rng.random((2, 12)) < 0.8)
    successes = rng.binomial(attempts, expit(2.5 - 0.45 * np.log2(minutes)))
    runs = loaded(successes, attempts, minutes, families)
    found = mb.classical_horizons(runs)
    for i in range(2):
        seen = attempts[i] > 0
        size = np.bincount(families[seen], minlength=3)[families[seen]]
        mean, x = (successes / np.maximum(attempts, 1))[i][seen], np.log2(minutes)[seen]

        def loss(line, mean=mean, x=x, size=size):
            eta = line[0] + line[1] * x
            return -np.sum((mean * log_expit(eta) + (1 - mean) * log_expit(-eta)) / np.sqrt(size))

        best = minimize(loss, [0, 0], method="BFGS", options={"gtol": 1e-8}).x
        np.testing.assert_allclose([found.intercept[i], found.slope[i]], best, atol=2e-3)


def test_many_lines_at_once_are_the_lines_one_by_one(metr, rng):
    cells = AgentCells.of(metr, weighted=True)
    x = cells.x + rng.normal(0, 1, (4, cells.x.size))
    weight = cells.weight * rng.integers(0, 3, (4, cells.x.size))
    solved = weight * (cells.successes / cells.attempts)
    together = fit_lines(cells, x, weight, solved)
    for k in range(4):
        alone = fit_lines(cells, x[k], weight[[k]], solved[[k]])
        np.testing.assert_allclose(np.array(together)[:, k], np.array(alone)[:, 0], atol=1e-6)


@pytest.mark.parametrize("case", range(12))
def test_hard_data_end_at_the_maximum(case):
    """Separated and extreme outcomes at spread lengths: stationary, ridge included."""
    rng = np.random.default_rng(case)
    minutes = 10.0 ** rng.uniform(-3, 6, 30)
    attempts = rng.integers(1, [2, 10**6][case % 2], (3, 30))
    chance = (minutes < 10) if case % 3 else rng.random((3, 30)) < 0.5
    runs = loaded(rng.binomial(attempts, chance), attempts, minutes)
    cells = AgentCells.of(runs, weighted=False)
    intercept, slope = fit_lines(cells, cells.x, cells.weight[None], cells.solved[None])
    starts = np.flatnonzero(np.r_[True, np.diff(np.repeat(np.arange(3), cells.sizes)) > 0])
    for i, start in enumerate(starts):
        own = slice(start, start + cells.sizes[i])
        x, n, k = cells.x[own], cells.weight[own], cells.solved[own]
        centre = n @ x / n.sum()
        residual = k - n * expit(intercept[0, i] + slope[0, i] * x)
        level = intercept[0, i] + slope[0, i] * centre
        scale = 1e-6 * (1 + np.sqrt(n.sum()))
        assert residual.sum() - level / 1e4 == pytest.approx(0, abs=scale)
        assert residual @ (x - centre) - slope[0, i] / 1e4 == pytest.approx(0, abs=20 * scale)


# Data without a horizon


def test_agents_without_a_horizon_are_said_not_hidden():
    minutes = [1.0, 2.0, 4.0, 8.0]
    successes = [[2, 2, 2, 2], [0, 0, 0, 0], [0, 1, 1, 2], [2, 1, 2, 2], [2, 2, 0, 0], [2, 2, 1, 0]]
    runs = loaded(successes, np.full((6, 4), 2), minutes)
    found = mb.classical_horizons(runs, bootstrap=50, seed=1)
    assert found.horizon_50[:3].tolist() == [np.inf, 0.0, 0.0]
    assert found.horizon_80[3] in (0.0, np.inf)
    assert found.not_finite_50[:2].tolist() == [1.0, 0.0]
    assert found.slope[:2].isna().all()
    assert np.isinf(found.intercept[:2]).all()
    starts = ["every attempt succeeded", "every attempt failed", "success doesn't fall", "success"]
    for note, start in zip(found.note, [*starts, "lengths part", ""], strict=True):
        assert note.startswith(start)
    assert found.note[5] == ""
    assert found.beyond_50.tolist() == [True, False, False, True, False, False]
    assert 2 < found.horizon_50[4] < 4
    with pytest.raises(InputError, match="'agent 0', 'agent 1'"):
        mb.inversions(found)


def test_infinite_resamples_count():
    """An agent that failed at one of ten tasks: a third of the resamples hold no failure."""
    minutes = 2.0 ** np.arange(10)
    runs = loaded([[1] * 9 + [0], [1] * 5 + [0] * 5], np.ones((2, 10), int), minutes)
    found = mb.classical_horizons(runs, bootstrap=400, seed=1, success=0.5)
    assert found.not_finite_50[0] == pytest.approx(0.9**10, abs=0.08)
    assert found.horizon_50_high[0] == np.inf
    assert np.isfinite(found.horizon_50_low[0])


# Resampling


def test_times_that_tasks_are_drawn(rng):
    """Families as often as there are families, tasks of a family as many as it has."""
    minutes, families = 2.0 ** np.arange(9), np.array([0, 0, 0, 0, 1, 1, 1, 2, 3])
    runs = loaded(np.ones((2, 9), int), np.ones((2, 9), int), minutes, families)
    cells = AgentCells.of(runs, weighted=True)
    times = task_times(cells, 4000, rng)
    own = runs["family_index"].values
    drawn = np.stack([times[:, own == f].sum(axis=1) / np.sum(own == f) for f in range(4)], axis=1)
    assert (drawn == drawn.round()).all()
    assert (drawn.sum(axis=1) == 4).all()
    np.testing.assert_allclose(times.mean(axis=0), 1, atol=0.06)
    # variances of m and, given m draws of a family, of the binomial number of one task in it
    np.testing.assert_allclose(drawn.var(axis=0), 3 / 4, atol=0.06)
    np.testing.assert_allclose(times[:, own == 0].var(axis=0), 3 / 4 + 3 / 4, atol=0.15)


def test_spread_of_resamples_is_that_of_new_data(rng):
    """Tasks without families, one attempt each: against the spread over fresh tasks.

    With several attempts a cell resampling them counts their noise twice (docs/classical.md).
    """

    def fresh():
        x = rng.uniform(0, 12, 120)
        return x, rng.binomial(1, expit(3.0 - 0.5 * x - rng.normal(0, 1, 120)), (1, 120))

    def line(x, k):
        cells = AgentCells.of(loaded(k, np.full((1, 120), 1), 2.0**x), weighted=False)
        return cells, fit_lines(cells, cells.x, cells.weight[None], cells.solved[None])

    lines = [line(*fresh()) for _ in range(60)]
    truth = np.std([-a[0, 0] / b[0, 0] for _, (a, b) in lines])
    resampled = [resampled_lines(cells, 60, seed=1) for cells, _ in lines[:20]]
    spread = np.mean([np.std(-a / b) for a, b in resampled])
    assert spread == pytest.approx(truth, rel=0.25)


def test_seed_decides(metr):
    few = mb.subset(metr, agent=metr.agent.values[:3].tolist())
    one, two = (mb.classical_horizons(few, bootstrap=30, seed=5) for _ in range(2))
    pd.testing.assert_frame_equal(one, two)
    other = mb.classical_horizons(few, bootstrap=30, seed=6)
    assert (other.horizon_50_low != one.horizon_50_low).all()
    assert (one.horizon_50_low < one.horizon_50).all()
    assert (one.horizon_50 < one.horizon_50_high).all()


# Arguments


def test_errors(metr, tiny):
    for wrong in ([], [0.5, 0.5], [0.0], [50]):
        with pytest.raises(InputError, match="success rates"):
            mb.classical_horizons(metr, success=wrong)
    with pytest.raises(InputError, match="bootstrap=-1"):
        mb.classical_horizons(metr, bootstrap=-1)
    with pytest.raises(InputError, match="no human minutes"):
        mb.classical_horizons(tiny)
    table = mb.classical_horizons(metr)
    with pytest.raises(InputError, match="3 success rates"):
        mb.inversions(table, success=[0.1, 0.5, 0.8])
    with pytest.raises(InputError, match="no column 'slope'"):
        mb.inversions(table.drop(columns="slope"))
    assert "horizon_97.5" in mb.classical_horizons(metr, success=0.975)
