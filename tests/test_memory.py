"""Sizes of memory: what is understood, and what is kept to."""

import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from fake_fit import fake_data, fake_fit, fit_of

import measurebayes as mb
from measurebayes.backends.blocks import USUAL, in_bytes
from measurebayes.cli import main
from measurebayes.compare.crossval import _Fold, _predict
from measurebayes.compare.held_attempts import _densities
from measurebayes.errors import InputError
from measurebayes.program.registry import get_model


@pytest.mark.parametrize(
    ("memory", "size"),
    [
        (None, USUAL),
        (1, 1),
        (np.int64(5000), 5000),
        ("1", 1),
        ("700 B", 700),
        ("2GiB", 2 * 1024**3),
        (" 1.5 gib ", 3 * 2**29),
        ("500MB", 500_000_000),
        (".5kB", 500),
        ("3KiB", 3072),
        ("1TB", 10**12),
    ],
)
def test_sizes_in_words(memory, size):
    assert in_bytes(memory) == size


@pytest.mark.parametrize(
    "memory",
    [0, -1, 0.5, True, "", "GiB", "2 GiBs", "2e9", "-1GiB", "0", "1 2", [2], 1e30, "9" * 40],
)
def test_what_is_no_size_is_refused_before_anything_is_computed(memory):
    fit = fake_fit(agents=3, tasks=4, draws=10, chains=2)
    with pytest.raises(InputError, match="memory=") as caught:
        mb.compare({"a": fit}, memory=memory)
    assert caught.value.remedy == "memory='2GiB'"


def test_every_command_and_function_refuses_alike(tmp_path):
    fit, path = fake_fit(agents=12, tasks=8, draws=20, chains=2), tmp_path / "fit.nc"
    runs = fit["data"].to_dataset()
    mb.save(fit, path)
    for words in (
        ["check", str(path)],
        ["compare", str(path)],
        ["score", "metr-th1.1", str(path)],
        ["dependence", str(path)],
        ["misfit", str(path)],
        ["crossval", "metr-th1.1", "--models", "rasch"],
    ):
        result = CliRunner().invoke(main, [*words, "--memory", "much"])
        assert result.exit_code == 2
        assert "--memory 2GiB" in result.output
    for function in (
        lambda memory: mb.check(fit, memory=memory),
        lambda memory: mb.score(runs, fit, memory=memory),
        lambda memory: mb.local_dependence(fit, memory=memory),
        lambda memory: mb.task_fit(fit, memory=memory),
        lambda memory: mb.agent_fit(fit, memory=memory),
        lambda memory: mb.differential_functioning(fit, ["agent 1"], memory=memory),
        lambda memory: mb.crossval("rasch", runs, memory=memory),
    ):
        with pytest.raises(InputError, match="memory="):
            function("much")


def test_held_out_cells_in_blocks(monkeypatch):
    data, truth = fake_data(5, 8, attempts=3)
    fit = fit_of(data, truth, "rasch", chains=2, draws=30)
    monkeypatch.setattr("measurebayes.compare.crossval.fitted", lambda *_: fit)
    held, group = data["task_index"].values > 1, data["task_index"].values
    found = [
        _predict(_Fold("rasch", data, held, group, 0, {}, None, budget))[0]
        for budget in (2**30, 8 * 6 * 60 * 4, 1)
    ]
    assert np.isfinite(found[0][2:]).all()
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-9)
    halves = [
        _densities(get_model("rasch"), data, fit["posterior"].to_dataset(), budget)
        for budget in (2**30, 1)
    ]
    np.testing.assert_allclose(halves[0], halves[1], rtol=1e-9)


# Peaks above what is there before, of each function with a small and a large size of memory.
MEASURE = r"""
import json, re, sys
sys.path.insert(0, "tests")
import arviz_stats.base, scipy.sparse
import numpy as np
from fake_fit import fake_data, fit_of
import measurebayes as mb
from measurebayes.compare import loo

def status(name):
    return int(re.search(name + r":\s+(\d+) kB", open("/proc/self/status").read())[1]) / 1024

def made(agents, tasks, draws):
    data, truth = fake_data(agents, tasks, attempts=1, holes=0.0)
    return fit_of(data, truth, "rasch", chains=4, draws=draws, log_likelihood=False)

wide, deep = made(300, 2000, 25), made(4, 100, 7000)
new = mb.subset(wide["data"].to_dataset(), agent=["agent 1"])
functions = {
    "task_fit": lambda memory: mb.task_fit(wide, 20, memory)["infit"],
    "differential_functioning":
        lambda memory: mb.differential_functioning(wide, ["agent 1"], memory)["difference"],
    "score": lambda memory: mb.score(new, wide, memory=memory)["ability"],
    "cell": lambda memory: loo(deep, "cell", memory=memory)["elpd"],
    "task": lambda memory: loo(deep, "task", memory=memory)["elpd"],
}
for name, function in functions.items():
    function("16MiB")  # imports and first calls into libraries are not what is measured
    found = []
    before = status("VmRSS")
    for memory in ("16MiB", "256MiB"):
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # VmHWM begins anew
        found.append((np.asarray(function(memory)), status("VmHWM") - before))
    (small, low), (large, high) = found
    print(json.dumps({"name": name, "low": low, "high": high,
        "apart": float(np.abs(small - large).max()), "size": small.size}), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
def test_peaks_follow_the_size_and_results_do_not():
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for row in map(json.loads, done.stdout.splitlines()):
        assert row["size"] > 0
        assert row["apart"] < 1e-9, row
        # 120 MiB for what is not counted: arrays of cells, results
        assert row["low"] < 16 + 120, row
        assert row["high"] < 256 + 120, row
        assert row["high"] > row["low"] + 60, row  # it is used where there is use for it
