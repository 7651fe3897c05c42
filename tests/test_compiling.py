"""Compiled programs on disk: found again, never trusted from others, mended when damaged."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from measurebayes.errors import InputError

jax = pytest.importorskip("jax")

from measurebayes.inference import compiling  # noqa: E402


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(compiling.VARIABLE, str(tmp_path / "programs"))
    monkeypatch.setattr(compiling, "WORTH_KEEPING", 0.0)
    found = compiling.cache_folder()
    assert found is not None
    return found


def sine(x):
    return jax.numpy.sin(x) + 1.0


def run():
    """Compile as a new process would, and run."""
    jax.clear_caches()
    with jax.enable_x64(True):
        program = compiling.compiled({"sine": jax.jit(sine).lower(np.zeros(3))})["sine"]
        np.testing.assert_allclose(program(np.arange(3.0)), np.sin(np.arange(3.0)) + 1.0, 1e-14)


def entries(folder):
    return sorted(folder.glob("jit_sine-*-cache"))


def test_a_program_is_kept_and_found_again(folder):
    run()
    (kept,) = entries(folder)
    found = []
    jax.monitoring.register_event_listener(lambda name, **_: found.append(name))
    run()
    assert "/jax/compilation_cache/cache_hits" in found
    assert entries(folder) == [kept]


def test_settings_of_jax_are_put_back(folder):
    before = jax.config.jax_compilation_cache_dir
    run()
    assert jax.config.jax_compilation_cache_dir == before
    jax.clear_caches()
    jax.jit(lambda x: x - 7.0)(1.0)  # the user's own program is not ours to keep
    assert all("sine" in entry.name for entry in folder.glob("*-cache"))


def test_a_half_written_program_is_compiled_anew_without_a_word(folder):
    run()
    (kept,) = entries(folder)
    kept.write_bytes(kept.read_bytes()[:40])
    run()  # warnings are errors in tests
    assert not kept.exists()
    run()
    assert entries(folder) == [kept]


def test_a_folder_that_others_may_write_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(compiling.VARIABLE, str(tmp_path))
    own = compiling.cache_folder()
    own.chmod(0o777)
    with pytest.raises(InputError, match="other users may write to it"):
        compiling.cache_folder()


def test_a_folder_that_cannot_be_made_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(compiling.VARIABLE, str(tmp_path / "file"))
    with pytest.raises(InputError, match=compiling.VARIABLE):
        compiling.cache_folder()


def test_nothing_is_kept_where_the_variable_is_empty(monkeypatch):
    monkeypatch.setenv(compiling.VARIABLE, "")
    assert compiling.cache_folder() is None
    run()


@pytest.mark.slow
def test_a_new_process_finds_the_programs_of_a_fit(tmp_path):
    text = """
import jax, measurebayes as mb, pandas as pd
found = []
jax.monitoring.register_event_listener(lambda name, **_: found.append(name.split("/")[-1]))
cells = [(f"a{i}", f"t{j}", 2, (i * j) % 3) for i in range(4) for j in range(6)]
runs = mb.load(pd.DataFrame(cells, columns=["agent", "task", "attempts", "successes"]))
fit = mb.fit("two_pl", runs, draws=20, tune=20, chains=1, seed=3, progress=False)
print(found.count("cache_hits"), float(fit["posterior"]["ability"].sum("agent").std() < 1e-9),
      float(fit["posterior"]["difficulty"].mean()))
"""
    environment = {"MEASUREBAYES_CACHE": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", text]
    first, second = (
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    )
    hits, zero, mean = first.split()
    assert (int(hits), float(zero)) == (0, 1.0)
    again, zero, same = second.split()
    assert int(again) >= 4
    assert same == mean  # the draws are those of the program that was compiled
