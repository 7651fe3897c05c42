"""Which horizon model the METR counts prefer, by cell, task, family and agent; and what it changes.

python benchmarks/horizon_models.py [units] [left_out] [trends] [agents]

Writes benchmarks/horizon_models.json and the tables between the markers in docs/horizons.md. With
arguments, only those parts are measured and the others kept.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from pages import put

import measurebayes as mb
from measurebayes.checks import converged
from measurebayes.compare import loo
from measurebayes.compare.sensitivity import fixed_errors

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "horizon_models.json", HERE.parent / "docs" / "horizons.md"
MODELS = (
    "horizon_logistic:slopes=common",
    "horizon_logistic",
    "horizon_logistic:lapse=agent",
    "horizon_hazard",
    "horizon_hazard:shape=common",
    "horizon_hazard:shape=agent",
    "horizon_task:slopes=common",
    "horizon_task",
    "horizon_task:families=effect",
    "horizon_task:discrimination=task",
    "horizon_task:discrimination=task,families=effect",
    "horizon_eiv",
    "horizon_eiv:tasks=family",
)
SHAPES = ("linear", "quadratic", "power", "saturating", "piecewise")
UNITS = ("cell", "task", "family")
AGENT_FOLDS = 8
SHORT = {"chains": 2, "draws": 500}  # of the fits of folds
# Errors of human times in METR's note of March 2026: people differ within a factor of about 3, and
# estimates are within about 4 of the truth; the counts don't tell which times are estimates.
ERROR_SDS = {"factor 2": 1.0, "factor 3": float(np.log2(3.0))}


def units(runs: xr.Dataset, before: dict) -> dict:
    """Elpd of every model by cell, task and family, by importance sampling; resumes."""
    rows = dict(before)
    for name in MODELS:
        if name in rows:
            continue
        fit = mb.fit(name, runs, seed=1, progress=False)
        row: dict = {"converged": converged(fit)}
        for unit in UNITS:
            found = loo(fit, unit)
            row[unit] = {key: found.attrs[key] for key in ("elpd", "se", "bad_k", "n_units")}
        rows[name] = row
        print(name, row, flush=True)
    return rows


def left_out(runs: xr.Dataset, before: dict) -> dict:
    """Elpd of agents left out, by refits: importance sampling can't be trusted for any; resumes."""
    rows = dict(before)
    for name in MODELS:
        if name in rows:
            continue
        found = mb.crossval([name], runs, folds="agent", k=AGENT_FOLDS, progress=False, **SHORT)
        rows[name] = {key: float(found[key].iloc[0]) for key in ("elpd", "unconverged")}
        print(name, rows[name], flush=True)
    return rows


def trends(runs: xr.Dataset, _: dict) -> dict:
    """Trend of each shape, and how well it predicts agents left out one by one."""
    models = {shape: f"horizon_trend:shape={shape}" for shape in SHAPES}
    fits = {shape: mb.fit(model, runs, seed=1, progress=False) for shape, model in models.items()}
    table = mb.crossval(models, runs, folds="agent", k=AGENT_FOLDS, progress=False, **SHORT)
    read = mb.trend_table(fits, weights=table["weight"].to_dict(), crossing_minutes=[480.0])
    read = read.join(table[["elpd", "elpd_diff", "dse", "weight"]])
    read["converged"] = [converged(fits[name]) if name in fits else True for name in read.index]
    print(read.T.to_string(), flush=True)
    return json.loads(read.to_json(orient="index", date_format="iso"))


def agents(runs: xr.Dataset, _: dict) -> dict:
    """Horizons of the last eight agents: regression, SIMEX, and posteriors."""
    last = runs["agent"].values[np.argsort(runs["release_date"].values)[-8:]].tolist()
    columns = {"regression": mb.classical_horizons(runs).set_index("agent")}
    for name, sd in ERROR_SDS.items():
        columns[f"SIMEX, {name}"] = mb.simex(runs, error_sd=sd).set_index("agent")
    posteriors: dict[str, tuple[str, dict]] = {
        "horizon_logistic": ("horizon_logistic", {}),
        "horizon_logistic, lapse": ("horizon_logistic:lapse=agent", {}),
        "horizon_hazard, shape by agent": ("horizon_hazard:shape=agent", {}),
        "horizon_task": ("horizon_task", {}),
    }
    for name, sd in ERROR_SDS.items():
        known = fixed_errors(sd)
        posteriors[f"horizon_eiv, {name}"] = ("horizon_eiv", known)
        posteriors[f"horizon_eiv without task effects, {name}"] = ("horizon_eiv:tasks=none", known)
    rows: dict = {}
    for name, table in columns.items():
        rows[name] = {
            f"{agent} {rate}": float(table.loc[agent, f"horizon_{rate}"])
            for agent in last
            for rate in (50, 80)
        }
    for name, (model, priors) in posteriors.items():
        fit = mb.fit(model, runs, seed=1, priors=priors, progress=False)
        for kind in ("typical", "marginal") if "task_sd" in fit["posterior"] else ("typical",):
            table = mb.horizon_table(mb.horizons(fit, [0.5, 0.8], kind))
            table = table.set_index(["agent", "success"])["median"]
            label = f"{name}, {kind}" if "task_sd" in fit["posterior"] else name
            rows[label] = {
                f"{agent} {rate}": float(table.loc[agent, rate / 100])
                for agent in last
                for rate in (50, 80)
            } | {"converged": converged(fit)}
        print(name, flush=True)
    return {"agents": last, "rows": rows}


