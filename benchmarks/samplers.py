"""Draws from the programs of textbook.py, identified.py and two_pl.stan, each sampler's way.

Every function returns the posterior (chain, draw, ...) without auxiliary variables, the gradients
and divergences after warm-up, the seconds of sampling, warm-up included, and all other seconds.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

HERE = Path(__file__).resolve().parent
CORES = 2
HOW_TO_GET_STAN = "apt-get install r-cran-rstan (Debian), or install.packages('rstan') in R"


class Drawn(NamedTuple):
    """What a sampler did."""

    posterior: xr.Dataset
    gradients: int
    divergent: int
    sampling_seconds: float
    compile_seconds: float


def two_devices() -> None:
    """Give JAX a device a core and float64, before it computes anything."""
    import numpyro

    numpyro.set_host_device_count(CORES)
    numpyro.enable_x64()


def with_numpyro(model: Callable[[], None], chains: int, tune: int, draws: int, seed: int) -> Drawn:
    """Draw with NumPyro's NUTS at its defaults in float64, chains in pairs on two host devices."""
    two_devices()
    import jax
    from numpyro.infer import MCMC, NUTS

    compiling = [0.0]

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event.startswith("/jax/core/compile"):
            compiling[0] += seconds

    jax.monitoring.register_event_duration_secs_listener(listen)
    # NumPyro compiles for the first pair of chains and not again.
    mcmc = MCMC(
        NUTS(model), num_warmup=tune, num_samples=draws, num_chains=CORES, progress_bar=False
    )
    started, parts, more = time.perf_counter(), [], []
    for pair in range(chains // CORES):
        key = jax.random.PRNGKey(1000 * seed + pair)
        mcmc.run(key, extra_fields=("num_steps", "diverging"))
        parts.append({n: np.asarray(v) for n, v in mcmc.get_samples(group_by_chain=True).items()})
        more.append({n: int(v.sum()) for n, v in mcmc.get_extra_fields().items()})
    total = time.perf_counter() - started
    drawn = {n: np.concatenate([part[n] for part in parts]) for n in parts[0]}
    return Drawn(
        as_dataset(drawn),
        sum(one["num_steps"] for one in more),
        sum(one["diverging"] for one in more),
        total - compiling[0],
        compiling[0],
    )


def with_pymc(model: Any, chains: int, tune: int, draws: int, seed: int) -> Drawn:
    """Draw with PyMC's default sampler, which is nutpie where that is installed."""
    import pymc as pm

    started = time.perf_counter()
    with model:
        tree = pm.sample(
            draws=draws,
            tune=tune,
            chains=chains,
            cores=CORES,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    total = time.perf_counter() - started
    sampling = float(tree["posterior"].attrs["sampling_time"])
    statistics = tree["sample_stats"]
    return Drawn(
        as_dataset({str(n): v.values for n, v in tree["posterior"].data_vars.items()}),
        int(statistics["n_steps"].sum()),
        int(statistics["diverging"].sum()),
        sampling,
        total - sampling,
    )


def why_no_stan() -> str:
    """Return why Stan can't be run here; empty where it can."""
    if shutil.which("Rscript") is None:
        return f"skipped: no Rscript. {HOW_TO_GET_STAN}"
    asked = subprocess.run(["Rscript", "-e", "library(rstan)"], capture_output=True, check=False)
    return "" if asked.returncode == 0 else f"skipped: R without rstan. {HOW_TO_GET_STAN}"


def with_stan(
    data: xr.Dataset, chains: int, tune: int, draws: int, seed: int
) -> tuple[Drawn, list[float], str]:
    """Compile two_pl.stan and draw with rstan; also its log density at `agreement.points`."""
    from agreement import points

    agents, tasks = data.sizes["agent"], data.sizes["task"]
    basis = zero_sum_basis(agents)
    columns = [_for_stan(point, basis) for point in points(data)]
    settings = {"chains": chains, "tune": tune, "draws": draws, "seed": seed, "cores": CORES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(HERE / "two_pl.stan", folder)
        _dump(folder / "data.R", {
            "n_agents": agents, "n_tasks": tasks, "n_cells": data.sizes["cell"],
            "agent": data["agent_index"].values + 1, "task": data["task_index"].values + 1,
            "attempts": data["attempts"].values, "successes": data["successes"].values,
            "basis": basis,
        })  # fmt: skip
        _dump(folder / "settings.R", {**settings, "points": np.stack(columns, axis=1)})
        command = ["Rscript", str(HERE / "two_pl.R"), name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"two_pl.R failed:\n{done.stderr[-3000:]}")
        found = [float(x) for x in (folder / "found.txt").read_text().split()]
        flat = np.fromfile(folder / "draws.bin")
        version = (folder / "version.txt").read_text().split()
    compiled, wall, elapsed, steps, divergent, *densities = found
    sampling = elapsed / min(
        CORES, chains
    )  # what starting R anew for each core takes is not counted
    posterior = _of_stan(flat, chains, draws, agents, tasks)
    drawn = Drawn(posterior, int(steps), int(divergent), sampling, compiled + wall - sampling)
    return drawn, densities, f"rstan {version[0]}, Stan {version[-1]}"


def zero_sum_basis(n: int) -> np.ndarray:
    """Return orthonormal columns (n, n - 1), each of which sums to zero."""
    full = np.concatenate([np.ones((n, 1)), np.eye(n)[:, : n - 1]], axis=1)
    return np.linalg.qr(full)[0][:, 1:]


def _for_stan(point: dict[str, np.ndarray], basis: np.ndarray) -> np.ndarray:
    order = (
        point["ability_sd"],
        basis.T @ point["ability"],
        point["difficulty_mean"],
        point["difficulty_sd"],
        point["difficulty"],
        point["log_discrimination_sd"],
        point["raw_log_discrimination"],
    )
    return np.concatenate([np.ravel(x) for x in order])


def _dump(file: Path, values: dict[str, Any]) -> None:
    """Write numbers and arrays in the form that R's `source` and rstan's `read_rdump` read."""

    def text(value: Any) -> str:
        array = np.asarray(value)
        numbers = ", ".join(format(x, "d" if array.dtype.kind == "i" else ".17g")
                            for x in array.ravel(order="F"))  # fmt: skip
        if array.ndim == 0:
            return numbers
        row = f"c({numbers})"
        shape = ", ".join(str(n) for n in array.shape)
        return row if array.ndim == 1 else f"structure({row}, .Dim = c({shape}))"

    lines = [f"{name} <- {text(value)}\n" for name, value in values.items()]
    file.write_text("".join(lines), encoding="utf-8")


def _of_stan(flat: np.ndarray, chains: int, draws: int, agents: int, tasks: int) -> xr.Dataset:
    """Return the draws that two_pl.R wrote: draw runs fastest, then chain, then parameter."""
    sizes = {
        "ability_sd": 0,
        "ability": agents,
        "difficulty_mean": 0,
        "difficulty_sd": 0,
        "difficulty": tasks,
        "log_discrimination_sd": 0,
        "discrimination": tasks,
    }
    array = flat.reshape(-1, chains, draws)
    drawn, at = {}, 0
    for name, size in sizes.items():
        piece = np.moveaxis(array[at : at + max(size, 1)], 0, -1)
        drawn[name] = piece if size else piece[..., 0]
        at += max(size, 1)
    return as_dataset(drawn)


def as_dataset(drawn: dict[str, np.ndarray]) -> xr.Dataset:
    """Return draws as a dataset; auxiliary variables (raw_...) are left out."""
    return xr.Dataset(
        {
            name: (("chain", "draw", *[f"{name}_dim"] * (values.ndim - 2)), values)
            for name, values in drawn.items()
            if not name.startswith("raw_")
        }
    )
