"""Fits as files, and where their model comes from; no sampler."""

import json

import numpy as np
import pytest
import xarray as xr
from fake_fit import fake_fit

import measurebayes as mb
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


def test_code_is_never_run_from_a_fit(tmp_path):
    trap = tmp_path / "ran"
    fit = fake_fit()
    fit.attrs["model_source"] += f"\nopen({str(trap)!r}, 'w').close()\n"
    with pytest.raises(mb.InputError, match="not run from the fit"):
        model_of(fit)
    changed = tmp_path / "mine.py"
    changed.write_text(get_model("rasch").source + f"\nopen({str(trap)!r}, 'w').close()\n")
    fit = fake_fit()
    fit.attrs["model_path"] = str(changed)  # the file has changed since the fit
    with pytest.raises(mb.InputError, match="code has changed"):
        model_of(fit)
    assert not trap.exists()


def test_own_model_is_found_at_its_path(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(get_model("rasch").source)
    fit = fake_fit()
    fit.attrs |= {"model": "mine", "model_path": str(mine)}
    assert model_of(fit).path == str(mine)
    mine.write_text(get_model("rasch").source.replace("One ability", "A single ability"))
    assert model_of(fit).path == str(mine)  # only the docstring has changed


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