def signed(value: float, digits: int) -> str:
    """Return a number with a true minus sign."""
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def units_table(found: dict) -> str:
    """Differences from the best of each column, in units of elpd."""
    rows, refits = found.get("units", {}), found.get("left_out", {})
    lines = ["| | cell | task | family | agent |", "|---|---|---|---|---|"]
    best = {unit: max(row[unit]["elpd"] for row in rows.values()) for unit in UNITS}
    best["agent"] = max((row["elpd"] for row in refits.values()), default=np.nan)
    for name, row in rows.items():
        cells = []
        for unit in UNITS:
            bad = row[unit]["bad_k"]
            text = signed(row[unit]["elpd"] - best[unit], 0)
            cells.append(text + (f" ({bad} k > 0.7)" if bad else ""))
        refit = refits.get(name)
        cells.append(signed(refit["elpd"] - best["agent"], 0) if refit else "")
        mark = "" if row["converged"] else " (not converged)"
        lines.append(f"| `{name}`{mark} | " + " | ".join(cells) + " |")
    levels = " | ".join(signed(best[unit], 0) for unit in (*UNITS, "agent"))
    return "\n".join([*lines, f"| *elpd of the best* | {levels} |"])


def trends_table(rows: dict) -> str:
    """Doubling times, acceleration, dates and elpd of the shapes."""
    lines = [
        "| shape | doubling time now, days (95 %) | acceleration, doublings a year "
        "| 8 hours reached | elpd, agents left out (difference, its SE) | weight |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        days = (
            f"{row['doubling_days']:.0f} ({row['doubling_low']:.0f} to {row['doubling_high']:.0f})"
        )
        change = "0 by construction"
        if name != "linear":
            change = f"{signed(row['acceleration'], 1)} (P > 0: {row['p_accelerates']:.2f})"
        date = str(row["crosses_480"])[:7]
        elpd = ""
        if row["elpd"] is not None:
            elpd = f"{signed(row['elpd'], 1)} ({signed(row['elpd_diff'], 1)}, {row['dse']:.1f})"
        weight = "" if row["weight"] is None else f"{row['weight']:.2f}"
        mark = "" if row["converged"] else " (not converged)"
        lines.append(f"| {name}{mark} | {days} | {change} | {date} | {elpd} | {weight} |")
    return "\n".join(lines)


def agents_table(found: dict) -> str:
    """Horizons in minutes at 50 and 80 %, a column an agent."""
    lines = [
        "| | " + " | ".join(found["agents"]) + " |",
        "|---|" + "---|" * len(found["agents"]),
    ]
    for name, row in found["rows"].items():
        cells = [f"{row[f'{a} 50']:.0f}, {row[f'{a} 80']:.0f}" for a in found["agents"]]
        mark = "" if row.get("converged", True) else " (not converged)"
        lines.append(f"| {name}{mark} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


PARTS = {"units": units, "left_out": left_out, "trends": trends, "agents": agents}
TABLES = {
    "units": units_table,
    "trends": lambda found: trends_table(found["trends"]),
    "agents": lambda found: agents_table(found["agents"]),
}
TABLE_OF = {"left_out": "units"}  # parts that share a table


def main() -> None:
    warnings.simplefilter("ignore")
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    runs = mb.load("metr-th1.1")
    for part in sys.argv[1:] or list(PARTS):
        found[part] = PARTS[part](runs, found.get(part, {}))
        found["versions"] = {n: metadata.version(n) for n in ("measurebayes", "numpyro", "jax")}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        table = TABLE_OF.get(part, part)
        put(PAGE, table, TABLES[table](found))


if __name__ == "__main__":
    pd.set_option("display.width", 200)
    main()
