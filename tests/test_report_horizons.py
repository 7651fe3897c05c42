"""The section "Time horizons" and its figures: what it says, of numbers that are known."""

import json

import numpy as np
import pytest
import xarray as xr
from fake_horizons import HORIZONS, horizon_fit

import measurebayes as mb
from measurebayes.errors import InputError
from measurebayes.program.human_times import Records
from measurebayes.report.horizon_figures import plot_horizons, plot_success, plot_trend
from measurebayes.report.horizons import (
    _misfit_words,
    _spread_of_timings,
    cautions_of,
    error_words,
    horizons_context,
)

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def fit():
    return horizon_fit(draws=50)


@pytest.fixture(scope="module")
def section(fit):
    trend = horizon_fit("horizon_trend", draws=50)
    return horizons_context({"task": fit, "trend": trend}, doubtful=["trend"])


def test_the_longest_horizon_leads_and_is_marked(section):
    task, trend = section
    assert task["lead"].startswith("newest has the longest 50\u202f% horizon, ")
    assert "that is an extrapolation, as the longest task takes 16\u202fh" in task["lead"]
    assert task["cautions"][0].startswith("One 50\u202f% horizon lies beyond the longest task")
    assert [row["name"] for row in task["rows"]] == ["newest", "new", "middle", "old"]
    assert [row["extrapolated"] for row in task["rows"]] == [True, False, False, False]
    assert (task["doubtful"], trend["doubtful"]) == (False, True)
    assert not task["trend"]
    assert trend["trend"].startswith("Under a linear trend, 50\u202f% horizons of agents")
    assert set(trend["figures"]) == {"horizons", "success", "trend"}


def test_rows_hold_typical_and_random_tasks(section, fit):
    row = section[0]["rows"][-1]  # old: 2 minutes
    random = mb.horizon_table(mb.horizons(fit, 0.8, "marginal"), 0.95).set_index("agent")
    assert len(row["cells"]) == 6
    assert row["cells"][0].endswith("\u202fmin")
    assert float(row["cells"][0].split("\u202f")[0]) == pytest.approx(HORIZONS[0], abs=0.5)
    seconds = random.loc["old", "median"] * 60
    assert float(row["cells"][4].split("\u202f")[0]) == pytest.approx(seconds, abs=0.51)


def test_models_without_curves_have_no_section():
    from fake_fit import fake_fit

    assert horizons_context({"rasch": fake_fit(agents=3, tasks=4, draws=10)}) == []


def test_a_power_likelihood_is_called_so(fit):
    weighted = fit.copy()
    weighted.attrs["options"] = json.dumps({"weights": "family"})
    cautions = cautions_of(weighted, mb.horizon_table(mb.horizons(weighted, 0.5)), 960.0)
    assert cautions[0].startswith("Power likelihood: ")


def test_errors_of_times_rest_on_priors_without_timings(fit):
    latent = fit.copy()
    names = ["", "elsewhere"]
    sd = xr.DataArray(np.full((2, 50, 2), [1.0, 2.0]), dims=("chain", "draw", "suite"))
    posterior = fit["posterior"].to_dataset().assign(timing_sd=sd.assign_coords(suite=names))
    latent["posterior"] = xr.DataTree(posterior)
    latent.attrs["priors"] = json.dumps({"timing_sd": 1.25, "log_timing_sd": 0.3})
    sizes, untold = error_words(latent)
    assert "a factor of 2.0 (2.0 to 2.0; 1.00 doublings) in these data; 4.0 (4.0" in sizes
    assert untold.startswith("No task was timed on several people in these data, elsewhere: ")
    # 2^1.25 and 2^(1.25 exp(-+ 0.3 x 1.96))
    assert "median a factor of 2.4, 95\u202f% 1.6 to 4.8" in untold
    assert error_words(fit) == []


def test_errors_beyond_their_prior_are_a_misfit_unless_timings_say_so(fit):
    latent = fit.copy()
    sd = xr.DataArray(np.full((2, 50, 1), 3.0), dims=("chain", "draw", "suite"))
    posterior = fit["posterior"].to_dataset().assign(timing_sd=sd.assign_coords(suite=[""]))
    latent["posterior"] = xr.DataTree(posterior)
    latent.attrs["priors"] = json.dumps({"timing_sd": 1.25, "log_timing_sd": 0.3})
    found = error_words(latent)[-1]
    # 2^3, and 2^(1.25 exp(0.3 x 1.96))
    assert "a factor of 8.0, where 97.5\u202f% of the prior lie under 4.8" in found
    assert "says nothing of how much people's times differ" in found
    priors = {"timing_sd": 1.25, "log_timing_sd": 0.3}
    draws = sd.values.ravel()
    assert "differ by a factor of 2.0)" in _misfit_words("a", draws, priors, 1.0)[0]
    assert _misfit_words("a", draws, priors, 2.5) == []
    assert _misfit_words("a", draws - 1.0, priors, 1.0) == []


def test_spread_of_people_at_one_task():
    """Two tasks timed twice and thrice, one timed once, one of another suite."""
    timed = Records(
        np.array([0, 0, 1, 1, 1, 2, 3, 3]),
        np.array([1.0, 3.0, 0.0, 3.0, 3.0, 9.0, 0.0, 9.0]),
        np.ones(8),
    )
    of_suite = np.array([True, True, True, False])
    assert _spread_of_timings(timed, of_suite) == pytest.approx(np.sqrt((2.0 + 6.0) / 3))
    assert np.isnan(_spread_of_timings(timed, np.array([False, False, True, False])))


def test_share_of_length_is_the_ratio_of_variances(fit):
    found = mb.length_share(fit)
    posterior, data = fit["posterior"].to_dataset(), fit["data"].to_dataset()
    steepness = np.exp(posterior["log_steepness_mean"].values)
    lengths = steepness**2 * np.var(np.log2(data["human_minutes"].values))
    expected = lengths / (lengths + posterior["task_sd"].values ** 2)
    np.testing.assert_allclose(found["share"], expected)
    np.testing.assert_allclose(found["factor"], 2 ** (posterior["task_sd"].values / steepness))
    bare = fit.copy()
    bare["posterior"] = xr.DataTree(posterior.drop_vars("task_sd"))
    with pytest.raises(InputError, match="no effects of tasks"):
        mb.length_share(bare)


def test_figures_show_what_they_say(fit):
    panel = plot_horizons(fit).axes[0]
    rows = [label.get_text() for label in panel.get_yticklabels()]
    assert rows == ["newest", "new", "middle", "old"]
    shaded = [patch for patch in panel.patches if patch.get_label() == "beyond the longest task"]
    assert shaded[0].get_x() == pytest.approx(np.log2(960))
    figure = plot_success(fit, agents=["old", "new"])
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["old", "new"]
    line = next(x for x in figure.axes[1].lines if x.get_label() == "typical task")
    at_half = np.interp(0.5, line.get_ydata()[::-1], line.get_xdata()[::-1])
    assert at_half == pytest.approx(np.log2(90), abs=0.2)
    with pytest.raises(InputError, match="no agent"):
        plot_success(fit, agents=["nobody"])
    with pytest.raises(InputError, match="no trend"):
        plot_trend(fit)


def test_a_level_has_the_unit_of_its_model():
    from measurebayes.report.text import unit_of

    assert unit_of("level", "horizon_trend") == "log2 minutes"
    assert unit_of("level", "additive") == unit_of("level") == "logits"
