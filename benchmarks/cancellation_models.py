"""Which models explain the violations of double cancellation in the METR counts.

python benchmarks/cancellation_models.py

Fits every model to all attempts and to those at HCAST tasks alone, replicates the data from each
posterior through 4 to 8 bands, writes benchmarks/cancellation_models.json, and puts the table
between the markers in docs/cancellation.md.
"""

from __future__ import annotations

import json
import platform
from importlib import metadata
from pathlib import Path

import measurebayes as mb
from measurebayes.checks import converged
from measurebayes.program.registry import model_names

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "cancellation_models.json", HERE.parent / "docs" / "cancellation.md"
BEGIN, END = "<!-- models: begin -->", "<!-- models: end -->"
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


def measure() -> dict:
    """Fit, replicate and count."""
    runs = mb.load("metr-th1.1")
    parts = {"all attempts": runs, "HCAST only": mb.subset(runs, source="HCAST")}
    names = [name for name in CANDIDATES if name.partition(":")[0] in model_names()]
    rows = []
    for part, data in parts.items():
        fits = {name: mb.fit(name, data, seed=1, progress=False) for name in names}
        settled = {name: converged(fit) for name, fit in fits.items()}
        for bands in BANDS:
            found = mb.cancellation(
                data, bands=bands, against=fits, replicates=REPLICATES, progress=False
            )
            print(f"{part}, {bands} bands: observed {found.observed['rate']:.4f}", flush=True)
            expected = {
                name: {key: values[key] for key in ("rate", "low", "high", "p")}
                | {"converged": settled[name]}
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
        for name in names:
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


def write(page: Path, text: str) -> None:
    """Put a text between the markers of a page."""
    content = page.read_text(encoding="utf-8")
    before, _, rest = content.partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    results = measure()
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write(PAGE, table(results))
    print(table(results))
