"""The whole chain as one function, with invented fits; once with the sampler (slow)."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from fake_fit import fake_data, fit_of

import measurebayes as mb
from measurebayes.analyse import Analysis, analyse
from measurebayes.cli import main
from measurebayes.data import fingerprint
from measurebayes.program.registry import ModelFile, get_model

DEFAULTS: dict[str, Any] = {"draws": 1000, "tune": 500, "chains": 4, "seed": 1, "progress": False}
SETTINGS: dict[str, Any] = {"seed": 1, "draws": 200, "tune": 100, "chains": 4}


class Fits:
    """Stands for `measurebayes.fit`: gives invented fits and notes what was asked for."""

    def __init__(self, truth: Mapping[str, Any]) -> None:
        self.truth = truth
        self.converged = True
        self.asked: list[str] = []

    def __call__(
        self, model: ModelFile | str, runs: xr.Dataset, *, priors: Any = None, **options: Any
    ) -> xr.DataTree:
        model = get_model(model)
        self.asked.append(model.name)
        keys = ("chains", "draws", "seed")
        fit = fit_of(
            runs,
            self.truth,
            model.name,
            converged=self.converged,
            **{key: options[key] for key in keys},
        )
        fit.attrs |= {
            "data_fingerprint": fingerprint(runs),
            "priors": json.dumps(model.with_priors(priors)),
            "tune": options["tune"],
        }
        return fit


@pytest.fixture
def invented() -> tuple[xr.Dataset, Mapping[str, Any]]:
    return fake_data(seed=3, model="two_pl")


@pytest.fixture
def fits(invented: Any, monkeypatch: pytest.MonkeyPatch) -> Fits:
    stand_in = Fits(invented[1])
    monkeypatch.setattr(mb, "fit", stand_in, raising=False)
    return stand_in


@pytest.fixture
def quick_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take seconds; where the page is not the point, an empty one does."""

    def write(fits: Any, path: Path, **parts: Any) -> None:
        path.write_text("")

    monkeypatch.setattr(mb, "report", write)


def run(runs: xr.Dataset, folder: Path, **changes: Any) -> tuple[Analysis, list[str], list[str]]:
    said: list[str] = []
    shown: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # invented draws need not compare well
        result = analyse(
            runs,
            ["rasch", "two_pl"],
            folder,
            say=said.append,
            show=lambda table, title: shown.append(title),
            **{**SETTINGS, **changes},
        )
    return result, said, shown


