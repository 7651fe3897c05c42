"""Measures this engine against the textbook programs on the METR counts, in one run.

``python benchmarks/run.py`` runs each program in a fresh process, in turn, several times with other
seeds; it prints the table, writes benchmarks/results.json and puts the table into README.md.
``--table`` only builds the table again from the JSON.

The figure of merit is the smallest bulk effective sample size over all parameters (ability, both
parameters of every task, hyperparameters) per second. Medians over the repetitions; a minimum over
483 parameters is noisy, so that single runs differ by up to 1.5 times.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pages import put

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
README = HERE.parent / "README.md"
CHAINS, DRAWS = 4, 1000
PROGRAMS = {
    "measurebayes": "measurebayes, default settings",
    "numpyro": "(a) textbook NumPyro, NUTS defaults",
    "pymc": "(b) textbook PyMC, default sampler",
}


def measure(program: str, seed: int) -> dict[str, Any]:
    """Run one program once in this process."""
    import measurebayes as mb

    runs = mb.load("metr-th1.1")
    if program == "measurebayes":
        fit = mb.fit("two_pl", runs, draws=DRAWS, chains=CHAINS, seed=seed, progress=False)
        posterior = fit["posterior"].to_dataset()
        steps = int(fit["sample_stats"]["n_steps"].sum())
        sampling, compiling = fit.attrs["sampling_seconds"], fit.attrs["compile_seconds"]
        divergent = int(fit["sample_stats"]["diverging"].sum())
    else:
        sys.path.insert(0, str(HERE))
        import textbook

        draw = getattr(textbook, f"{program}_textbook")
        posterior, steps, sampling, compiling = draw(runs, CHAINS, 1000, DRAWS, seed)
        divergent = -1
    return {
        **convergence(posterior),
        "gradients_per_draw": steps / (CHAINS * DRAWS),
        "gradients": steps,
        "sampling_seconds": sampling,
        "compile_seconds": compiling,
        "divergent": divergent,
    }


def convergence(posterior: Any) -> dict[str, Any]:
    """Return smallest bulk ESS, its parameter, and largest R-hat; also without the free level."""
    import arviz as az

    ess, rhat = az.ess(posterior), az.rhat(posterior)
    worst = min(ess.data_vars, key=lambda name: float(ess[name].min()))
    level = posterior["ability"].mean(posterior["ability"].dims[2:])
    centred = posterior[["ability", "difficulty"]] - level
    identified = az.ess(centred)
    least = {n: float(ess[n].min()) for n in ess.data_vars}
    return {
        "ess": least[worst],
        "worst": str(worst),
        "rhat": max(float(rhat[name].max()) for name in rhat.data_vars),
        "ess_without_level": min(
            [float(identified[n].min()) for n in identified.data_vars]
            + [v for n, v in least.items() if n not in ("ability", "difficulty", "difficulty_mean")]
        ),
    }


def run_all(repeats: int) -> dict[str, Any]:
    """Run every program `repeats` times, each in a process of its own, in turn."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in PROGRAMS}
    for repeat in range(repeats):
        for name in PROGRAMS:
            command = [sys.executable, __file__, "--one", name, "--seed", str(repeat + 1)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
            shown = {k: v for k, v in found[name][-1].items() if k != "worst"}
            print(f"{name} {repeat + 1}: {shown}", file=sys.stderr, flush=True)
    return {"machine": machine(), "chains": CHAINS, "draws": DRAWS, "runs": found}


def machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    packages = ("measurebayes", "numpyro", "jax", "pymc", "nutpie", "arviz")
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def rates(results: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return the medians that the table shows, by program."""
    table = {}
    for name, runs in results["runs"].items():
        columns = {
            "per_second": [r["ess"] / r["sampling_seconds"] for r in runs],
            "with_compilation": [
                r["ess"] / (r["sampling_seconds"] + r["compile_seconds"]) for r in runs
            ],
            "without_level": [r["ess_without_level"] / r["sampling_seconds"] for r in runs],
            "per_1000_gradients": [1000 * r["ess"] / r["gradients"] for r in runs],
            "gradients_per_draw": [r["gradients_per_draw"] for r in runs],
            "rhat": [r["rhat"] for r in runs],
        }
        table[name] = {key: statistics.median(values) for key, values in columns.items()}
    return table


def markdown(results: dict[str, Any]) -> str:
    """Return the table and what it was measured on."""
    found = rates(results)
    own = found["measurebayes"]
    lines = [
        "| program | ESS / s | with compilation | ESS / 1,000 gradients | gradients / draw "
        "| largest R-hat |",
        "|---|---|---|---|---|---|",
    ]
    for name, title in PROGRAMS.items():
        row = found[name]
        ratio = [own[k] / row[k] for k in ("per_second", "with_compilation")]
        less = ["" if name == "measurebayes" else f" (1/{x:.0f})" for x in ratio]
        cells = (
            title,
            f"{row['per_second']:.3g}{less[0]}",
            f"{row['with_compilation']:.3g}{less[1]}",
            f"{row['per_1000_gradients']:.2g}",
            f"{row['gradients_per_draw']:.0f}",
            f"{row['rhat']:.3f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    others = [n for n in PROGRAMS if n != "measurebayes"]
    kinder = " and ".join(f"{own['per_second'] / found[n]['without_level']:.0f}" for n in others)
    where = results["machine"]
    versions = ", ".join(f"{n} {v}" for n, v in where["versions"].items() if n != "measurebayes")
    lines += [
        "",
        f"Medians of {len(results['runs']['measurebayes'])} runs of {results['chains']} chains x "
        f"{results['draws']} draws, {where['cores']} cores ({where['architecture']}), {versions}. "
        "In brackets: the fraction of this engine's rate. The pilot run and the warm-up count as "
        "sampling. The textbook form leaves the common level of abilities and difficulties to the "
        "priors; counting only what is identified without it, this engine's rate is "
        f"{kinder} times theirs.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="runs of each program (default 3)")
    parser.add_argument("--table", action="store_true", help="build the table from the JSON only")
    parser.add_argument("--one", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.seed)))
        return
    if not options.table:
        text = json.dumps(run_all(options.repeats), indent=1)
        RESULTS.write_text(text + "\n", encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    table = markdown(results)
    print(table)
    put(README, "benchmark", table)


if __name__ == "__main__":
    main()
