"""The sections of local dependence and of pairs, their figures, and the commands."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from fake_fit import fake_fit
from test_checks_predictive import rasch_fit
from test_dependence import dependent

import measurebayes as mb
from measurebayes.cli import main
from measurebayes.errors import InputError
from measurebayes.report.dependence import dependence_context, pairs_context

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(4)
    return rasch_fit(dependent(rng), rng)


def test_the_section_says_what_goes_together(fit):
    found = dependence_context({"one": fit, "two": fit}, doubtful=["two"])
    one, two = found["items"]
    assert (one["doubtful"], two["doubtful"]) == (False, True)
    assert one["lead"].startswith("Tasks go together more than the model expects")
    assert "direction" in one["dimensions"]
    assert "<svg" in one["figure"]
    assert {row["name"] for row in one["measures"]} >= {"design effect of families"}
    assert len(one["families"]) == 6
    assert [table["kind"] for table in one["misfit"]] == ["task", "agent"]
    assert (one["suspects"]["shown"], two["suspects"]["shown"]) == (True, False)
    assert len(found["rates"]) == 1  # the same data


def test_a_fit_that_can_not_be_replicated_has_a_sentence(fit):
    broken = fit.copy()
    broken.attrs = fit.attrs | {"model": "nowhere", "model_source": "# gone"}
    item = dependence_context({"x": broken})["items"][0]
    assert item["problem"]


def test_pairs_in_doubt_are_listed(fit):
    item = pairs_context({"one": fit})[0]
    table = mb.agent_pairs(fit)
    assert item["unsure"] == (table["p_greater"] < 0.975).sum()
    assert item["lead"].startswith(f"{66 - item['unsure']} of 66 pairs of agents are told apart")
    assert pairs_context({"one": fake_fit(agents=1, tasks=4, draws=10)}) == []


def test_figures_show_what_they_say(fit):
    from measurebayes.report import plot_dimensions, plot_pairs

    panel = plot_pairs(fit).axes[0]
    squares = panel.collections[0]
    assert len(squares.get_paths()) == 66
    best = mb.agent_pairs(fit)["one"][0]
    assert panel.get_yticklabels()[0].get_text() == f"{best}  1"
    result = mb.local_dependence(fit, replicates=20)
    drawn = plot_dimensions(result).axes[0].lines[-1].get_ydata()
    np.testing.assert_allclose(drawn, 100 * result.dimensions["observed"])
    lonely = fake_fit(agents=2, tasks=1, draws=10, saturated=False)
    lonely = mb.local_dependence(lonely)
    with pytest.raises(InputError, match="no residual dimensions"):
        plot_dimensions(lonely)


@pytest.mark.slow
def test_many_agents_are_cut_to_the_ablest():
    many = fake_fit(agents=160, tasks=4, draws=10, log_likelihood=False)
    item = pairs_context({"x": many})[0]
    assert "pairs of the 40 ablest agents are" in item["lead"]
    assert (item["drawn"], item["agents"]) == (40, 160)


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def file(fit, tmp_path_factory):
    made = fake_fit(agents=12, tasks=9, draws=40)
    path = tmp_path_factory.mktemp("fits") / "fit.nc"
    mb.save(made, path)
    return path


@pytest.mark.slow
def test_commands_print_the_tables_of_the_functions(file, tmp_path):
    fit, csv = mb.open(file), tmp_path / "x.csv"
    found = run("pairs", file, "--json", "-o", csv)
    assert found.exit_code == 0
    table = mb.agent_pairs(fit)
    pd.testing.assert_frame_equal(pd.DataFrame(json.loads(found.stdout)), table, rtol=1e-9)
    pd.testing.assert_frame_equal(pd.read_csv(csv), table, rtol=1e-9)
    found = json.loads(run("misfit", file, "--json").stdout)
    assert found["tasks"][0]["infit"] == pytest.approx(mb.task_fit(fit)["infit"][0])
    assert len(found["agents"]) == 12
    found = json.loads(run("misfit", file, "--group", "agent 1", "agent 2", "--json").stdout)
    other = mb.differential_functioning(fit, ["agent 1", "agent 2"])
    assert found["tasks"][0]["difference"] == pytest.approx(other["difference"][0])
    found = json.loads(run("suspects", file, "--json").stdout)
    assert found[0]["task"] == mb.suspect_tasks(fit)["task"][0]
    found = json.loads(run("dependence", file, "--json", "-o", csv).stdout)
    assert found["tasks"] == 9
    assert list(pd.read_csv(csv).columns) == [
        "task", "other", "same_family", "q3", "expected", "p"
    ]  # fmt: skip


@pytest.mark.slow
def test_commands_print_words(file):
    assert "Local dependence: data against replicates" in run("dependence", file).stdout
    assert "agents differ from the model" in run("misfit", file).stdout
    assert "pairs are in doubt" in run("pairs", file).stdout
    assert "Differential functioning of" in run("misfit", file, "--group", "agent 1").stdout
    found = run("suspects", "metr-th1.1")
    assert found.exit_code == 0
    assert "alert_triage/alert_triage_1" in found.stdout
    assert "this is the cheap measure alone" in found.stdout
    assert run("pairs", file, "--variable", "nothing").exit_code == 2