def test_writes_fits_checks_comparison_and_report(
    invented: Any, fits: Fits, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result, _, shown = run(invented[0], out)
    assert fits.asked == ["rasch", "two_pl"]
    assert {path.name for path in out.iterdir()} == {
        *("rasch.nc", "two_pl.nc", "checks_rasch.csv", "checks_two_pl.csv"),
        *("comparison.csv", "report.html"),
    }
    assert {Path(path) for path in result.files.values()} == set(out.iterdir())
    assert [title.split(":")[0].split(",")[0] for title in shown] == [
        *("Data", "Checks of rasch", "Checks of two_pl", "Leave-one-out comparison"),
    ]
    assert result.comparison is not None
    written = pd.read_csv(out / "comparison.csv", index_col="model")
    assert list(written.index) == list(result.comparison.index)
    assert written["elpd"].is_monotonic_decreasing
    assert list(pd.read_csv(out / "checks_rasch.csv").columns) == [
        *("name", "passed", "value", "text")
    ]
    assert "two_pl" in (out / "report.html").read_text()
    assert result.all_converged
    json.dumps(list(result.as_dict()))


def test_cancellation_is_checked_saved_and_said(
    fits: Fits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, fits.truth = fake_data(tasks=24, attempts=10, seed=3, model="two_pl")
    given: dict[str, Any] = {}
    monkeypatch.setattr(mb, "report", lambda fits, path, **parts: given.update(parts))
    result, said, shown = run(runs, tmp_path / "out")
    assert result.cancellation is not None
    assert given["cancellation"] is result.cancellation
    table = pd.read_csv(tmp_path / "out" / "cancellation.csv", index_col="name")
    assert list(table.index) == ["observed", "rasch", "two_pl", "rasch_ml", "common_slope"]
    assert table.loc["observed", "rate"] == pytest.approx(result.cancellation.observed["rate"])
    assert shown[-1].startswith("Violations of double cancellation")
    (sentence,) = [line for line in said if "break double cancellation" in line]
    assert sentence.isprintable()


@pytest.mark.usefixtures("quick_report")
def test_data_without_enough_agents_are_analysed_all_the_same(fits: Fits, tmp_path: Path) -> None:
    runs, fits.truth = fake_data(agents=2, seed=3, model="two_pl")
    result, said, _ = run(runs, tmp_path / "out")
    assert result.cancellation is None
    assert "that can't be checked in these data: 2 agents" in said
    assert not (tmp_path / "out" / "cancellation.csv").exists()


@pytest.mark.usefixtures("quick_report")
def test_finished_fits_are_used_again(invented: Any, fits: Fits, tmp_path: Path) -> None:
    first, _, _ = run(invented[0], tmp_path / "out")
    again, said, _ = run(invented[0], tmp_path / "out")
    assert fits.asked == ["rasch", "two_pl"]
    assert again.reused == ["rasch", "two_pl"]
    assert sum("same data, model and settings" in line for line in said) == 2
    pd.testing.assert_frame_equal(first.comparison, again.comparison)


@pytest.mark.usefixtures("quick_report")
@pytest.mark.parametrize(
    "changes",
    [
        {"priors": {"ability_sd": 1.0}},
        *(
            pytest.param(x, marks=pytest.mark.slow)
            for x in ({"seed": 2}, {"tune": 50}, {"draws": 50})
        ),
    ],
)
def test_other_settings_mean_another_fit(
    changes: dict[str, Any], invented: Any, fits: Fits, tmp_path: Path
) -> None:
    run(invented[0], tmp_path / "out")
    result, _, _ = run(invented[0], tmp_path / "out", **changes)
    assert fits.asked == ["rasch", "two_pl"] * 2
    assert result.reused == []


@pytest.mark.usefixtures("quick_report")
def test_prior_of_one_model_leaves_the_other_fit_alone(
    invented: Any, fits: Fits, tmp_path: Path
) -> None:
    run(invented[0], tmp_path / "out")
    result, _, _ = run(invented[0], tmp_path / "out", priors={"log_discrimination_sd": 0.7})
    assert fits.asked == ["rasch", "two_pl", "two_pl"]
    assert result.reused == ["rasch"]


@pytest.mark.usefixtures("quick_report")
def test_other_data_mean_another_fit(invented: Any, fits: Fits, tmp_path: Path) -> None:
    run(invented[0], tmp_path / "out")
    run(invented[0].isel(cell=slice(1, None)), tmp_path / "out")
    assert fits.asked == ["rasch", "two_pl"] * 2


@pytest.mark.usefixtures("quick_report")
def test_damaged_fit_is_made_anew(invented: Any, fits: Fits, tmp_path: Path) -> None:
    run(invented[0], tmp_path / "out")
    file = tmp_path / "out" / "rasch.nc"
    file.write_bytes(file.read_bytes()[:1000])
    run(invented[0], tmp_path / "out")
    assert fits.asked == ["rasch", "two_pl", "rasch"]
    assert mb.open(str(file)).attrs["model"] == "rasch"


@pytest.mark.usefixtures("quick_report")
def test_command_ends_with_1_when_sampling_has_not_converged(
    invented: Any, fits: Fits, tmp_path: Path
) -> None:
    from measurebayes.data import save

    save(invented[0], tmp_path / "runs.nc")
    words = ["analyse", str(tmp_path / "runs.nc"), "--models", "rasch", "--chains", "4"]
    words += ["--draws", "200", "--tune", "100", "--json", "-o"]
    good = CliRunner().invoke(main, [*words, str(tmp_path / "good")])
    assert good.exit_code == 0, good.output
    assert json.loads(good.stdout)["converged"] == {"rasch": True}
    fits.converged = False
    bad = CliRunner().invoke(main, [*words, str(tmp_path / "bad")])
    assert bad.exit_code == 1, bad.output
    assert json.loads(bad.stdout)["converged"] == {"rasch": False}
    assert (tmp_path / "bad" / "report.html").exists()


@pytest.mark.slow
def test_with_the_sampler(tiny: xr.Dataset, tmp_path: Path) -> None:
    result, _, _ = run(tiny, tmp_path / "out", **DEFAULTS)
    assert result.converged["rasch"], result.checks["rasch"]
    again, _, _ = run(tiny, tmp_path / "out", **DEFAULTS)
    assert again.reused == ["rasch", "two_pl"]
