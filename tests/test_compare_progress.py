"""Integrals by unit show how far they are, and say which unit is too large for them."""

from contextlib import contextmanager

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from fake_fit import fake_data, fake_fit

import measurebayes as mb
from measurebayes.backends.simulate import prior_draw
from measurebayes.checks.studies import share_bar
from measurebayes.cli import main
from measurebayes.compare.integrated import unit_log_likelihood
from measurebayes.errors import InputError
from measurebayes.program.registry import get_model


def draws_of(model, data, number=4):
    rng = np.random.default_rng(3)
    one = xr.Dataset(prior_draw(model, data, rng))
    labels = {axis: data[axis].values for axis in ("agent", "task", "family")}
    one = one.drop_vars(labels, errors="ignore").assign_coords(labels)
    return xr.concat([one] * number, "draw").expand_dims("chain")


def in_families(data, family_of):
    family_of = np.asarray(family_of, dtype=np.int64)
    data = data.drop_vars(["family_index", "family"])
    names = [f"family {i}" for i in range(family_of.max() + 1)]
    return data.assign_coords(family=names).assign(family_index=("task", family_of))


@pytest.mark.parametrize("unit", ["task", "family", "agent"])
@pytest.mark.parametrize("budget", [2**27, 2**15])
def test_shares_of_the_work_add_up(unit, budget):
    data = in_families(fake_data(agents=3, tasks=4, holes=0.0)[0], [0, 0, 1, 2])
    model, shares = get_model("rasch"), []
    draws = draws_of(model, data)
    unit_log_likelihood(model, data, draws, unit, budget, done=shares.append)
    assert sum(shares) == pytest.approx(1.0)
    assert len(shares) > 2 or budget == 2**27


@pytest.mark.filterwarnings("ignore::measurebayes.compare.ComparisonWarning")
def test_a_bar_stands_for_each_fit_unless_it_is_off(monkeypatch):
    shown = {}

    @contextmanager
    def bar(title, show):
        shown[title] = [] if show else None
        yield shown[title].append if show else lambda share: None

    monkeypatch.setattr("measurebayes.checks.studies.share_bar", bar)
    fit = fake_fit(agents=3, tasks=4, draws=50, chains=2)
    mb.compare({"a": fit, "b": fit}, unit="agent")
    assert list(shown) == ["a: integrals by agent", "b: integrals by agent"]
    assert [sum(x) for x in shown.values()] == pytest.approx([1.0, 1.0])
    mb.compare({"a": fit}, unit="agent", progress=False)
    assert shown["a: integrals by agent"] is None
    mb.compare({"a": fit}, unit="cell")
    assert shown.get("a: integrals by cell") is None


def test_bars_are_for_terminals(monkeypatch, capsys):
    with share_bar("integrals", True) as done:
        done(0.5)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with share_bar("integrals", True) as done:
        done(0.5)
    assert "integrals" in capsys.readouterr().err
    with share_bar("integrals", False) as done:
        done(0.5)
    assert capsys.readouterr().err == ""


def test_the_command_says_nothing_of_progress_in_pipes(tmp_path):
    mb.save(fake_fit(agents=3, tasks=4, draws=50, chains=2), tmp_path / "fit.nc")
    result = CliRunner().invoke(main, ["compare", str(tmp_path / "fit.nc"), "--unit", "task"])
    assert result.exit_code == 0
    assert "integrals by" not in result.output


def test_a_unit_with_too_many_parameters_is_named():
    data = in_families(fake_data(agents=180, tasks=30, holes=0.0)[0], [0, 0, *[1] * 28])
    model = get_model("testlet")
    with pytest.raises(InputError, match="testlet: the family 'family 1' has 2") as raised:
        unit_log_likelihood(model, data, draws_of(model, data, 1), "family", 2**27)
    for words in ("at most 200", "mb.crossval", "unit='task' or unit='agent'"):
        assert words in str(raised.value)
