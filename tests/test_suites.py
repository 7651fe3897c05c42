"""Rules for flagged records in one call, and agents on two versions of a suite."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import measurebayes as mb
from measurebayes.data import validate
from measurebayes.errors import InputError
from measurebayes.estimands.suites import _compared, as_successes


@pytest.fixture
def records(rng):
    """Two agents, nine tasks, four attempts each; some errored, two not administered."""
    rows = [
        {"agent": agent, "task": f"task {j}", "human_minutes": 2.0**j, "attempt": k}
        for agent in ("a", "b")
        for j in range(9)
        for k in range(4)
    ]
    table = pd.DataFrame(rows)
    table["success"] = (rng.random(len(table)) < 1 / (1 + table.human_minutes / 20)).astype(float)
    table["status"] = "scored"
    flagged = rng.choice(len(table), 12, replace=False)
    table.loc[flagged, ["status", "success"]] = ["errored", np.nan]
    table.loc[flagged[:2], "status"] = "not_administered"
    # a cell of which nothing is scored
    table.loc[(table.agent == "a") & (table.task == "task 8"), ["status", "success"]] = [
        "errored",
        np.nan,
    ]
    return table.drop(columns="attempt")


def test_rules_count_records_as_they_say(records):
    def totals(runs):
        validate(runs)
        return int(runs.attempts.sum()), int(runs.successes.sum())

    found = mb.under_rules(records, totals, ["failure", "missing", "success"])
    scored = records[records.status == "scored"]
    flagged = int((records.status == "errored").sum())
    assert found["missing"] == (len(scored), int(scored.success.sum()))
    assert found["failure"] == (len(scored) + flagged, int(scored.success.sum()))
    assert found["success"] == (len(scored) + flagged, int(scored.success.sum()) + flagged)


def test_tables_are_put_together(records):
    rules = {"strict": "failure", "lenient": "success"}
    found = mb.under_rules(records, mb.classical_horizons, rules)
    assert found.columns[:2].tolist() == ["rule", "agent"]
    assert found.rule.tolist() == ["strict", "strict", "lenient", "lenient"]
    alone = mb.classical_horizons(mb.load(records, policy="failure"))
    assert found.horizon_50[:2].tolist() == alone.horizon_50.tolist()
    assert (found.horizon_50[2:].values > found.horizon_50[:2].values).all()


def test_successes_by_cell(records):
    """Each cell against the rows of the table."""
    runs = as_successes(mb.load(records, policy="missing"))
    table = records[records.status != "not_administered"].assign(
        success=lambda t: t.success.fillna(1.0)
    )
    expected = table.groupby(["agent", "task"]).success.agg(["size", "sum"])
    for i, j, n, k in zip(
        runs.agent_index.values,
        runs.task_index.values,
        runs.attempts.values,
        runs.successes.values,
        strict=True,
    ):
        assert (n, k) == tuple(expected.loc[(str(runs.agent[i].values), str(runs.task[j].values))])
    assert runs.sizes["cell"] == len(expected)
    assert set(runs.get("unscored_status", np.array([])).values.tolist()) <= {"not_administered"}


def test_no_rules(records):
    for rules, options in (([], {}), (["failure"], {"policy": "missing"})):
        with pytest.raises(InputError, match=r"polic|rules"):
            mb.under_rules(records, lambda runs: 0, rules, **options)


def test_the_same_suite_twice_differs_by_chance_only(metr):
    few = mb.subset(metr, agent=metr.agent.values[:2].tolist())
    found = mb.compare_suites(few, few, bootstrap=300, seed=1)
    assert found.agent.tolist() == np.repeat(few.agent.values, 2).tolist()
    assert found.success.tolist() == [0.5, 0.8] * 2
    assert found.attrs == {"only_old": [], "only_new": []}
    assert ((found.ratio_low < 1) & (found.ratio_high > 1)).all()
    assert ((found.p_longer > 0.4) & (found.p_longer < 0.6)).all()
    alone = mb.classical_horizons(few, bootstrap=300, seed=1)
    # twice the variance of one suite's log horizon
    spread = np.log(alone.horizon_50_high / alone.horizon_50_low).to_numpy() * np.sqrt(2)
    half = found[found.success == 0.5]
    np.testing.assert_allclose(np.log(half.ratio_high / half.ratio_low), spread, rtol=0.25)


def test_tasks_that_take_people_longer_make_horizons_longer(metr):
    few = mb.subset(metr, agent=metr.agent.values[-3:].tolist())
    slower = few.assign(human_minutes=few.human_minutes * 16)
    found = mb.compare_suites(few, slower, bootstrap=100)
    assert found.p_longer.min() > 0.9
    np.testing.assert_allclose(found.ratio, 16, rtol=0.35)
    other = few.assign_coords(agent=["x", "y", "z"])
    with pytest.raises(InputError, match="no agent in common"):
        mb.compare_suites(few, other)


def test_infinite_horizons_in_pairs_of_draws():
    old = np.array([1.0, np.inf, np.inf, 4.0, np.nan])
    new = np.array([2.0, np.inf, 8.0, np.inf, 1.0])
    found = _compared(old, new, 0.5)
    assert found["p_longer"] == (2 + 0.5) / 4
    assert found["both_infinite"] == 0.25
    assert found["ratio"] == 2.0
    assert found["ratio_low"] == 0.0
    assert found["ratio_high"] == np.inf


def test_fits_are_compared_by_their_draws(rng, monkeypatch):
    """Draws that are normal in logarithms: difference and probability are known."""

    def horizons(fit, success, kind="typical"):
        assert (success, kind) == ([0.5], "marginal")
        return fit["posterior"]["horizon"]

    def fit(mean, draws, agents):
        drawn = np.exp(rng.normal(mean, 0.3, (2, draws, len(agents), 1)))
        dims = ("chain", "draw", "agent", "success")
        made = xr.DataArray(drawn, dims=dims, coords={"agent": agents, "success": [0.5]})
        return xr.DataTree.from_dict({"posterior": xr.Dataset({"horizon": made})})

    module = SimpleNamespace(horizons=horizons)
    monkeypatch.setitem(sys.modules, "measurebayes.estimands.horizons", module)
    old, new = fit(2.0, 3000, ["a", "b", "c"]), fit(2.4, 2000, ["c", "a", "d"])
    with pytest.warns(UserWarning, match="1 of 3 agents of the old suite .*'b'.* new .*'d'"):
        found = mb.compare_suites(old, new, success=[0.5], kind="marginal")
    assert (found.attrs["only_old"], found.attrs["only_new"]) == (["b"], ["d"])
    assert found.agent.tolist() == ["a", "c"]
    np.testing.assert_allclose(np.log(found.ratio), 0.4, atol=0.04)
    sd = 0.3 * np.sqrt(2)
    np.testing.assert_allclose(np.log(found.ratio_high), 0.4 + 1.96 * sd, atol=0.1)
    np.testing.assert_allclose(found.p_longer, 0.827, atol=0.03)  # Phi(0.4 / sd)


def test_kinds_of_horizons_are_those_of_fits(metr):
    with pytest.raises(mb.InputError, match="kind='marginal' for data"):
        mb.compare_suites(metr, metr, kind="marginal", bootstrap=2)
    with pytest.raises(TypeError):
        mb.compare_suites(metr, metr, foo=1)
