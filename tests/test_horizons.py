"""Horizons and trends read off a posterior, against closed forms and simulation."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit, logit

import measurebayes as mb
from measurebayes.backends.simulate import prior_draw
from measurebayes.checks.contract import invented_data
from measurebayes.errors import InputError
from measurebayes.estimands.curves import Curves, average_success, log_odds_of_average
from measurebayes.estimands.trend import acceleration

C = 16.0 * np.sqrt(3.0) / (15.0 * np.pi)  # of the closed form of an averaged logistic curve


def fit_of(variables, draws=1, agents=2, data=None, **attrs):
    """Return the parts of a fit that estimands read: variables by name, with their dims."""
    posterior = xr.Dataset(
        {
            name: (("chain", "draw", *(["agent"] if np.ndim(x) else [])),
                   np.tile(x, (1, draws, *[1] * np.ndim(x))).reshape(1, draws, *np.shape(x)))
            for name, x in variables.items()
        },
        {"chain": [0], "draw": np.arange(draws)},
    )  # fmt: skip
    data = invented_data(agents=agents) if data is None else data
    posterior = posterior.assign_coords(agent=data["agent"].values)
    tree = xr.DataTree.from_dict({"posterior": posterior, "data": data})
    tree.attrs.update({"model": "horizon_task", **attrs})
    return tree


LINES = {"intercept": [3.0, 1.0], "slope": [-0.6, -0.4]}


def test_the_average_over_tasks_is_that_of_simulated_tasks(rng):
    line, sd, log_sd = 1.3, 1.7, 0.5
    a, e = np.exp(log_sd * rng.normal(size=400_000)), sd * rng.normal(size=400_000)
    plain = expit(a * (line - e))
    found = float(average_success(np.array(line), np.array(sd), np.array(log_sd)))
    assert found == pytest.approx(plain.mean(), abs=4 * plain.std() / 400_000**0.5)
    back = log_odds_of_average(np.array(found), np.array(sd), np.array(log_sd))
    assert float(back) == pytest.approx(line, abs=1e-6)


@pytest.mark.parametrize("sd", [0.3, 1.0, 3.0])
def test_half_of_the_tasks_leave_the_horizon_where_it_is_and_widen_the_gap(sd):
    fit = fit_of({**LINES, "task_sd": sd, "log_discrimination_sd": 0.4})
    typical, marginal = (mb.horizons(fit, [0.5, 0.8], kind) for kind in ("typical", "marginal"))
    np.testing.assert_allclose(typical.sel(success=0.5), marginal.sel(success=0.5), rtol=1e-12)
    assert (marginal.sel(success=0.8) < typical.sel(success=0.8)).all()
    plain = fit_of({**LINES, "task_sd": sd})
    gaps = []
    for kind in ("typical", "marginal"):
        found = np.log2(mb.horizons(plain, [0.5, 0.8], kind))
        gaps.append(found.sel(success=0.5) - found.sel(success=0.8))
    ratio = float((gaps[1] / gaps[0]).mean())
    assert ratio == pytest.approx(np.sqrt(1.0 + C**2 * sd**2), rel=0.06)
    exact = log_odds_of_average(np.array(0.8), np.array(sd), np.array(0.0)) / logit(0.8)
    assert ratio == pytest.approx(float(exact), rel=1e-9)


def test_horizons_lie_where_the_curve_crosses_the_rate():
    fit = fit_of({**LINES, "lapse": 0.1, "task_sd": 1.0})
    curves = Curves.of(fit)
    for kind in ("typical", "marginal"):
        for rate in (0.3, 0.5, 0.85):
            x = curves.log2_horizon(rate, kind)
            np.testing.assert_allclose(curves.success(x, kind), rate, rtol=1e-8)
    assert (mb.horizons(fit, 0.95) == 0.0).all()  # never reached: nine of ten at best


def test_survival_curves_are_inverted_too():
    fit = fit_of({"log2_horizon": [3.0, 5.0], "shape": 0.6})
    curves = Curves.of(fit)
    x = curves.log2_horizon(0.8)
    np.testing.assert_allclose(curves.success(x), 0.8, rtol=1e-12)
    np.testing.assert_allclose(mb.horizons(fit, 0.5)[0, 0, :, 0], [8.0, 32.0])


def test_draws_without_a_finite_horizon_count():
    fit = fit_of({"intercept": [1.0, 1.0], "slope": [-0.5, -0.5]}, draws=4)
    slope = fit["posterior"]["slope"].copy(deep=True)
    slope[0, :, 0] = [-0.5, -0.5, 0.0, 0.2]
    fit["posterior"]["slope"] = slope
    table = mb.horizon_table(mb.horizons(fit, 0.5)).set_index("agent")
    assert table.loc["agent 0", "not_finite"] == 0.5
    assert table.loc["agent 0", "high"] == np.inf
    assert table.loc["agent 0", "median"] == pytest.approx(4.0)
    assert table.loc["agent 1", "not_finite"] == 0.0


def test_extrapolation_is_flagged():
    longest = float(invented_data()["human_minutes"].max())
    fit = fit_of({"intercept": [3.0, 1.0], "slope": [-0.2, -2.0]})
    table = mb.horizon_table(mb.horizons(fit, 0.5)).set_index("agent")
    assert table.loc["agent 0", "median"] > longest
    assert table["extrapolated"].tolist() == [True, False]
    assert table["beyond"].tolist() == [1.0, 0.0]


def test_changes_of_order_are_counted_by_draw():
    fit = fit_of({"intercept": [3.0, 2.0], "slope": [-0.6, -0.3]})  # 32 and 102 minutes; 6.4, 4.1
    pair = mb.inversions(fit).iloc[0]
    assert pair["p_changes"] == 1.0
    assert [pair["p_longer_50"], pair["p_longer_80"]] == [0.0, 1.0]
    lines = pd.DataFrame({"agent": ["a", "b"], "intercept": [3.0, 2.0], "slope": [-0.6, -0.3]})
    assert mb.inversions(lines)["longer_50"].tolist() == ["b"]


def test_models_without_a_curve_are_refused():
    fit = fit_of({"ability": [1.0, 2.0]}, model="rasch")
    with pytest.raises(InputError, match="no curve of success over human time"):
        mb.horizons(fit)
    with pytest.raises(InputError, match="kind='middle'"):
        mb.horizons(fit_of(LINES), kind="middle")
    with pytest.raises(InputError, match="no trend over release dates"):
        mb.doubling_days(fit_of(LINES))


# -- trends ---------------------------------------------------------------------------------------


def trend_fit(shape, data, seed=0, draws=3, **changes):
    """Return a fit whose draws are prior draws of a trend with some variables given."""
    name = f"horizon_trend:shape={shape}"
    rng = np.random.default_rng(seed)
    points = [prior_draw(name, data, rng) for _ in range(draws)]
    names = [n for n in points[0] if n != "successes"]
    posterior = xr.Dataset({n: xr.concat([p[n] for p in points], "draw") for n in names})
    posterior = posterior.expand_dims("chain").assign_coords(chain=[0], draw=np.arange(draws))
    for variable, value in changes.items():
        posterior[variable] = xr.full_like(posterior[variable], value)
    model = mb.get_model(name)
    tree = xr.DataTree.from_dict({"posterior": posterior, "data": data})
    tree.attrs.update(
        model="horizon_trend", model_source=model.source, priors=json.dumps(model.priors),
        options=json.dumps(dict(model.options)),
    )  # fmt: skip
    return tree


@pytest.mark.parametrize("shape", ["linear", "quadratic", "power", "saturating", "piecewise"])
def test_the_line_of_a_trend_passes_through_the_trend_of_the_agents(shape):
    data = invented_data()
    fit = trend_fit(shape, data)
    line = mb.trend_line(fit, data["release_date"].values)
    trend = fit["posterior"]["trend"].transpose("chain", "draw", "agent")
    np.testing.assert_allclose(line.values, trend.values, rtol=1e-10, atol=1e-10)


def test_doubling_time_and_dates_of_a_straight_trend():
    data = invented_data()
    fit = trend_fit("linear", data, rate=2.0, level=3.0)
    np.testing.assert_allclose(mb.doubling_days(fit), 365.25 / 2.0, rtol=1e-9)
    dates = data["release_date"].values
    middle = dates.min() + (dates.max() - dates.min()) / 2
    expected = middle + np.timedelta64(round(365.25 / 2.0 * 3.0), "D")  # from 8 minutes to 64
    found = mb.crossing_dates(fit, 64.0)
    late = (found.values - expected) / np.timedelta64(1, "D")
    assert np.all(np.abs(late) <= 1)
    assert (mb.crossing_dates(fit, 1e-9).values == dates.min()).all()
    assert mb.crossing_dates(fit, 64.0, until="2023-06-01").attrs["not_reached"] == 1.0
    falling = trend_fit("linear", data, rate=-1.0)
    assert np.isinf(mb.doubling_days(falling)).all()
    table = mb.trend_table({"up": fit, "down": falling}, weights={"up": 3.0, "down": 1.0})
    assert table.loc["up", "p_not_rising"] == 0.0
    assert table.loc["weighted", "p_not_rising"] == pytest.approx(1 / 3)  # of three draws
    with pytest.raises(InputError, match="weights for 'up'"):
        mb.trend_table({"up": fit, "down": falling}, weights={"up": 1.0})


def test_acceleration_of_a_quadratic_trend_is_its_second_derivative_times_the_range():
    data = invented_data()
    fit = trend_fit("quadratic", data, curvature=0.5)
    dates = data["release_date"].values
    span = (dates.max() - dates.min()) / np.timedelta64(1, "D") / 365.25
    # rates are over the week before a date
    np.testing.assert_allclose(acceleration(fit), span - 7 / 365.25, rtol=1e-6)
