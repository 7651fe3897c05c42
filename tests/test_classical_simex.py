"""Simulation extrapolation: no error, known laws of the error, what can't be extrapolated."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from test_classical_horizons import loaded

import measurebayes as mb
from measurebayes.classical.simex import CURVES, _extrapolated, _rational
from measurebayes.errors import InputError

COLUMNS = ["slope", "intercept", "horizon_50", "horizon_80"]


@pytest.mark.parametrize("estimate", ["horizon", "line"])
def test_no_error_is_the_classical_fit_exactly(metr, estimate):
    for error_sd in (0, np.zeros(metr.sizes["task"])):
        found = mb.simex(metr, error_sd, estimate=estimate)
        expected = mb.classical_horizons(metr)
        pd.testing.assert_frame_equal(found[COLUMNS], expected[COLUMNS], check_exact=True)
        assert (found.naive_50 == found.horizon_50).all()


def suite(rng, error_sd, tasks=4000, low=-6.0, high=22.0):
    """One agent, horizon 2^8 minutes, slope -0.6; lengths so wide that no edge is felt."""
    x = rng.uniform(low, high, tasks)
    solved = rng.binomial(1, expit(0.6 * (8.0 - x)), (1, tasks))
    observed = x + error_sd * rng.normal(size=tasks)
    return loaded(solved, np.ones((1, tasks), int), 2.0**observed)


def test_it_takes_out_what_error_puts_in(rng):
    """Far from edges error widens the gap between horizons by sqrt(1 + c^2 slope^2 sd^2)."""
    found = mb.simex(suite(rng, 2.0), 2.0, replicates=10, weighted=False).iloc[0]
    true = np.log(4) / 0.6
    c = 16 * np.sqrt(3) / (15 * np.pi)
    wider = np.sqrt(1 + (c * 0.6 * 2.0) ** 2)
    assert np.log2(found.naive_50 / found.naive_80) == pytest.approx(true * wider, abs=0.15)
    assert np.log2(found.horizon_50 / found.horizon_80) == pytest.approx(true, abs=0.15)
    assert np.log2(found.horizon_50) == pytest.approx(8, abs=0.2)


def test_errors_by_task(rng):
    """Noise is added where the error is: in half of the tasks as in those alone."""
    runs = suite(rng, 0.0, tasks=300)
    error = np.where(np.arange(300) < 150, 1.5, 0.0)
    half = mb.simex(runs, error, replicates=10).iloc[0]
    whole = mb.simex(runs, 1.5, replicates=10).iloc[0]
    shift = [np.log2(row.horizon_80 / row.naive_80) for row in (half, whole)]
    assert 0.1 < shift[0] < 0.9 * shift[1]


def test_curves_that_are_such_curves_are_hit():
    steps = np.array([0.0, 0.5, 1.0, 1.5, 2.0])
    laws = {
        "linear": 3 - 2 * steps,
        "quadratic": 1 + steps - 0.7 * steps**2,
        "rational": 2 + 5 / (3 + steps),
    }
    ends = {"linear": 5.0, "quadratic": -0.7, "rational": 4.5}
    for curve, law in laws.items():
        value, trouble = _extrapolated(law[:, None], steps, curve)
        assert value[0] == pytest.approx(ends[curve])
        assert not trouble.any()
    # 1 / (lambda + 0.5) has its pole on the way to -1
    assert _rational(1 / (0.5 + steps) - 2, steps) is None
    value, trouble = _extrapolated((1 / (0.5 + steps))[:, None], steps, "rational")
    assert trouble.all()
    assert value[0] == _extrapolated((1 / (0.5 + steps))[:, None], steps, "quadratic")[0][0]
    assert set(laws) == set(CURVES)


def test_metr_note(metr):
    """METR's note of March 2026: 25 to 40 % shorter at 50 %, 9 to 23 % longer at 80 %.

    It doesn't print the error sizes; timed people differ within a factor of about 3.
    """
    low, high = (mb.simex(metr, sd, replicates=20, seed=2) for sd in (1.0, 1.3))
    for table in (low, high):
        row = table.set_index("agent").loc["Claude Opus 4.6 (Inspect)"]
        assert 0.60 < row.horizon_50 / row.naive_50 < 0.78
        assert 1.08 < row.horizon_80 / row.naive_80 < 1.23


def test_the_seed_hardly_matters(metr):
    few = mb.subset(metr, agent=metr.agent.values[-4:].tolist())
    one, again, other = (mb.simex(few, 1.0, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, again)
    assert (one.horizon_50 != other.horizon_50).all()
    np.testing.assert_allclose(one.horizon_50, other.horizon_50, rtol=0.06)


def test_horizons_in_an_impossible_order_are_noted(metr):
    """A falling curve has its 80 % horizon before its 50 % horizon; noted where that is not so."""
    found = mb.simex(metr, 2.5, replicates=4)
    wrong = found.horizon_80 > found.horizon_50
    assert 0 < wrong.sum() < len(found)
    noted = found.note.str.contains("beyond sense: the 80 % horizon comes out longer than the 50 %")
    assert noted.tolist() == wrong.tolist()


def test_agents_without_a_horizon():
    minutes = 2.0 ** np.arange(8)
    runs = loaded(
        [[2] * 8, [0] * 8, [2, 2, 1, 2, 1, 1, 0, 0], [1, 1, 0, 1, 1, 0, 1, 0]],
        np.full((4, 8), 2),
        minutes,
    )
    found = mb.simex(runs, 3.0, replicates=30)
    assert found.horizon_50[:2].tolist() == [np.inf, 0.0]
    assert found.note[0].startswith("every attempt succeeded")
    assert np.isnan(found.horizon_50[3])
    assert "no finite horizon" in found.note[3]
    line = mb.simex(runs, 3.0, replicates=30, estimate="line")
    assert line.horizon_50[:2].tolist() == [np.inf, 0.0]
    assert line.horizon_50[2:].notna().all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"error_sd": -1.0},
        {"error_sd": np.nan},
        {"error_sd": [1.0, 2.0]},
        {"error_sd": 1.0, "curve": "cubic"},
        {"error_sd": 1.0, "estimate": "slope"},
        {"error_sd": 1.0, "lambdas": (1.0,)},
        {"error_sd": 1.0, "lambdas": (0.0, 1.0)},
        {"error_sd": 1.0, "replicates": 0},
    ],
)
def test_errors(metr, wrong):
    with pytest.raises(InputError):
        mb.simex(metr, **wrong)


@pytest.mark.parametrize("size", [100.0, 1e6, 1e300, np.inf])
def test_errors_longer_than_any_suite_are_refused(metr, size):
    with pytest.raises(mb.InputError, match="error_sd holds"):
        mb.simex(metr, error_sd=size)
