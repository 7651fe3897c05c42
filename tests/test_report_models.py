"""What the page says of models of other shapes: horizons, no ability, no difficulty."""

from __future__ import annotations

import dataclasses
import itertools
import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from fake_fit import ROOT, fake_data, fake_fit, fit_attrs, sample_stats
from test_report import Page

import measurebayes as mb
from measurebayes.errors import InputError
from measurebayes.program.registry import get_model
from measurebayes.report import plot_cancellation, plot_horizons, plot_predictive, plot_triple
from measurebayes.report.curves import predictive_table
from measurebayes.report.figure import to_svg
from measurebayes.report.plots import time_marks
from measurebayes.report.priors import priors_context, used_priors
from measurebayes.report.quantity import finding, quantity_context
from measurebayes.report.sections import _entries
from measurebayes.report.text import time_of

pytest.importorskip("matplotlib")

CHECKS = pd.DataFrame(
    {
        "name": ["rhat", "predictive_agent", "pairs"],
        "passed": [True, False, False],
        "value": [1.0, 0.0, 3.0],
        "text": ["fine", "agents are missed", "pairs are missed"],
    }
)
CHAINS, DRAWS = 2, 60


def horizon_fit(model="horizon_hazard", agents=6, tasks=9, centre=4.0, **options):
    """Return a fit of a model of human time whose draws are made up, in the layout of a fit."""
    data, _ = fake_data(agents=agents, tasks=tasks)
    file = get_model(model, **options)
    rng = np.random.default_rng(5)
    batch, size = ("chain", "draw"), (CHAINS, DRAWS)
    places = centre + 1.5 * np.arange(data.sizes["agent"])
    horizon = rng.normal(places, 0.2, (*size, len(places)))
    variables = {
        "log2_horizon": ((*batch, "agent"), horizon),
        "log2_horizon_mean": (batch, rng.normal(6, 0.3, size)),
        "log2_horizon_sd": (batch, rng.uniform(1, 2, size)),
    }
    if options.get("shape") == "common":
        variables["shape"] = (batch, rng.uniform(0.5, 1, size))
    if options.get("shape") == "agent":
        variables["shape"] = ((*batch, "agent"), rng.uniform(0.5, 1, horizon.shape))
        variables["log_shape_mean"] = (batch, rng.normal(size=size))
        variables["log_shape_sd"] = (batch, rng.uniform(0.1, 1, size))
    coords = {"chain": range(CHAINS), "draw": range(DRAWS), "agent": data["agent"].values}
    source = (ROOT / "models" / f"{model}.py").read_text(encoding="utf-8")
    attrs = fit_attrs(model, source, data, CHAINS, DRAWS, 1)
    attrs |= {"priors": json.dumps(file.priors), "options": json.dumps(dict(file.options))}
    groups = {
        "/": xr.Dataset(attrs=attrs),
        "posterior": xr.Dataset(variables, coords),
        "sample_stats": sample_stats(CHAINS, DRAWS, rng, True),
        "data": data,
    }
    return xr.DataTree.from_dict(groups)


@pytest.fixture(scope="module")
def fit():
    return horizon_fit()


@pytest.fixture(scope="module")
def page(fit, tmp_path_factory):
    path = mb.report(fit, tmp_path_factory.mktemp("report") / "r.html", checks=CHECKS)
    return Page(path.read_text(encoding="utf-8"))


def part(page):
    """The text from the priors on, without the sections before the model."""
    return page.text.split("Equation, assumptions and priors")[1]


# -- a model without ability and difficulty ------------------------------------------------------


def test_every_model_with_failed_checks_is_to_be_read_with_care(page):
    words = part(page)
    care = words.index("Read this with care")
    assert words.index("Time horizons") < care < words.index("Table of all")
    between = words[care : words.index("Table of all")]
    assert "agents are missed" in between
    assert "pairs are missed" in between


def test_predictive_checks_have_their_figures(page):
    labels = [svg["aria-label"] for svg in page.all("svg")]
    assert sum(label.startswith("Predictive check") for label in labels) == 2
    assert "Strokes outside the bars" in page.text


def test_nothing_is_said_of_difficulties_that_there_are_not(page):
    words = part(page)
    assert "always solved" in words  # in the table
    assert "their intervals are wide" not in words
    assert "no difficulty of each task; the table holds what the data say" in words
    assert "Difficulties" not in words


def test_tables_say_what_order_they_have(page, fit):
    words = part(page)
    assert "Agents, by mean log2 horizon, highest first" in words
    assert "Tasks, by human time, longest first" in words
    data = fit["data"].to_dataset()
    order = np.argsort(-data["human_minutes"].values, kind="stable")
    table = words.split("Tasks, by human time")[1]
    at = [table.index(f"{rank} {data['task'].values[k]} ") for rank, k in enumerate(order, 1)]
    assert at == sorted(at)


