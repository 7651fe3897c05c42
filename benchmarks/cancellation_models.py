"""Which models explain the violations of double cancellation in the METR counts.

python benchmarks/cancellation_models.py [posteriors] [estimates]

Fits every model to all attempts and to those at HCAST tasks alone, replicates the data from each
posterior and each point estimate through 4 to 8 bands, writes benchmarks/cancellation_models.json,
and puts the table between the markers in docs/cancellation.md. With an argument, only one kind of
explanation is measured and the other kept.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib import metadata
from pathlib import Path

import xarray as xr
from pages import put

import measurebayes as mb
from measurebayes.checks import converged
from measurebayes.classical import NAMES
from measurebayes.program.registry import model_names

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "cancellation_models.json", HERE.parent / "docs" / "cancellation.md"
BANDS = (4, 5, 6, 7, 8)
REPLICATES = 1000
CANDIDATES = (
    "horizon_logistic:slopes=common",
    "horizon_logistic",
    "horizon_hazard",
    "horizon_hazard:shape=common",
    "additive",
    "monotone",
    "rasch",
    "two_pl",
    "testlet",
    *(f"mirt:dimensions={k}" for k in range(1, 9)),
)


ESTIMATES = (
    *NAMES,
    *(f"dimensions_{k}" for k in (1, 2, 3, 5, 8)),
)


def posteriors(runs: xr.Dataset) -> dict[str, xr.DataTree]:
    """Fit every model that there is."""
    names = [name for name in CANDIDATES if name.partition(":")[0] in model_names()]
    return {name: mb.fit(name, runs, seed=1, progress=False) for name in names}


def measure(kinds: list[str]) -> dict:
    """Replicate and count: of each part of the data and number of bands, what is expected."""
    runs = mb.load("metr-th1.1")
    parts = {"all attempts": runs, "HCAST only": mb.subset(runs, source="HCAST")}
    rows = []
    for part, data in parts.items():
        against: dict = posteriors(data) if "posteriors" in kinds else {}
        failed = [name for name, fit in against.items() if not converged(fit)]
        if "estimates" in kinds:
            against |= {name: name for name in ESTIMATES}
        for bands in BANDS:
            found = mb.cancellation(
                data, bands=bands, against=against, replicates=REPLICATES, progress=False
            )
            print(f"{part}, {bands} bands: observed {found.observed['rate']:.4f}", flush=True)
            expected = {
                name: {key: values[key] for key in ("kind", "rate", "low", "high", "p")}
                | {"converged": name not in failed}
                for name, values in found.expected.items()
            }
            rows.append(
                {"data": part, "bands": bands, "observed": found.observed, "expected": expected}
            )
    return {
        "rows": rows,
        "replicates": REPLICATES,
        "versions": {n: metadata.version(n) for n in ("measurebayes", "numpyro", "jax")},
        "python": platform.python_version(),
    }


def merged(old: dict, new: dict) -> dict:
    """Put new explanations beside, or in the place of, those measured before."""
    before = {(row["data"], row["bands"]): row["expected"] for row in old.get("rows", [])}
    for row in new["rows"]:
        row["expected"] = before.get((row["data"], row["bands"]), {}) | row["expected"]
    return new


def table(found: dict) -> str:
    """Return a Markdown table: rates in per cent, and p values."""
    names = list(found["rows"][0]["expected"])
    heads = [(row["data"], row["bands"]) for row in found["rows"]]
    lines = []
    for part in dict.fromkeys(part for part, _ in heads):
        rows = [row for row in found["rows"] if row["data"] == part]
        lines += [
            f"**{part[0].upper()}{part[1:]}**: rate of violations in per cent, and p",
            "",
            "| | " + " | ".join(f"{row['bands']} bands" for row in rows) + " |",
            "|---|" + "---|" * len(rows),
            "| observed | "
            + " | ".join(f"**{_per_cent(row['observed'])}**" for row in rows)
            + " |",
        ]
        kinds = [found["rows"][0]["expected"][name]["kind"] for name in names]
        for place, name in enumerate(names):
            if kinds[place] not in kinds[:place]:
                lines.append(f"| *{kinds[place]}* |" + " |" * len(rows))
            cells = [row["expected"][name] for row in rows]
            mark = "" if all(cell["converged"] for cell in cells) else " (not converged)"
            lines.append(
                f"| `{name}`{mark} | "
                + " | ".join(f"{_per_cent(cell)} (p {_p(cell['p'])})" for cell in cells)
                + " |"
            )
        lines.append("")
    return "\n".join(lines).rstrip()


def _per_cent(values: dict) -> str:
    return f"{100 * values['rate']:.2f}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value > 0.001 else "≤ 0.001"


if __name__ == "__main__":
    old = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results = merged(old, measure(sys.argv[1:] or ["posteriors", "estimates"]))
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    put(PAGE, "models", table(results))
    print(table(results))
