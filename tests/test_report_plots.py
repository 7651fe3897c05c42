"""The figures: what they draw is what the posterior and the data hold."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from fake_fit import fake_fit
from scipy.special import expit

from measurebayes.errors import InputError
from measurebayes.report import (
    plot_abilities,
    plot_difficulties,
    plot_icc,
    plot_predictive,
    plot_ranks,
    plot_wright,
)
from measurebayes.report.curves import informative_tasks, predictive_table
from measurebayes.report.figure import to_svg
from measurebayes.report.plots import spread
from measurebayes.report.summary import counts_table, data_of, interval_table

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def fit():
    return fake_fit("two_pl", agents=7, tasks=10, log_likelihood=False)


def ticks(panel):
    return [label.get_text() for label in panel.get_yticklabels()]


def ends(panel, width):
    """Return the ends of the horizontal segments of one line width, by row."""
    found = {}
    for line in panel.lines:
        if line.get_linewidth() == width and len(line.get_xdata()) > 2:
            x, y = np.reshape(line.get_xdata(), (-1, 3)), np.reshape(line.get_ydata(), (-1, 3))
            found |= {int(row): (low, high) for (low, high, _), row in zip(x, y[:, 0], strict=True)}
    return found


def test_abilities_are_sorted_with_quantiles_as_ends(fit):
    panel = plot_abilities(fit).axes[0]
    draws = fit["posterior"]["ability"].stack(sample=("chain", "draw"))
    order = draws.mean("sample").to_series().sort_values(ascending=False).index
    assert ticks(panel) == list(order)
    assert panel.get_xlabel() == "Ability (logits)"
    quantiles = np.quantile(draws.sel(agent=order).values, [0.025, 0.25, 0.75, 0.975], axis=1)
    for row in range(len(order)):
        np.testing.assert_allclose(ends(panel, 1.4)[row], quantiles[[0, 3], row])
        np.testing.assert_allclose(ends(panel, 3.5)[row], quantiles[[1, 2], row])


def test_difficulties_mark_saturated_tasks(fit):
    figure = plot_difficulties(fit)
    states = counts_table(data_of(fit), "task")["state"]
    assert {"always solved", "never solved"} <= set(states)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["mean, 50 %", "95 %", "always solved", "never solved"]
    triangles = sum(
        len(line.get_xdata()) for line in figure.axes[0].lines if line.get_marker() in {"v", "^"}
    )
    assert triangles == (states != "").sum()


def test_many_tasks_have_named_ends_and_all_between():
    figure = plot_difficulties(fake_fit(agents=6, tasks=80, draws=40, log_likelihood=False))
    first, middle, last = figure.axes
    assert len(ticks(first)) == len(ticks(last)) == 10
    assert ticks(middle) == []
    assert middle.get_ylabel() == "all 80 tasks"
    assert len(ends(middle, 0.7)) == 80


def test_wright_map_has_every_agent_at_its_mean(fit):
    left, right = plot_wright(fit).axes
    texts = {text.get_text() for text in left.texts}
    assert texts == set(data_of(fit)["agent"].values)
    drawn = np.sort(left.lines[0].get_ydata())
    np.testing.assert_allclose(drawn, np.sort(interval_table(fit, "ability", "agent")["mean"]))
    shown = sum(bar.get_width() for bar in right.patches)
    outside = sum(int("".join(filter(str.isdigit, text.get_text()))) for text in right.texts)
    assert shown + outside == 10


@pytest.mark.parametrize("model", ["rasch", "two_pl"])
def test_curves_are_the_models_equation(model):
    fit = fake_fit(model, agents=5, tasks=6, draws=25, log_likelihood=False)
    name = informative_tasks(fit)[1]
    panel = plot_icc(fit, tasks=[name]).axes[0]
    x, y = panel.lines[0].get_data()
    draws = fit["posterior"].to_dataset().sel(task=name)
    slope = draws["discrimination"].values.ravel() if model == "two_pl" else 1.0
    expected = expit(slope * (x[:, None] - draws["difficulty"].values.ravel())).mean(1)
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_points_are_observed_shares(fit):
    name = informative_tasks(fit)[2]
    panel = plot_icc(fit, tasks=[name]).axes[0]
    cells = data_of(fit)[["agent_index", "task_index", "attempts", "successes"]].to_dataframe()
    mine = cells[cells["task_index"] == list(data_of(fit)["task"].values).index(name)]
    ability = interval_table(fit, "ability", "agent")["mean"].to_numpy()
    points = np.asarray(panel.collections[-1].get_offsets())
    expected = np.column_stack([ability[mine["agent_index"]], mine["successes"] / mine["attempts"]])
    np.testing.assert_allclose(points, expected)


def test_informative_tasks_are_not_saturated(fit):
    states = dict(
        zip(data_of(fit)["task"].values, counts_table(data_of(fit), "task")["state"], strict=True)
    )
    assert [states[name] for name in informative_tasks(fit)] == [""] * 6


def test_many_agents_are_pooled_without_loss():
    fit = fake_fit(agents=200, tasks=4, attempts=1, saturated=False, draws=25, log_likelihood=False)
    panel = plot_icc(fit, tasks=["task 2"]).axes[0]
    rates = np.asarray(panel.collections[-1].get_offsets())[:, 1]
    rows = data_of(fit)["task_index"].values == 1
    assert len(rates) == 8
    overall = data_of(fit)["successes"].values[rows].mean()
    assert rates.mean() == pytest.approx(overall, abs=0.01)  # groups differ by one agent at most


def test_unknown_task_is_named_with_near_ones(fit):
    with pytest.raises(InputError, match=r"task 1"):
        plot_icc(fit, tasks=["tsk 1"])


def test_predictive_table_holds_observed_shares(fit):
    table = predictive_table(fit, by="agent").set_index("name")
    cells = data_of(fit).drop_vars(["agent", "task", "family"])
    cells = cells[["agent_index", "attempts", "successes"]].to_dataframe()
    sums = cells.groupby("agent_index").sum()
    sums.index = data_of(fit)["agent"].values
    expected = (sums["successes"] / sums["attempts"]).loc[table.index]
    np.testing.assert_allclose(table["observed"], expected)
    assert (table["attempts"] == sums["attempts"].loc[table.index]).all()


def test_replicates_of_the_true_model_cover_the_data():
    fit = fake_fit(agents=20, tasks=30, seed=4, log_likelihood=False)
    table = pd.concat([predictive_table(fit, by=by) for by in ("agent", "minutes", "difficulty")])
    inside = table["observed"].between(table["low95"], table["high95"])
    assert inside.mean() > 0.9


def test_predictive_bands_hold_equal_numbers_of_tasks(fit):
    table = predictive_table(fit)
    assert table.attrs["title"] == "Human time"
    assert len(table) == 6
    assert table["attempts"].sum() == data_of(fit)["attempts"].sum()
    without = fake_fit(agents=4, tasks=12, minutes=False, draws=20, log_likelihood=False)
    assert predictive_table(without).attrs["title"] == "Difficulty (logits)"
    with pytest.raises(InputError, match="human_minutes"):
        plot_predictive(without, by="minutes")


def test_replicates_follow_from_the_seed(fit):
    one, two = predictive_table(fit, seed=3), predictive_table(fit, seed=3)
    pd.testing.assert_frame_equal(one, two)
    assert not one["mean"].equals(predictive_table(fit, seed=4)["mean"])


def test_replicates_are_made_in_blocks(fit, monkeypatch):
    monkeypatch.setattr("measurebayes.report.curves.BUDGET", 1)
    table = predictive_table(fit, by="agent")
    assert len(table) == 7
    assert table["sd"].between(0.001, 0.2).all()


def test_ranks_of_disagreeing_chains_are_not_flat():
    def unevenness(fit):
        panel = plot_ranks(fit, ["ability_sd"]).axes[0]
        return max(np.ptp(line.get_ydata()) for line in panel.lines)

    design = {"agents": 3, "tasks": 4, "log_likelihood": False}
    assert unevenness(fake_fit(converged=True, **design)) < 1.5
    assert unevenness(fake_fit(converged=False, **design)) > 3


def test_ranks_name_an_unknown_parameter(fit):
    with pytest.raises(InputError, match="ability_sd"):
        plot_ranks(fit, ["abilitysd"])


def test_model_without_the_variable_is_refused(fit):
    bare = fit.copy()
    bare["posterior"] = fit["posterior"].to_dataset().drop_vars("difficulty")
    with pytest.raises(InputError, match="no variable difficulty"):
        plot_difficulties(bare)


@pytest.mark.parametrize(
    ("values", "gap", "limits"),
    [
        ([0.0, 0.0, 0.0], 1.0, (-5, 5)),
        ([-4.9, -4.9, 4.9, 4.9], 1.0, (-5, 5)),
        (list(np.linspace(0, 0.1, 50)), 1.0, (-5, 5)),
        ([1.0], 1.0, (0, 2)),
        ([-3.0, 0.0, 3.0], 0.5, (-5, 5)),
    ],
)
def test_labels_are_moved_apart_in_order_and_within_limits(values, gap, limits):
    moved = spread(np.array(values), gap, limits)
    assert len(moved) == len(values)
    assert moved.min() >= limits[0]
    assert moved.max() <= limits[1]
    room = (limits[1] - limits[0] - gap) / max(len(values) - 1, 1)
    assert (np.diff(moved) >= min(gap, room) - 1e-9).all()
    if (np.diff(values) >= gap).all():
        np.testing.assert_allclose(moved, values)


def test_svg_is_small_has_text_and_own_ids(fit):
    one, two = to_svg(plot_abilities(fit), "one"), to_svg(plot_wright(fit), "two")
    root = ElementTree.fromstring(one)
    assert root.get("aria-label") == "one"
    assert "Ability (logits)" in [element.text for element in root.iter()]
    ids = [
        {e.get("id") for e in ElementTree.fromstring(text).iter() if e.get("id")}
        for text in (one, two)
    ]
    assert not ids[0] & ids[1]
    assert len(one) < 60_000
    assert one == to_svg(plot_abilities(fit), "one")


def test_svg_has_the_words_of_hostile_names():
    names = ["<b>&", "$x$ $\\frac$", "emoji 🤖", "שלום", "tab\tnewline\n"]
    fit = fake_fit(agents=names, tasks=4, draws=20, log_likelihood=False)
    root = ElementTree.fromstring(to_svg(plot_abilities(fit), "'\"<>&"))
    texts = {element.text for element in root.iter() if element.text}
    assert {"<b>&", "$x$ $\\frac$", "emoji 🤖", "שלום", "tab⇥newline↵"} <= texts


@pytest.mark.slow
def test_drawing_changes_no_global_state():
    code = """
import sys
sys.path.insert(0, "tests")
from fake_fit import fake_fit
import matplotlib
def settings():  # asking for the backend would import pyplot
    return {key: matplotlib.rcParams[key] for key in matplotlib.rcParams if key != "backend"}
before = settings()
from measurebayes.report import plot_abilities
figure = plot_abilities(fake_fit(agents=3, tasks=4, draws=20))
assert figure._repr_svg_().startswith("<svg")
assert settings() == before
print("matplotlib.pyplot" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
