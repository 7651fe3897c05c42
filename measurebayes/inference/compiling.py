"""Compiling, several programs at once, and keeping them on disk for the next process.

Compilation is most of the time of a short fit. JAX can keep compiled programs in a folder, by a
digest of the program, of the compiler and of its settings; a program found there loads in a tenth
of the time. What lies there is machine code that will be run: the folder must belong to the user,
and nobody else may write to it.
"""

from __future__ import annotations

import os
import platform
import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import jax
import xarray as xr
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from platformdirs import user_cache_path

from measurebayes.backends.simulate import reads
from measurebayes.errors import InputError
from measurebayes.program.cells import Cells
from measurebayes.program.human_times import human_times
from measurebayes.program.registry import ModelFile

VARIABLE = "MEASUREBAYES_CACHE"  # names the folder; empty: nothing is kept
LIMIT = 512 * 2**20  # bytes; what was not used for longest goes first
WORTH_KEEPING = 0.05  # seconds of compilation

_ONE_AT_A_TIME = threading.Lock()
_DAMAGED = re.compile(r"Error (?:reading|writing) persistent compilation cache entry for '(\w+)'")


def compiled(programs: Mapping[str, Any]) -> dict[str, Any]:
    """Compile what `jax.jit(...).lower(...)` returned, or load it from the disk.

    Parameters
    ----------
    programs
        By name.

    Returns
    -------
    dict of str to jax.stages.Compiled
        By the same names.
    """

    def one(lowered: Any) -> Any:
        with jax.enable_x64(True):
            return lowered.compile()

    with _kept_on_disk(), ThreadPoolExecutor(len(programs)) as pool:
        return dict(zip(programs, pool.map(one, programs.values()), strict=True))


def cache_folder() -> Path | None:
    """Return the folder of compiled programs for this kind of processor; made if absent.

    None where nothing is to be kept, or the user's usual place for such things can't be used.

    Raises
    ------
    InputError
        The folder that the variable MEASUREBAYES_CACHE names can't be used.
    """
    named = os.environ.get(VARIABLE)
    if named == "":
        return None
    folder = (Path(named) if named else user_cache_path("measurebayes") / "programs") / _processor()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        alone = found.st_uid == os.geteuid() and not found.st_mode & 0o022
        problem = "" if alone else "other users may write to it"
        problem = problem or ("" if os.access(folder, os.W_OK) else "it can't be written to")
    except OSError as error:
        problem = str(error.strerror)
    if not problem:
        return folder
    if named:
        raise InputError(
            f"{VARIABLE}={named}: {problem}",
            where="the environment",
            expected="a folder for compiled programs that you alone may write to",
            remedy=f"unset {VARIABLE}, or set it to the empty text to keep no programs",
        )
    return None


def _processor() -> str:
    """Return a name for the instructions that this processor knows."""
    text = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        text += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        text += platform.processor()
    return sha256(text.encode()).hexdigest()[:12]


@contextmanager
def _kept_on_disk() -> Iterator[None]:
    """Let JAX keep programs in our folder while the block runs; its settings are put back.

    A setting of the user's own for JAX stays as it is.
    """
    folder = None if jax.config.jax_compilation_cache_dir else cache_folder()
    if folder is None:
        yield
        return
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_compilation_cache_max_size": LIMIT,
        "jax_persistent_cache_min_compile_time_secs": WORTH_KEEPING,
    }
    with _ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = {name: getattr(jax.config, name) for name in settings}
        reset_cache()
        for name, value in settings.items():
            jax.config.update(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                jax.config.update(name, value)
            reset_cache()
    for warning in caught:
        damaged = _DAMAGED.match(str(warning.message))
        if damaged is None:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
            continue
        # Half written by a process that was killed: away with it, it was compiled anew.
        for entry in folder.glob(f"{damaged[1]}-*"):
            entry.unlink(missing_ok=True)


def compiled_in(model: ModelFile, data: xr.Dataset) -> xr.Dataset:
    """Return the part of the data that the compiled program depends on.

    What is observed is an argument of the program. On a grid of agents by tasks counts also say
    which cells there are, so that data with other holes (folds of a cross-validation) share the
    program. A text that reads the data itself, or is written by hand for one library, may depend on
    anything.
    """
    if model.numpyro is not None:
        return data
    design = data.assign(successes=data["attempts"] * 0)
    if model.reads_data:
        return design
    read = reads(model, data)
    if "human_minutes" not in read:  # records of human time are observed, if anything
        for kind, records in human_times(data).items():
            design[f"{kind}_task"] = (kind, records.task)
            design[f"{kind}_number"] = (kind, records.number)
        times = ("human_minutes", "timing_minutes")
        design = design.drop_vars([name for name in times if name in design])
    if "cells" in read or Cells(data, "auto").layout == "long":
        return design
    cells = [name for name in design.data_vars if "cell" in design[name].dims]
    return design.drop_vars(cells)
