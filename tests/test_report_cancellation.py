"""The section "Is it a quantity?" and its two figures."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
from fake_fit import fake_data, fake_fit, fit_of
from test_report import Page

import measurebayes as mb
from measurebayes.errors import InputError
from measurebayes.report import plot_cancellation, plot_triple
from measurebayes.report.figure import BLUE, VERMILION
from measurebayes.report.quantity import finding, quantity_context, usual_check

pytest.importorskip("matplotlib")

EVIL = "<script>alert(1)</script>"
CHECKS = pd.DataFrame({"name": ["x"], "passed": [True], "value": [1.0], "text": [""]})


def counts(rates, attempts=50, minutes=True, agents=None):
    """Return data with these success rates (agent, task), to the nearest count."""
    rates = np.asarray(rates, dtype=float)
    agent, task = (x.ravel() for x in np.indices(rates.shape))
    names = agents or [f"agent {i}" for i in range(len(rates))]
    columns = {
        "agent": [names[i] for i in agent],
        "task": [f"{EVIL} {j}" for j in task],
        "attempts": attempts,
        "successes": np.round(attempts * rates.ravel()).astype(int),
    }
    if minutes:
        columns["human_minutes"] = 2.0**task
    return mb.load(pd.DataFrame(columns))


# a, y >= b, x and b, z >= c, y, but a, z < c, x; the three others make nothing worse.
BROKEN = [[0.98, 0.9, 0.2], [0.8, 0.6, 0.5], [0.4, 0.3, 0.1]]
KEPT = [[0.9, 0.8, 0.6], [0.7, 0.5, 0.3], [0.5, 0.3, 0.1]]


def checked(rates=BROKEN, **options):
    runs = counts(rates, **options)
    return mb.cancellation(
        runs, bands=3, against=["rasch_ml", "common_slope"], replicates=40, progress=False
    )


@pytest.fixture(scope="module")
def broken():
    return checked()


@pytest.fixture(scope="module")
def kept():
    return checked(KEPT)


@pytest.fixture(scope="module")
def fits():
    """Fits of data with a hostile name everywhere; the second has not converged."""
    agents = [EVIL, "$x$ & \\frac", "m" * 200, *[f"agent {k}" for k in range(5)]]
    data, truth = fake_data(agents=agents, tasks=[f"{EVIL} {k}" for k in range(24)])
    good = fit_of(data, truth, "two_pl", draws=200)
    return {EVIL: good, "bad": fit_of(data, truth, "rasch", draws=50, converged=False)}


@pytest.fixture(scope="module")
def written(fits, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    with warnings.catch_warnings():  # draws made up around a truth need not compare well
        warnings.simplefilter("ignore", UserWarning)
        mb.report(fits, path, checks=dict.fromkeys(fits, CHECKS))
    return path.read_text(encoding="utf-8")


def section(page):
    return page.text.split("Is it a quantity? ", 2)[2].split("Equation, assumptions")[0]


# -- figures -----------------------------------------------------------------------------------


def test_rows_are_sorted_replicates_and_the_line_is_the_data(broken):
    panel = plot_cancellation(broken).axes[0]
    rows = [label.get_text().split("\n") for label in panel.get_yticklabels()]
    names = [row[0] for row in rows]
    means = [100 * broken.expected[name]["rate"] for name in names]
    assert sorted(names) == ["common_slope", "rasch_ml"]
    assert means == sorted(means)
    (line,) = [line for line in panel.lines if line.get_color() == VERMILION]
    assert line.get_xdata()[0] == pytest.approx(100 * broken.observed["rate"])
    assert f"{100 * broken.observed['rate']:.2f} %" in line.get_label()
    dots = [line for line in panel.lines if line.get_marker() == "o"]
    np.testing.assert_allclose([dot.get_xdata()[0] for dot in dots], means)
    thin = [line for line in panel.lines if line.get_linewidth() == 1.4]
    for name, ends in zip(names, thin, strict=True):
        low, high = (100 * broken.expected[name][end] for end in ("low", "high"))
        np.testing.assert_allclose(ends.get_xdata(), [low, high])
    assert all(row[1].startswith("p ") for row in rows)


def test_triple_shows_six_rates_of_a_violation_and_three_signs(broken):
    row = broken.violations.iloc[0]
    figure = plot_triple(broken)
    texts = [text.get_text() for text in figure.axes[0].texts]
    for entry in ("ay", "bx", "bz", "cy", "az", "cx"):
        assert f"{100 * row[entry]:.1f} %" in texts
    assert texts.count("\u2265") == 2
    assert texts.count("<") == 1
    for name in ("agent_a", "agent_b", "agent_c"):
        assert str(row[name]) in texts
    assert any(str(row["band_x"]).split()[0] in text for text in texts)


def test_each_relation_of_a_triple_reads_from_left_to_right(broken):
    """The arrow of a relation begins at its left side's rate and ends at its right side's."""
    row, panel = broken.violations.iloc[0], plot_triple(broken).axes[0]
    at = {t.get_text(): np.array(t.get_position()) for t in panel.texts if "%" in t.get_text()}
    arrows = [t for t in panel.texts if getattr(t, "arrow_patch", None) is not None]
    assert [a.arrowprops["color"] for a in arrows] == [BLUE, BLUE, VERMILION]
    for (one, other), arrow in zip((("ay", "bx"), ("bz", "cy"), ("az", "cx")), arrows, strict=True):
        start, end = (at[f"{100 * row[entry]:.1f} %"] for entry in (one, other))
        assert start[0] < end[0]
        np.testing.assert_allclose(arrow.get_position(), start, atol=0.3)
        np.testing.assert_allclose(arrow.xy, end, atol=0.3)


def test_only_a_violation_can_be_drawn(broken, kept):
    assert kept.observed["violations"] == 0
    with pytest.raises(InputError, match="no violation"):
        plot_triple(kept)
    with pytest.raises(InputError, match="from 0 to"):
        plot_triple(broken, row=len(broken.violations))
    assert plot_cancellation(kept).axes[0].get_xlim()[0] == 0


def test_nothing_to_draw_is_said(kept):
    empty = dataclasses.replace(kept, observed={"cases": 0, "violations": 0, "rate": np.nan})
    with pytest.raises(InputError, match="no case"):
        plot_cancellation(empty)
    with pytest.raises(InputError, match="no explanation"):
        plot_cancellation(dataclasses.replace(kept, expected={}, replicated={}))


# -- words -------------------------------------------------------------------------------------


def test_finding_sorts_explanations_by_p(broken):
    p = {"one": 0.01, "two": 0.2, "three": 0.05, "four": 0.99}
    some = {**broken.expected["rasch_ml"], "replicates": 500}
    expected = {n: {**some, "p": value} for n, value in p.items()}
    words = finding(dataclasses.replace(broken, expected=expected))
    assert (
        "that is more than noise makes likely under one (p = 0.010) and three (p = 0.050)" in words
    )
    assert "within what noise makes likely under two (p = 0.200) and four (p = 0.990)." in words
    violations, cases = broken.observed["violations"], broken.observed["cases"]
    assert words.startswith(f"{violations} of {cases} cases (")


def test_usual_check_takes_fits_and_estimates(fits):
    result = usual_check(fits)
    assert list(result.expected) == [EVIL, "bad", "rasch_ml", "common_slope"]
    assert {row["replicates"] for row in result.expected.values()} == {500}
    assert len(result.bands) == 6
    assert result.by == "human minutes"


def test_without_minutes_bands_are_by_difficulty():
    fit = fake_fit(agents=6, tasks=36, minutes=False, draws=50, log_likelihood=False)
    result = usual_check({"rasch_ml": fit})
    assert result.by == "difficulty"
    assert list(result.expected) == ["rasch_ml", "rasch_ml (point estimate)"]


def test_a_fit_of_other_data_is_named_and_left_out(fits):
    other = fake_fit(agents=4, tasks=6, draws=20, log_likelihood=False)
    found = quantity_context({EVIL: fits[EVIL], "other": other})
    assert found["problem"] == ""
    assert found["others"] == ["other"]
    assert "other" not in found["names"]


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ({"agents": 2, "tasks": 24}, "2 agents; needed: at least 3"),
        ({"agents": 8, "tasks": 2, "saturated": False}, "2 bands; needed: at least 3"),
        ({"agents": 201, "tasks": 6, "attempts": 1}, "201 agents; needed: at most 200"),
        ({"agents": 5, "tasks": 6, "attempts": 1}, "No case of double cancellation can be judged"),
    ],
)
def test_what_keeps_the_check_from_being_made_is_said(design, words):
    found = quantity_context({"rasch": fake_fit(draws=20, log_likelihood=False, **design)})
    assert words in found["problem"]
    assert list(found) == ["problem"]


# -- the page ----------------------------------------------------------------------------------


def test_section_is_on_the_page_with_both_figures_and_tables(written):
    page = Page(written)
    assert page.problems == []
    part = section(page)
    assert "break double cancellation" in part
    assert "rasch_ml" in part
    assert "Expected, common_slope" in part
    labels = [svg["aria-label"] for svg in page.all("svg")]
    assert sum(label.startswith("Violations of double cancellation") for label in labels) == 1
    assert sum(label.startswith("The largest violation") for label in labels) == 1
    assert {"href": "#quantity"} in page.all("a")
    closed = [a for tag, a in page.elements if tag == "details" and "open" not in a]
    assert len(closed) >= 2


def test_names_in_the_section_are_escaped(written):
    page = Page(written)
    assert "<script" not in written
    assert EVIL in section(page)
    assert not page.all("script")


def test_an_unconverged_explanation_is_marked(written, fits):
    part = section(Page(written))
    assert "bad (not converged; p" in part
    assert "bad \u2717 not converged" in part
    assert f"{EVIL} (not converged)" not in part
    label = plot_cancellation(usual_check(fits)).axes[0].get_yticklabels()
    marked = [text.get_text().split("\n")[0] for text in label if "not converged" in str(text)]
    assert marked == ["bad"]


@pytest.mark.parametrize("axiom", ["single", "double", "triple"])
def test_every_axiom_has_its_name_and_rule(axiom, fits):
    runs = fits[EVIL]["data"].to_dataset()
    options = {"bands": 4, "replicates": 7, "progress": False}
    given = mb.cancellation(runs, against=["rasch_ml"], axiom=axiom, **options)
    found = quantity_context({}, given)
    assert f"{axiom} cancellation" in found["finding"]
    assert found["names"] == ["rasch_ml"]
    assert bool(found["figures"]["triple"]) == (axiom == "double" and len(given.violations) > 0)
    assert [table["title"] for table in found["tables"]] == ["Bands by human minutes", "Agents"]


def test_a_given_check_is_used(tmp_path):
    fit = fake_fit(agents=3, tasks=4, draws=20, log_likelihood=False)
    options = {"bands": 3, "replicates": 7, "min_attempts": 1, "progress": False}
    check = mb.cancellation(fit["data"].to_dataset(), against=["rasch_ml"], **options)
    given = dataclasses.replace(check, observed={"cases": 77, "violations": 0, "rate": 0.0})
    path = mb.report(fit, tmp_path / "r.html", checks=CHECKS, cancellation=given)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.problems == []
    assert "0 of 77 cases (0.00 %) break" in section(page)


def test_random_cuts_and_counts_alone_make_a_section(kept, fits):
    runs = fits[EVIL]["data"].to_dataset()
    options = {"bands": 3, "replicates": 7, "min_attempts": 1, "progress": False}
    cut = quantity_context({}, mb.cancellation(runs, cuts=2, against=["rasch_ml"], **options))
    assert cut["finding"].startswith("Over 2 random cuts")
    assert cut["tables"] == []
    assert cut["figures"]["triple"] == ""
    counted = quantity_context({}, mb.cancellation(runs, against=[], **options))
    assert counted["rows"] == []
    assert counted["figures"]["expected"] == ""
    assert quantity_context({}, kept)["figures"]["triple"] == ""
