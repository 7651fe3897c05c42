"""What engines that approximate are worth: their means and standard deviations against NUTS.

python benchmarks/approximate.py                  # all designs and methods; 30 minutes on two cores
python benchmarks/approximate.py METR/rasch       # one design
python benchmarks/approximate.py page             # the table of docs/fitting.md

Results are kept in approximate.json after each fit, and a run goes on where it was stopped. Data
sets other than METR's are read from ../shared/data; their rows are left out where it is absent.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from pages import keep, put, stored

import measurebayes as mb
from measurebayes.checks import converged
from measurebayes.errors import MeasureBayesError
from measurebayes.inference.fitting import METHODS

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "approximate.json", HERE.parent / "docs" / "fitting.md"
SHARED = HERE.parent.parent / "shared" / "data"
DESIGNS: dict[str, tuple[str | Path, str]] = {
    "METR/rasch": ("metr-th1.1", "rasch"),
    "METR/two_pl": ("metr-th1.1", "two_pl"),
    "METR/horizon_task": ("metr-th1.1", "horizon_task"),
    "LSAT 6/rasch": (SHARED / "lsat" / "lsat6.csv", "rasch"),
    "LSAT 6/two_pl": (SHARED / "lsat" / "lsat6.csv", "two_pl"),
    "Verbal aggression/rasch": (SHARED / "verbagg" / "verbagg_long.csv", "rasch"),
    "Verbal aggression/testlet": (SHARED / "verbagg" / "verbagg_long.csv", "testlet"),
}
LONG = {"draws": 4000, "chains": 4, "tune": 1000, "seed": 11}  # what all is compared with


def runs_of(source: str | Path) -> xr.Dataset:
    """Load a data set; families of verbal aggression are situations."""
    if isinstance(source, str):
        return mb.load(source)
    if not source.exists():
        raise FileNotFoundError(source)
    if "verbagg" not in source.parts:
        return mb.load(source)
    table = pd.read_csv(source)
    columns = {"agent": "id", "task": "item", "success": "r2", "family": "situ"}
    return mb.load(table.assign(r2=table["r2"] == "Y"), columns=columns, ignore="*")


def scalars(fit: xr.DataTree) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of all scalars of a posterior."""
    posterior = fit["posterior"].to_dataset()
    draws = [x.values.reshape(x.shape[0] * x.shape[1], -1) for x in posterior.values()]
    whole = np.concatenate(draws, axis=1)
    return whole.mean(axis=0), whole.std(axis=0)


def measure(name: str) -> None:
    """Fit one design by every method, and keep what it is worth."""
    source, model = DESIGNS[name]
    try:
        runs = runs_of(source)
    except FileNotFoundError:
        print(f"{name}: {source} is not here, left out")
        return
    known = stored(RESULTS).get(name, {})
    if set(METHODS) <= set(known):
        return
    reference = mb.fit(model, runs, progress=False, **LONG)
    if not converged(reference):
        print(f"{name}: the reference run has not converged", file=sys.stderr)
    centre, spread = scalars(reference)
    for method in METHODS:
        if method in known:
            continue
        keep(RESULTS, name, method, _measured(model, runs, method, centre, spread))
        print(name, method, stored(RESULTS)[name][method], flush=True)


def _measured(
    model: str, runs: xr.Dataset, method: str, centre: np.ndarray, spread: np.ndarray
) -> dict[str, Any]:
    seconds = []
    for repeat in (1, 2):  # the second finds its programs compiled
        start = time.perf_counter()
        try:
            fit = mb.fit(model, runs, method=method, seed=repeat, progress=False)
        except MeasureBayesError as error:
            return {"problem": error.found}
        seconds.append(time.perf_counter() - start)
    mean, sd = scalars(fit)
    away, ratio = np.abs(mean - centre) / spread, sd / spread
    quality = json.loads(fit.attrs.get("approximation", "{}"))
    return {
        "largest": float(away.max()),
        "median": float(np.median(away)),
        "ratio": [float(x) for x in np.quantile(ratio, [0.0, 0.5, 1.0])],
        "pareto_k": quality.get("pareto_k"),
        "text": quality.get("text", ""),
        "passed": bool(converged(fit)),
        "first_seconds": seconds[0],
        "seconds": seconds[1],
    }


def page() -> None:
    """Write the table of docs/fitting.md."""
    lines = [
        "| data and model | method | means off: largest, median "
        "| SD ratio: smallest, median, largest "
        "| Pareto k | row passes | seconds, first fit | again |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, methods in stored(RESULTS).items():
        for method in METHODS:
            row = methods.get(method)
            if row is None:
                continue
            if "problem" in row:
                lines.append(f"| {name} | {method} | {row['problem']} | | | | | |")
                continue
            k = "" if row["pareto_k"] is None else f"{row['pareto_k']:.2f}"
            low, middle, high = row["ratio"]
            lines.append(
                f"| {name} | {method} | {row['largest']:.2f}, {row['median']:.3f} "
                f"| {low:.2f}, {middle:.2f}, {high:.2f} | {k} | {'yes' if row['passed'] else 'no'} "
                f"| {row['first_seconds']:.0f} | {row['seconds']:.0f} |"
            )
    put(PAGE, "approximate", "\n".join(lines))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    wanted = sys.argv[1:]
    if wanted != ["page"]:
        for one in wanted or DESIGNS:
            measure(one)
    page()
