"""A long reference run of the two-parameter model on the METR counts, by another sampler.

``python benchmarks/reference.py`` draws ten chains with nutpie from the identified program in PyMC
(benchmarks/identified.py: the density of models/two_pl.py, tested in
tests/test_benchmark_programs.py), keeps every tenth draw and writes mean, standard deviation and
their Monte Carlo standard errors for each parameter to benchmarks/reference_two_pl.json.
tests/test_reference_run.py compares a fit with that file. About 40 minutes on one core; chains that
are done are kept in the folder given by --parts, so that it can be stopped and gone on with.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from textbook import PRIORS

RESULT = Path(__file__).with_name("reference_two_pl.json")
CHAINS, TUNE, KEPT, THIN = 10, 2000, 1000, 10
TARGET_ACCEPT = 0.9  # above nutpie's default: fewer divergent transitions
NAMES = (
    "ability",
    "ability_sd",
    "difficulty",
    "difficulty_mean",
    "difficulty_sd",
    "discrimination",
    "log_discrimination_sd",
)


def draw_chain(compiled: Any, number: int) -> dict[str, np.ndarray]:
    """Return every tenth draw of a chain, and its numbers of divergences and gradients."""
    import nutpie

    tree = nutpie.sample(
        compiled,
        draws=KEPT * THIN,
        tune=TUNE,
        chains=1,
        cores=1,
        seed=1000 + number,
        target_accept=TARGET_ACCEPT,
        save_warmup=False,
        progress_bar=False,
    )
    statistics = tree["sample_stats"]
    return {
        **{name: tree["posterior"][name].values[0, ::THIN] for name in NAMES},
        "divergent": np.int64(statistics["diverging"].sum()),
        "gradients": np.int64(statistics["n_steps"].sum()),
    }


def all_chains(folder: Path) -> list[dict[str, np.ndarray]]:
    """Return all chains; those that the folder lacks are drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"chain{number}.npz" for number in range(CHAINS)]
    compiled = None
    for number, file in enumerate(files):
        if file.exists():
            continue
        if compiled is None:
            import identified
            import nutpie

            import measurebayes as mb

            compiled = nutpie.compile_pymc_model(identified.pymc_model(mb.load("metr-th1.1")))
        chain = draw_chain(compiled, number)
        part = file.with_suffix(".part.npz")
        np.savez_compressed(part, **chain)
        part.replace(file)
        steps = int(chain["gradients"])
        print(f"chain {number}: {steps} gradients, {chain['divergent']} divergent", file=sys.stderr)
    return [dict(np.load(file)) for file in files]


def summary(chains: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Return what the file holds: by parameter, in the order of the data's agents and tasks."""
    import arviz as az

    import measurebayes as mb
    from measurebayes.data import fingerprint

    runs = mb.load("metr-th1.1")
    stacked = {name: np.stack([chain[name] for chain in chains]) for name in NAMES}
    posterior = xr.Dataset(
        {n: (("chain", "draw", *[f"{n}_dim"] * (v.ndim - 2)), v) for n, v in stacked.items()}
    )
    over = ("chain", "draw")
    columns = {
        "mean": posterior.mean(over),
        "sd": posterior.std(over, ddof=1),
        "mcse_mean": az.mcse(posterior, method="mean"),
        "mcse_sd": az.mcse(posterior, method="sd"),
        "ess_bulk": az.ess(posterior),
        "rhat": az.rhat(posterior),
    }
    parameters = {
        name: {key: rounded(column[name].values) for key, column in columns.items()}
        for name in NAMES
    }
    return {
        "definition": "Posterior of models/two_pl.py with its priors, METR Time Horizon 1.1 "
        "counts; abilities sum to zero, logits. Means, standard deviations and their Monte Carlo "
        "standard errors, in the order of the data's agents and tasks.",
        "sampler": f"nutpie on benchmarks/identified.py, {len(chains)} chains of {TUNE} warm-up "
        f"draws and {KEPT * THIN} draws, every {THIN}th kept, target acceptance {TARGET_ACCEPT}",
        "made_by": "python benchmarks/reference.py",
        "priors": PRIORS,
        "data": fingerprint(runs),
        "versions": {name: version(name) for name in ("nutpie", "pymc", "pytensor", "numpy")},
        "draws": len(chains) * KEPT,
        "gradients": int(sum(chain["gradients"] for chain in chains)),
        "divergent": int(sum(chain["divergent"] for chain in chains)),
        "least_ess": min(float(columns["ess_bulk"][n].min()) for n in NAMES),
        "largest_rhat": max(float(columns["rhat"][n].max()) for n in NAMES),
        "parameters": parameters,
    }


def rounded(values: np.ndarray) -> Any:
    """Return numbers with six significant digits, which is far more than their error allows."""
    if values.ndim == 0:
        return float(f"{float(values):.6g}")
    return [float(f"{value:.6g}") for value in values.tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", type=Path, required=True, help="folder for chains that are done")
    options = parser.parse_args()
    found = summary(all_chains(options.parts))
    RESULT.write_text(json.dumps(found) + "\n", encoding="utf-8")
    print({k: v for k, v in found.items() if k != "parameters"})


if __name__ == "__main__":
    main()
