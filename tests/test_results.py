"""Fits as files, and where their model comes from; no sampler."""

import json

import numpy as np
import pytest
import xarray as xr
from fake_fit import fake_fit

import measurebayes as mb
from measurebayes.errors import InputError
from measurebayes.inference.results import assemble, model_of, same_code
from measurebayes.program.registry import get_model


def test_round_trip_is_identical(tmp_path):
    fit = fake_fit("two_pl")
    fit["data"] = fit["data"].to_dataset().assign_attrs(title="Ünïcode ✓")
    path = mb.save(fit, tmp_path / "fit.nc")
    again = mb.open(path)
    assert again.identical(fit)
    for name, node in fit.children.items():
        for variable in node.variables:
            assert again[name][variable].dtype == node[variable].dtype, variable
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]


def test_every_flipped_byte_is_noticed(tmp_path, rng):
    path = mb.save(fake_fit(draws=20, chains=2), tmp_path / "fit.nc")
    whole = path.read_bytes()
    for place in rng.integers(0, len(whole), 20):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        path.write_bytes(damaged)
        with pytest.raises(mb.InputError):
            mb.open(path)


@pytest.mark.parametrize("content", [b"", b"CDF", b"\x89HDF\r\n\x1a\n" + b"\0" * 50, b"a,b\n1,2\n"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "fit.nc"
    path.write_bytes(content)
    with pytest.raises(mb.InputError, match="fit"):
        mb.open(path)


def test_missing_file_and_data_files_are_refused(tmp_path, metr):
    from measurebayes import data

    with pytest.raises(mb.InputError, match="there is no file"):
        mb.open(tmp_path / "none.nc")
    path = data.save(metr, tmp_path / "runs.nc")
    with pytest.raises(mb.InputError, match="holds no fit"):
        mb.open(path)


def test_saving_into_a_missing_folder_leaves_nothing(tmp_path):
    with pytest.raises(mb.InputError, match="can't be written"):
        mb.save(fake_fit(draws=5, chains=1), tmp_path / "none" / "fit.nc")


def test_assembled_fit_has_the_log_likelihood_of_scipy():
    made = fake_fit("two_pl", draws=30)
    built = assemble(
        get_model("two_pl"),
        made["data"].to_dataset(),
        made["posterior"].to_dataset(),
        made["sample_stats"].to_dataset(),
        {"seed": 1, "priors": made.attrs["priors"]},
    )
    expected = made["log_likelihood"]["successes"].values  # SciPy's binomial, in the made fit
    found = built["log_likelihood"]["successes"].values
    kept = expected > -20  # beyond, SciPy's binomial has lost digits
    np.testing.assert_allclose(found[kept], expected[kept], rtol=2e-5, atol=2e-6)
    assert json.loads(built.attrs["versions"])["numpy"] == np.__version__
    for value in built.attrs.values():
        assert isinstance(value, str | int | float)


def test_large_log_likelihood_is_left_out(monkeypatch):
    from measurebayes.inference import results

    made = fake_fit(draws=10)
    parts = [made[n].to_dataset() for n in ("data", "posterior", "sample_stats")]
    monkeypatch.setattr(results, "LOG_LIKELIHOOD_BYTES", 1000)
    assert "log_likelihood" not in assemble(get_model("rasch"), *parts, {})


def test_model_of_a_bundled_fit():
    assert model_of(fake_fit("two_pl")).name == "two_pl"


def test_code_is_never_run_from_a_fit_nor_from_a_place_that_it_names(tmp_path):
    trap, mine = tmp_path / "ran", tmp_path / "mine.py"
    source = get_model("rasch").source + f"\nopen({str(trap)!r}, 'w').close()\n"
    mine.write_text(source)
    fit = fake_fit()
    fit.attrs |= {"model": "mine", "model_source": source, "model_path": str(mine)}
    path = mb.save(fit, tmp_path / "fit.nc")
    with pytest.raises(mb.InputError, match="--model"):
        mb.check(mb.open(path))
    assert not trap.exists()


def test_own_model_serves_its_fits_once_the_user_has_loaded_it(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        get_model("rasch").source.replace("ability_sd = pp", "spread = 1\n    ability_sd = pp")
    )
    fit = fake_fit()
    fit.attrs |= {"model": "mine", "model_source": mine.read_text()}
    with pytest.raises(mb.InputError, match="none of the bundled"):
        model_of(fit)
    mb.get_model(mine)
    assert model_of(fit).name == "mine"


def changed(fit, **attrs):
    fit.attrs |= attrs
    return fit


def with_group(fit, name, change):
    fit[name] = xr.DataTree(change(fit[name].to_dataset()))
    return fit


DAMAGE = {
    "no model": lambda f: f.attrs.pop("model"),
    "priors no JSON": lambda f: changed(f, priors="{"),
    "priors nested": lambda f: changed(f, priors="[" * 200_000),
    "priors negative": lambda f: changed(f, priors='{"ability_sd": -1}'),
    "versions": lambda f: changed(f, versions="<script>"),
    "seed": lambda f: changed(f, seed="one"),
    "seconds": lambda f: changed(f, sampling_seconds="long"),
    "source": lambda f: changed(f, model_source="-" * 2_000_000 + "1"),
    "fingerprint": lambda f: changed(f, data_fingerprint="0" * 64),
    "no data": lambda f: f.__delitem__("data"),
    "data index": lambda f: with_group(f, "data", lambda d: d.assign(task_index=-d["task_index"])),
    "attempts": lambda f: with_group(f, "data", lambda d: d.assign(attempts=-d["attempts"])),
    "fewer agents": lambda f: with_group(f, "posterior", lambda p: p.isel(agent=[0])),
    "labels": lambda f: with_group(
        f, "posterior", lambda p: p.assign_coords(agent=p["agent"].values[::-1])
    ),
    "NaN": lambda f: with_group(f, "posterior", lambda p: p.assign(ability=p["ability"] * np.nan)),
    "text": lambda f: with_group(
        f, "posterior", lambda p: p.assign(ability=p["ability"].astype(str))
    ),
    "no draws": lambda f: with_group(f, "posterior", lambda p: p.isel(draw=slice(0))),
    "statistics": lambda f: with_group(f, "sample_stats", lambda p: p.isel(draw=slice(3))),
    "log likelihood": lambda f: with_group(f, "log_likelihood", lambda p: p.isel(cell=slice(3))),
    "no successes": lambda f: with_group(
        f, "log_likelihood", lambda p: p.rename(successes="other")
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_fits_that_do_not_hold_together_are_refused(tmp_path, name):
    fit = fake_fit(draws=10, chains=2)
    DAMAGE[name](fit)
    path = mb.save(fit, tmp_path / "fit.nc")
    with pytest.raises(mb.InputError):
        mb.open(path)


def test_same_code_sees_code_alone():
    code = '"""Doc."""\nx = 1\n'
    assert same_code(code, '"""Other."""\n# comment\nx = 1\n')
    assert same_code("x = 1\n", code)
    assert not same_code(code, '"""Doc."""\nx = 2\n')
    assert not same_code("x = (", "x = (")


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
def test_arviz_works_on_a_fit(tmp_path):
    import arviz as az

    fit = mb.open(mb.save(fake_fit("two_pl"), tmp_path / "fit.nc"))
    table = az.summary(fit, var_names=["ability"])
    assert len(table) == fit["data"].sizes["agent"]
    loo = az.loo(fit)
    assert np.isfinite(loo.elpd)
    assert isinstance(az.ess(fit["posterior"].to_dataset()), xr.Dataset)


@pytest.mark.parametrize("fit", [None, "fit.nc", {"posterior": 1}])
def test_what_is_no_fit_is_not_saved(tmp_path, fit):
    with pytest.raises(InputError, match="an object of type"):
        mb.save(fit, tmp_path / "fit.nc")
    assert not list(tmp_path.iterdir())