def test_order_without_variables_and_minutes_is_the_datas():
    fit = fake_fit(agents=4, tasks=6, minutes=False, draws=20, log_likelihood=False)
    fit["posterior"] = fit["posterior"].to_dataset().drop_vars(["difficulty", "ability"])
    tasks, agents = _entries(fit, "task", ("difficulty",)), _entries(fit, "agent", ("ability",))
    assert tasks["order"] == "in the order of the data"
    assert [row["name"] for row in tasks["rows"]] == list(fit["data"]["task"].values)
    rates = [row["rate"] for row in agents["rows"]]
    assert agents["order"].startswith("by share of successes")
    assert rates == sorted(rates, reverse=True)


def test_horizons_stand_as_times_in_the_table(page, fit):
    draws = fit["posterior"]["log2_horizon"].isel(agent=-1).values
    low, middle, high = 2 ** np.quantile(draws, [0.025, 0.5, 0.975]) / 60
    assert middle > 10  # so that hours are whole numbers below
    name = fit["data"]["agent"].values[-1]
    row = part(page).split(f" 1 {name} ", 1)[1]
    assert row.startswith(f"{middle:,.0f} h {low:,.0f} h to {high:,.0f} h ")


def test_replicated_agents_are_ordered_by_horizon_or_else_by_success(fit):
    names = list(fit["data"]["agent"].values)
    assert list(predictive_table(fit, by="agent")["name"]) == names[::-1]
    bare = fit.copy()
    bare["posterior"] = fit["posterior"].to_dataset().rename(log2_horizon="other")
    with pytest.raises(InputError, match="no variable difficulty"):
        plot_predictive(bare, by="difficulty")


# -- priors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "unused"),
    [
        ("constant", "log shape mean, log shape sd"),
        ("common", "log shape sd"),
        ("agent", ""),
    ],
)
def test_only_priors_that_the_model_reads_are_listed(shape, unused):
    fit = horizon_fit(shape=shape)
    found = priors_context(fit, str(fit.attrs["model_source"]))
    assert found["unused"] == unused
    assert len(found["rows"]) + len([name for name in unused.split(", ") if name]) == 4
    assert found["rows"][0]["meaning"].startswith("doublings")


def test_unused_priors_are_named_on_the_page(page):
    words = part(page)
    assert "Not used with these options: log shape mean, log shape sd." in words
    assert words.count("log shape mean") == 1


def test_without_the_model_at_hand_all_priors_are_listed():
    fit = horizon_fit()
    fit.attrs["model_source"] = str(fit.attrs["model_source"]) + "\nraise SystemExit\n"
    assert used_priors(fit) is None
    assert len(priors_context(fit, "")["rows"]) == 4
    assert used_priors(fake_fit(agents=3, tasks=4, draws=10)) == {
        "ability_sd",
        "difficulty_mean",
        "difficulty_sd",
    }


# -- horizons ------------------------------------------------------------------------------------


def test_horizons_are_drawn_at_the_log_of_their_minutes(fit):
    panel = plot_horizons(fit).axes[0]
    rows = [label.get_text() for label in panel.get_yticklabels()]
    horizon = fit["posterior"]["log2_horizon"].stack(sample=("chain", "draw"))
    medians = horizon.quantile(0.5, "sample", method="inverted_cdf").to_series()
    assert rows == list(medians.sort_values(ascending=False).index)
    dots = [line for line in panel.lines if line.get_marker() == "o" and len(line.get_xdata())]
    np.testing.assert_allclose(dots[0].get_xdata(), np.sort(medians)[::-1])
    marks = dict(
        zip([t.get_text() for t in panel.get_xticklabels()], panel.get_xticks(), strict=True)
    )
    assert marks["1 h"] == pytest.approx(np.log2(60))
    assert marks["8 h"] == pytest.approx(np.log2(480))
    low, high = panel.get_xlim()
    assert all(low <= at <= high for at in marks.values())
    with pytest.raises(InputError, match="no curve of success over human time"):
        plot_horizons(fake_fit(agents=3, tasks=4, draws=10, log_likelihood=False))


def test_many_horizons_have_the_same_axis_in_all_panels():
    figure = plot_horizons(horizon_fit(agents=60, centre=-40.0))
    marks = [[t.get_text() for t in panel.get_xticklabels()] for panel in figure.axes]
    assert marks[0] == marks[1] == marks[2]
    assert len(marks[0]) >= 2


@pytest.mark.parametrize(
    ("low", "high"), [(-8, 14), (5.0, 5.2), (3, 9), (-60, -50), (40, 41), (-100, 100)]
)
def test_marks_of_time_are_few_apart_and_inside(low, high):
    marks = time_marks(low, high)
    places = [at for at, _ in marks]
    assert 2 <= len(marks) <= 6
    assert low <= places[0]
    assert places[-1] <= high
    assert all(b - a >= (high - low) / 5 - 1e-9 for a, b in itertools.pairwise(places))
    assert len({text for _, text in marks}) == len(marks) or high - low < 1


