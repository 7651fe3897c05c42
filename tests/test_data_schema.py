"""The schema: what validate accepts and refuses, and the round trip through netCDF."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import measurebayes as mb
from measurebayes import data
from measurebayes.data.schema import LABELS, TIMING, UNSCORED, VARIABLES


@pytest.fixture
def runs():
    frame = pd.DataFrame(
        {
            "agent": ["a", "a", "b", "b"],
            "task": ["x", "y", "x", "z"],
            "successes": [1, 0, 2, 3],
            "attempts": [2, 2, 2, 3],
            "family": ["f", "f", "f", "g"],
            "human_minutes": [1.0, np.nan, 1.0, 30.0],
        }
    )
    return mb.load(frame)


def with_timing(runs):
    return runs.assign(
        timing_task_index=("timing", np.array([0, 2, 2])),
        timing_minutes=("timing", np.array([1.0, 20.0, 45.0])),
        timing_success=("timing", np.array([1, 0, 1])),
    )


def with_unscored(runs):
    return runs.assign(
        unscored_agent_index=("unscored", np.array([0, 0, 1])),
        unscored_task_index=("unscored", np.array([0, 2, 0])),
        unscored_status=("unscored", np.array(["errored", "limit", "errored"])),
        unscored_records=("unscored", np.array([1, 5, 2])),
        unscored_counted_as=("unscored", np.array(["failure", "missing", "as_scored"])),
    )


def test_layout(runs):
    data.validate(runs)
    assert set(runs.data_vars) == set(VARIABLES)
    assert set(runs.coords) == set(LABELS)
    np.testing.assert_allclose(runs["task_weight"], [2**-0.5, 2**-0.5, 1.0])
    keys = runs["agent_index"].values * 3 + runs["task_index"].values
    assert (np.diff(keys) > 0).all()
    assert all(isinstance(value, str | int | float) for value in runs.attrs.values())


def set_values(name, values):
    def change(runs):
        variable = runs[name]
        return runs.assign({name: (variable.dims, np.asarray(values, dtype=variable.dtype))})

    return change


REFUSED = {
    "not a dataset": (lambda runs: runs["attempts"], "DataArray"),
    "no variable": (lambda runs: runs.drop_vars("attempts"), "no variable 'attempts'"),
    "dtype": (lambda runs: runs.assign(attempts=runs["attempts"].astype("f8")), "dtype float64"),
    "dims": (lambda runs: runs.assign(task_weight=("agent", [1.0, 1.0])), "dims"),
    "no labels": (lambda runs: runs.drop_vars("agent"), "no labels 'agent'"),
    "label dtype": (
        lambda runs: runs.assign_coords(agent=np.array(["a", "b"], object)),
        "plain str",
    ),
    "labels twice": (lambda runs: runs.assign_coords(agent=["a", "a"]), "more than once: 'a'"),
    "label blank": (lambda runs: runs.assign_coords(agent=["a", " "]), "is blank"),
    "index high": (set_values("task_index", [0, 1, 0, 3]), "positions along task, 0 to 2"),
    "index negative": (set_values("family_index", [0, 0, -1]), "positions along family"),
    "no attempts": (set_values("attempts", [2, 0, 2, 3]), "at least 1"),
    "too many successes": (set_values("successes", [3, 0, 2, 3]), "0 to the attempts"),
    "negative": (set_values("successes", [-1, 0, 2, 3]), "0 to the attempts"),
    "order": (set_values("task_index", [1, 0, 0, 2]), "not sorted"),
    "cell twice": (set_values("task_index", [0, 0, 0, 2]), "stands twice"),
    "minutes": (set_values("human_minutes", [1.0, -1.0, 2.0]), "positive and finite"),
    "minutes infinite": (set_values("human_minutes", [1.0, np.inf, 2.0]), "positive and finite"),
    "weight": (set_values("task_weight", [1.0, np.nan, 2.0]), "positive and finite"),
    "attribute": (lambda runs: runs.assign_attrs(note=None), "attribute 'note'"),
    "attribute bool": (lambda runs: runs.assign_attrs(note=True), "attribute 'note'"),
    "timing in part": (
        lambda runs: with_timing(runs).drop_vars("timing_success"),
        "no variable 'timing_success'",
    ),
    "timing success": (
        lambda runs: set_values("timing_success", [2, 0, 0])(with_timing(runs)),
        "0 or 1",
    ),
    "timing minutes": (
        lambda runs: set_values("timing_minutes", [0, 1, 1])(with_timing(runs)),
        "positive and finite",
    ),
    "timing task": (
        lambda runs: set_values("timing_task_index", [0, 1, 3])(with_timing(runs)),
        "positions along task",
    ),
    "unscored status": (
        lambda runs: set_values("unscored_status", ["scored"] * 3)(with_unscored(runs)),
        "one of: errored",
    ),
    "unscored records": (
        lambda runs: set_values("unscored_records", [1, 0, 1])(with_unscored(runs)),
        "at least 1",
    ),
    "unscored order": (
        lambda runs: set_values("unscored_agent_index", [1, 0, 1])(with_unscored(runs)),
        "not sorted",
    ),
    "unscored and no attempt": (
        lambda runs: set_values("unscored_counted_as", ["failure"] * 3)(with_unscored(runs)),
        "for 1 pairs",
    ),
    "unscored above attempts": (
        lambda runs: set_values("unscored_records", [3, 5, 3])(with_unscored(runs)),
        "for 2 pairs",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(runs, case):
    change, words = REFUSED[case]
    with pytest.raises(mb.InputError, match=words):
        data.validate(change(runs))


def test_subset_keeps_timing_of_chosen_tasks(runs):
    timed = with_timing(runs)
    data.validate(timed)
    part = mb.subset(timed, task=["y", "z"])
    assert part["task"].values.tolist() == ["y", "z"]
    assert part["timing_minutes"].values.tolist() == [20.0, 45.0]
    assert part["task"].values[part["timing_task_index"].values].tolist() == ["z", "z"]
    assert part["task_weight"].values.tolist() == [1.0, 1.0]
    none = mb.subset(timed, family="f", task="y")
    assert not set(TIMING) & set(none.variables)
    with pytest.raises(mb.InputError, match="no attempt is left"):
        mb.subset(runs, agent="a", task="z")


def test_subset_keeps_unscored_records(runs):
    whole = data.validate(with_unscored(runs))
    part = mb.subset(whole, agent="a")
    assert part["task"].values.tolist() == ["x", "y", "z"]  # of z no record was an attempt
    assert part["unscored_records"].values.tolist() == [1, 5]
    assert data.summarise(part)["statuses"] == {"a": {"scored": 3, "errored": 1, "limit": 5}}
    assert part["unscored_task_index"].values.tolist() == [0, 2]
    assert not set(UNSCORED) & set(mb.subset(whole, task="y").variables)


# ----- netCDF


@pytest.mark.parametrize("more", [lambda runs: runs, with_timing, with_unscored])
def test_round_trip_is_identical(tmp_path, runs, more):
    runs = more(runs)
    path = data.save(runs, tmp_path / "runs.nc")
    again = mb.load(path)
    assert again.identical(runs)
    for name in runs.variables:
        assert again[name].dtype.kind == runs[name].dtype.kind
    assert data.fingerprint(again) == data.fingerprint(runs)
    assert [file.name for file in tmp_path.iterdir()] == ["runs.nc"]


def test_round_trip_of_the_bundled_data(tmp_path, metr):
    assert mb.load(data.save(metr, tmp_path / "metr.nc")).identical(metr)


def test_round_trip_of_unusual_labels(tmp_path):
    labels = ["naïve", "模型", "<script>alert(1)</script>", 'quote " and , comma', "😀"]
    runs = mb.load(
        pd.DataFrame({"agent": labels, "task": labels[::-1], "success": [0, 1, 0, 1, 1]})
    )
    assert mb.load(data.save(runs, tmp_path / "runs.nc")).identical(runs)


def test_saving_replaces_whole_files_or_nothing(tmp_path, runs, monkeypatch):
    path = data.save(runs, tmp_path / "runs.nc")
    before = path.read_bytes()

    def fail(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(xr.Dataset, "to_netcdf", fail)
        with pytest.raises(mb.InputError, match="No space left"):
            data.save(runs, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["runs.nc"]
    with pytest.raises(mb.InputError, match="can't be written"):
        data.save(runs, tmp_path / "none" / "runs.nc")


def test_saved_file_has_the_usual_rights(tmp_path, runs):
    mask = os.umask(0o022)
    try:
        assert data.save(runs, tmp_path / "runs.nc").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(mask)


def test_changed_and_foreign_netcdf_files(tmp_path, runs):
    path = data.save(runs, tmp_path / "runs.nc")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(mb.InputError, match="can't be read as netCDF"):
        mb.load(path)
    path.write_bytes(content)
    # a file that xarray wrote has no seal; what it holds counts
    with xr.open_dataset(path) as file:
        changed = file.load()
    changed["successes"].values[0] = 0
    changed.to_netcdf(tmp_path / "changed.nc")
    assert mb.load(tmp_path / "changed.nc")["successes"].values[0] == 0
    xr.Dataset({"t": ("x", [1.0])}).to_netcdf(tmp_path / "other.nc")
    with pytest.raises(mb.InputError, match="no variable 'agent_index'"):
        mb.load(tmp_path / "other.nc")
    xr.Dataset(attrs={"model_sha256": "0"}).to_netcdf(tmp_path / "fit.nc")
    with pytest.raises(mb.InputError, match=r"(?s)holds a fit.*measurebayes\.open"):
        mb.load(tmp_path / "fit.nc")


def test_every_flipped_byte_of_a_saved_file_is_noticed(tmp_path, runs, rng):
    path = data.save(runs, tmp_path / "runs.nc")
    content = path.read_bytes()
    for at in rng.integers(0, len(content) - 120, 200):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(mb.InputError, match=r"damaged|binary|no reader"):
            mb.load(path)


def test_import_is_light():
    code = (
        "import sys, measurebayes.data as data; data.load('metr-th1.1');"
        "heavy = {'jax', 'pymc', 'arviz', 'matplotlib', 'numpyro'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"minutes_kind": "Estimate"}, "minutes_kind 'Estimate'"),
        ({"minutes_kind": "estmate"}, "minutes_kind 'estmate'"),
        ({"minutes_kind": "windows"}, "minutes_kind 'windows'"),
        ({"baselines": 0.0}, "out of range"),
        ({"baselines": -1}, "out of range"),
        ({"baselines": 0.3}, "out of range"),
        ({"baselines": "three"}, "dtype"),
    ],
)
def test_what_says_how_human_time_is_known_must_make_sense(metr, change, message):
    size = metr.sizes["task"]
    changed = metr.assign({n: ("task", np.full(size, x)) for n, x in change.items()})
    with pytest.raises(mb.InputError, match=message):
        data.validate(changed)
    for kind in ("baseline", "estimate", "window", "", "guess by the author"):
        data.validate(metr.assign(minutes_kind=("task", np.full(size, kind))))
    data.validate(metr.assign(baselines=("task", np.where(np.arange(size) % 2, 3.0, np.nan))))
    with pytest.raises(mb.InputError, match="dims"):
        data.validate(metr.assign(baselines=("agent", np.ones(metr.sizes["agent"]))))
