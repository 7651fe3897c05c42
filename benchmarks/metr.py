"""The two-parameter model on the METR counts: this engine against other programs.

``python benchmarks/run.py --part metr`` runs each program of PROGRAMS in a process of its own.
The figure of merit is the smallest bulk effective sample size over all 483 parameters (ability,
difficulty, discrimination, hyperparameters) per second. Sampling includes the warm-up and this
engine's pilot run; what it takes besides is compilation, set-up and collecting the draws. Imports
of packages are not counted. Before a program is measured, its log density is compared with that
of the model (agreement.py).
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

import numpy as np
import samplers
import xarray as xr

DRAWS, TUNE = 1000, 1000  # of other programs; this engine's default warm-up is shorter
PROGRAMS = {
    "measurebayes": "measurebayes, first fit",
    "measurebayes_again": "measurebayes, later fit in a new process (compile cache)",
    "textbook_numpyro": "NumPyro, textbook program",
    "textbook_pymc": "PyMC's default (nutpie), textbook program",
    "identified_numpyro": "NumPyro, identified program",
    "identified_pymc": "PyMC's default (nutpie), identified program",
    "identified_stan": "Stan (rstan), identified program",
}


def measure(program: str, chains: int, seed: int) -> dict[str, Any]:
    """Run a program once in this process."""
    import measurebayes as mb

    data = mb.load("metr-th1.1")
    versions: dict[str, str] = {}
    if program.startswith("measurebayes"):
        drawn = _ours(data, chains, seed)
    elif program == "identified_stan":
        if reason := samplers.why_no_stan():
            return {"skipped": reason}
        from agreement import check, expected, points

        drawn, found, stan = samplers.with_stan(data, chains, TUNE, DRAWS, seed)
        check(program, found, [expected(data, point, textbook=False) for point in points(data)])
        versions["stan"] = stan
    else:
        drawn = _python_program(data, program, chains, seed)
    return {
        **convergence(drawn.posterior),
        "gradients": drawn.gradients,
        "gradients_per_draw": drawn.gradients / (chains * DRAWS),
        "divergent": drawn.divergent,
        "sampling_seconds": drawn.sampling_seconds,
        "other_seconds": drawn.compile_seconds,
        "versions": versions,
    }


def _ours(data: xr.Dataset, chains: int, seed: int) -> samplers.Drawn:
    import arviz  # noqa: F401
    import numpyro  # noqa: F401

    import measurebayes as mb

    mb.fit  # its imports are not what is measured  # noqa: B018
    started = time.perf_counter()
    fit = mb.fit("two_pl", data, draws=DRAWS, chains=chains, seed=seed, progress=False)
    total = time.perf_counter() - started
    statistics, sampling = fit["sample_stats"], float(fit.attrs["sampling_seconds"])
    return samplers.Drawn(
        fit["posterior"].to_dataset(),
        int(statistics["n_steps"].sum()),
        int(statistics["diverging"].sum()),
        sampling,
        total - sampling,
    )


def _python_program(data: xr.Dataset, program: str, chains: int, seed: int) -> samplers.Drawn:
    import agreement

    form, library = program.split("_")
    model = getattr(importlib.import_module(form), f"{library}_model")(data)
    density = getattr(agreement, f"{library}_density")
    at = agreement.points(data)
    wanted = [agreement.expected(data, point, form == "textbook") for point in at]
    draw = getattr(samplers, f"with_{library}")
    if library == "numpyro":  # the number of devices must be said before JAX computes anything
        samplers.two_devices()
    agreement.check(program, [density(model, point) for point in at], wanted)
    return draw(model, chains, TUNE, DRAWS, seed)


def convergence(posterior: xr.Dataset) -> dict[str, Any]:
    """Return smallest bulk ESS, its parameter, and largest R-hat; also without the free level."""
    import arviz as az

    ess, rhat = az.ess(posterior), az.rhat(posterior)
    least = {str(n): float(ess[n].min()) for n in ess.data_vars}
    worst = min(least, key=lambda name: least[name])
    # A textbook program leaves the common level of abilities and difficulties to the priors.
    level = posterior["ability"].mean(posterior["ability"].dims[2:])
    identified = az.ess(posterior[["ability", "difficulty"]] - level)
    free = ("ability", "difficulty", "difficulty_mean")
    return {
        "ess": least[worst],
        "worst": worst,
        "rhat": max(float(np.max(rhat[name])) for name in rhat.data_vars),
        "ess_without_level": min(
            [float(identified[n].min()) for n in identified.data_vars]
            + [value for name, value in least.items() if name not in free]
        ),
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