def test_long_times_are_marked_in_hours():
    marks = dict(time_marks(np.log2(400), np.log2(10_000), most=5))
    assert set(marks.values()) == {"8 h", "40 h", "80 h", "160 h"}
    hours = [(2.0**at / 60, text) for at, text in time_marks(np.log2(4700), np.log2(2e6))]
    assert all(text == f"{round(number):,} h" for number, text in hours)


@pytest.mark.parametrize(
    ("log2_minutes", "words"),
    [
        (0.0, "1 min"),
        (np.log2(90), "1.5 h"),
        (np.log2(1 / 60), "1 s"),
        (-20.0, "6e-05 s"),
        (60.0, "2e+16 h"),
        (5000.0, "\u2013"),
    ],
)
def test_times_have_units_that_people_use(log2_minutes, words):
    assert time_of(log2_minutes).replace("\u202f", " ") == words


# -- the check of cancellation in words ------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    rates = [[0.98, 0.9, 0.2], [0.8, 0.6, 0.5], [0.4, 0.3, 0.1]]
    agent, task = (x.ravel() for x in np.indices((3, 3)))
    table = {"agent": agent.astype(str), "task": task.astype(str), "attempts": 50}
    table |= {"successes": np.round(50 * np.ravel(rates)).astype(int)}
    table |= {"human_minutes": 2.0**task}
    return mb.cancellation(
        mb.load(pd.DataFrame(table)),
        bands=3,
        against=["rasch_ml", "common_slope"],
        replicates=30,
        progress=False,
    )


def with_p(found, **p):
    """Return the result with explanations of these p values, in 499 replicates."""
    some = {**found.expected["rasch_ml"], "replicates": 499, "low": 0.9, "high": 1.0}
    expected = {
        name: {**some, "p": value, "rate": 0.9 - 0.1 * k}
        for k, (name, value) in enumerate(p.items())
    }
    return dataclasses.replace(found, expected=expected, replicated={})


def test_what_is_found_is_said_of_this_cut_only(found):
    assert found.observed["rate"] == pytest.approx(0.6)
    words = finding(with_p(found, few=0.96, within=0.062, more=0.05, floor=1 / 500))
    assert "At this cut into 3 bands by human minutes that is more than noise makes likely" in words
    assert "under floor (p \u2264 0.002) and more (p = 0.050); " in words
    assert "fewer than noise makes likely under few (p = 0.960); " in words
    assert "within what noise makes likely under within (p = 0.062). " in words
    assert words.endswith("(measurebayes cancellation --cuts 200; docs/cancellation.md).")
    assert "expected" not in words


def test_an_explanation_that_cannot_be_judged_gets_no_verdict(found):
    words = finding(with_p(found, one=np.nan, two=0.5))
    assert "one" not in words.split("At this cut")[1].split("Other cuts")[0]


def test_a_p_value_at_its_floor_is_a_bound_everywhere(found):
    floor = {**found.expected["rasch_ml"], "p": 1 / 31, "replicates": 30}
    result = dataclasses.replace(found, expected={**found.expected, "rasch_ml": floor})
    context = quantity_context({}, result)
    row = next(row for row in context["rows"] if row["name"] == "rasch_ml")
    assert row["p"] == "\u2264 0.032"
    labels = plot_cancellation(result).axes[0].get_yticklabels()
    assert "rasch_ml\np \u2264 0.032" in [label.get_text() for label in labels]


def test_explanations_have_one_order(found):
    context = quantity_context({}, found)
    labels = plot_cancellation(found).axes[0].get_yticklabels()
    drawn = [label.get_text().split("\n")[0] for label in labels]
    assert drawn == context["names"] == [row["name"] for row in context["rows"]]
    rates = [found.expected[name]["rate"] for name in drawn]
    assert rates == sorted(rates)
    table = context["tables"][1]["rows"][0]
    row = found.by_agent.set_index("agent").loc[table["name"]]
    assert table["cells"][-2:] == [f"{100 * row[f'expected {name}']:.2f}" for name in drawn]


def test_signs_of_a_violation_are_upright_and_large(found):
    figure = plot_triple(found)
    signs = [t for t in figure.axes[0].texts if t.get_text() in {"\u2265", "<"}]
    names = figure.axes[0].texts[0].get_fontsize()
    assert len(signs) == 3
    assert all(sign.get_rotation() == 0 and sign.get_fontsize() > 1.5 * names for sign in signs)
    root = ElementTree.fromstring(to_svg(figure, "signs"))
    turns = [e.get("transform", "") for e in root.iter() if (e.text or "") in {"\u2265", "<"}]
    assert len(turns) == 3
    assert all("rotate" not in t or t.split("(")[1].split()[0] in {"0", "-0"} for t in turns)
