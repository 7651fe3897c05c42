"""The sections of dimensions and of families, their figures, and what is said of such models."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from fake_dimensions import fit_around_truth
from fake_fit import fake_data, fake_fit
from test_report import Page

import measurebayes as mb
from measurebayes.cli import main
from measurebayes.errors import InputError
from measurebayes.report.dimensions import dimensions_context, dimensions_of, parts
from measurebayes.report.families import families_context, spreads

pytest.importorskip("matplotlib")

AGENTS, TASKS, FAMILIES = 8, 24, 12


def data_of_families():
    data, _ = fake_data(agents=AGENTS, tasks=TASKS, saturated=False)
    index = np.minimum(np.arange(TASKS) // 2, FAMILIES - 1)
    index[-1] = 0  # the last family has one task, the first three
    data = data.drop_vars("family").assign(family_index=("task", index))
    data = data.assign_coords(family=[f"family {k}" for k in range(FAMILIES)])
    allowed = (np.arange(TASKS)[:, None] % 2 == np.arange(2)) * 1.0
    del data.attrs["families"]
    return data.assign(allowed_loading=(("task", "dimension"), allowed))


def standard(rng, *sd):
    """Traits of exactly these standard deviations, with mean 0."""
    z = rng.normal(size=(len(sd), AGENTS))
    z -= z.mean(axis=1, keepdims=True)
    return z / z.std(axis=1, ddof=1, keepdims=True) * np.array(sd)[:, None]


@pytest.fixture(scope="module")
def explored():
    given = {"trait": standard(np.random.default_rng(2), 2.0, 1.0), "trait_sd": [2.0, 1.0]}
    return fit_around_truth("mirt", data_of_families(), given)


@pytest.fixture(scope="module")
def allowed():
    given = {"trait": standard(np.random.default_rng(2), 2.0, 1.0), "trait_sd": [2.0, 1.0]}
    return fit_around_truth("mirt:loadings=allowed", data_of_families(), given)


@pytest.fixture(scope="module")
def testlet():
    sd = np.linspace(0.1, 1.2, FAMILIES)
    return fit_around_truth("testlet", data_of_families(), {"testlet_sd": sd})


@pytest.fixture(scope="module")
def pages(explored, testlet, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    checks = pd.DataFrame({"name": ["rhat"], "passed": True, "value": 1.0, "text": "fine"})
    written = [
        mb.report(fit, path, checks=checks).read_text("utf-8") for fit in (explored, testlet)
    ]
    return [Page(text) for text in written]


def test_traits_are_those_of_the_fit(explored, allowed):
    for fit in (explored, allowed):
        item = dimensions_context({"x": fit})[0]
        draws = fit["posterior"]["trait"].isel(dimension=1).stack(sample=("chain", "draw"))
        rows = {row["name"]: row["cells"] for row in item["agents"]}
        assert len(rows) == AGENTS
        for name, own in zip(draws["agent"].values, draws.transpose("agent", ...), strict=True):
            low, high = np.quantile(own, [0.05, 0.95])
            plain = [text.replace("\u2212", "-") for text in rows[name][2:]]
            assert plain == [f"{float(own.mean()):.2f}", f"{low:.2f} to {high:.2f}"]
    assert [row["name"] for row in item["agents"]] == first_order(allowed)


def first_order(fit):
    mean = fit["posterior"]["trait"].isel(dimension=0).mean(("chain", "draw"))
    return list(mean["agent"].values[np.argsort(-mean.values)])


def test_units_follow_from_how_loadings_are_had(explored, allowed):
    free, fixed = (dimensions_context({"x": fit})[0] for fit in (explored, allowed))
    assert (free["unit"], free["rotatable"]) == ("standard deviations", True)
    assert (fixed["unit"], fixed["rotatable"]) == ("logits", False)


def test_tasks_at_both_ends_are_those_with_the_largest_loadings(explored):
    mean = explored["posterior"]["loading"].mean(("chain", "draw")).isel(dimension=1)
    order = mean["task"].values[np.argsort(mean.values)]
    high, low = dimensions_context({"x": explored})[0]["dimensions"][1]["ends"]
    assert [row["name"] for row in high["rows"]] == list(order[::-1][: len(high["rows"])])
    assert [row["name"] for row in low["rows"]] == list(order[: len(low["rows"])])
    assert all(row["cells"][0].startswith("\u2212") for row in low["rows"])


def test_tasks_that_may_not_load_are_left_out(allowed):
    lead = dimensions_context({"x": allowed})[0]["dimensions"][0]["lead"]
    assert f" of {TASKS // 2} tasks have " in lead
    free = data_of_families()["task"].values[::2]
    ends = dimensions_context({"x": allowed})[0]["dimensions"][0]["ends"]
    assert {row["name"] for end in ends for row in end["rows"]} <= set(free)


def test_parts_are_shares_of_the_variance_of_log_odds(explored, allowed):
    for fit in (explored, allowed):
        draws = fit["posterior"].to_dataset()
        products = (draws["loading"] * draws["trait"]).var("agent", ddof=0).mean("task")
        share = (products / products.sum("dimension")).median(("chain", "draw"))
        np.testing.assert_allclose(parts(fit)[0], share, rtol=1e-9)


def test_models_without_dimensions_have_no_such_section(testlet):
    plain = fake_fit(agents=3, tasks=4, draws=10, log_likelihood=False)
    assert dimensions_context({"a": plain, "b": testlet}) == []
    assert families_context({"a": plain}) == []
    assert dimensions_of(plain) == 0
    with pytest.raises(InputError, match="no traits of agents"):
        mb.report.plot_traits(plain)
    with pytest.raises(InputError, match="no variable testlet_sd"):
        mb.report.plot_families(plain)


def test_figures_show_what_they_say(explored, testlet):
    axes = mb.report.plot_traits(explored).axes
    assert [label.get_text() for label in axes[0].get_yticklabels()] == first_order(explored)
    mean = explored["posterior"]["trait"].mean(("chain", "draw")).sel(agent=first_order(explored))
    for k, panel in enumerate(axes):
        np.testing.assert_allclose(panel.lines[1].get_xdata(), mean.values[:, k])
    panel = mb.report.plot_families(testlet).axes[0]
    np.testing.assert_allclose(panel.lines[1].get_xdata(), spreads(testlet)["median"])


def test_a_figure_of_many_agents_or_families_is_cut():
    many, _ = fake_data(agents=60, tasks=40, saturated=False)
    traits = fit_around_truth("mirt", many, draws=4)
    assert len(mb.report.plot_traits(traits).axes[0].get_yticklabels()) == 40
    five = fit_around_truth("mirt:dimensions=5", many, draws=4)
    figure = mb.report.plot_traits(five)
    assert len(figure.axes[0].get_yticklabels()) == 25
    assert [panel.get_visible() for panel in figure.axes] == [True] * 5 + [False]
    assert dimensions_context({"x": five})[0]["drawn"] == 25
    families = fit_around_truth("testlet", many, draws=4)
    assert len(mb.report.plot_families(families).axes[0].get_yticklabels()) == 30


def test_families_are_listed_with_the_largest_spread_first(testlet):
    item = families_context({"x": testlet}, doubtful=["x"])[0]
    table = spreads(testlet)
    draws = testlet["posterior"]["testlet_sd"].sel(family="family 11").values
    assert table["name"][0] == "family 11"
    assert table["tasks"][0] == 1
    low, median, high = np.quantile(draws, [0.05, 0.5, 0.95])
    assert item["rows"][0]["cells"] == ["1", f"{median:.2f}", f"{low:.2f} to {high:.2f}"]
    assert list(table["median"]) == sorted(table["median"], reverse=True)
    assert dict(zip(table["name"], table["tasks"], strict=True))["family 0"] == 3
    assert (item["single"], item["doubtful"]) == (1, True)


def test_the_page_says_what_such_models_have(pages):
    several, families = pages
    assert several.problems == families.problems == []
    assert "gives each agent traits on 2 dimensions in place of an ability" in several.text
    assert "no single ability" not in several.text
    assert "Dimension 2 makes up" in several.text
    assert "1 of 12 families has one task" in families.text
    links = [{a.get("href") for a in page.all("a")} for page in pages]
    assert [{"#dimensions", "#families"} & own for own in links] == [{"#dimensions"}, {"#families"}]


def test_nothing_is_said_of_one_ability(explored):
    from measurebayes.checks import check

    result = mb.local_dependence(explored, replicates=20)
    surprised = result.measures.assign(p=0.0)
    words = type(result)(**{**vars(result), "measures": surprised}).text()
    assert "independent ones" in words
    assert "ability" not in words
    assert not any(
        "ability as" in text or "one ability" in text for text in check(explored)["text"]
    )


def test_pairs_by_traits_say_why_not(explored, testlet, tmp_path):
    for variable in (None, "trait"):
        with pytest.raises(InputError) as caught:
            mb.agent_pairs(explored, variable)
        words = str(caught.value)
        assert "trait has a value of each agent for each dimension (2)" in words
        assert "the report shows traits by dimension" in words
    with pytest.raises(InputError, match=r"for each family \(12\)") as caught:
        mb.agent_pairs(testlet, "testlet_effect")
    assert "variable='ability'" in str(caught.value)
    path = tmp_path / "fit.nc"
    mb.save(explored, path)
    found = CliRunner().invoke(main, ["pairs", str(path), "--variable", "trait"])
    assert found.exit_code == 2


@pytest.mark.parametrize("noted", [0, 2, 20])
def test_misfit_lists_those_that_differ_of_both_kinds(noted, capsys):
    from measurebayes.cli.dependence import _show_misfit

    def table(kind):
        note = ["noisier than the model"] * noted + [""] * (30 - noted)
        return pd.DataFrame({kind: [f"{kind} {k}" for k in range(30)], "infit": 1.0, "note": note})

    _show_misfit({kind: table(kind) for kind in ("task", "agent")}, as_json=False)
    words = capsys.readouterr().out
    for kind in ("task", "agent"):
        assert f"{noted} of 30 {kind}s differ from the model (by chance at most 0.9)" in words
        assert words.count(f"\n{kind} ") == (min(noted, 15) + 1 if noted else 0)
    assert words.count("\n\n") == 1
    assert ("the noisiest 15" in words) == (noted > 15)
