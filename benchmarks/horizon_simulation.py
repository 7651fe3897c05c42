"""Horizons from human times with error: the simulation of a published lecture.

python benchmarks/horizon_simulation.py [--replications 40] [--arms naive simex] [--longest 16]
    [--error-sd 1] [--seed 1] [-o FILE.json]

230 tasks in 80 families, minutes log-uniform from 2 seconds to 16 hours; 18 agents whose horizon
doubles every 7 months; times observed with error. Writes one row a replication and arm, to
benchmarks/horizon_simulation.json if no other file is named, and goes on with what is there; the
table between the markers in docs/horizons.md is made of that file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from pages import put

import measurebayes as mb
from measurebayes.checks import converged
from measurebayes.data.build import build_dataset

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "horizon_simulation.json", HERE.parent / "docs" / "horizons.md"
AGENTS, TASKS, FAMILIES = 18, 230, 80
SHORTEST_MINUTES = 2.0 / 60.0
HOURS = (4, 12)  # true horizons that are looked at; an agent has each of them exactly
MONTHS_PER_DOUBLING = 7.0
RATIO = 0.18  # true 80 % horizon over 50 % horizon
SLOPE = np.log(4.0) / np.log2(RATIO)  # logits per doubling, -0.56
FIRST_RELEASE = np.datetime64("2023-01-01", "ns")


@dataclass(frozen=True)
class Lecture:
    """One simulated suite, and what is true of it."""

    runs: xr.Dataset
    log2_minutes: np.ndarray  # true (task,)
    log2_horizon: np.ndarray  # true, 50 %, (agent,)
    error_sd: float
    easier: float  # doublings that horizons seem longer by, since its families happen to be easier

    def agent(self, hours: float) -> str:
        """Return the agent whose true horizon is nearest to this."""
        nearest = np.abs(self.log2_horizon - np.log2(60.0 * hours)).argmin()
        return str(self.runs["agent"].values[nearest])


def simulate_lecture(
    seed: int,
    error_sd: float = 1.0,
    longest_hours: float = 16.0,
    attempts: int = 6,
    family_sd: float = 1.3,
    timed: float = 0.3,
) -> Lecture:
    """Simulate a suite, agents on it, and people who were timed on its tasks.

    logit P(agent i solves task j) = SLOPE (log2 t[j] - log2 h[i]) + effect of j's family, Normal(0,
    family_sd), the same for all agents: so are successes correlated within a family, and the
    80/50 ratio of the suite as a whole falls below `RATIO`, which holds within a family. A family
    has one task at least, and the others are thrown into families at random.

    A person's log2 time at a task is Normal(log2 t, error_sd). The human minutes of every task are
    one person's time. At a share of `timed` tasks 1 to 5 people were timed, the first of whom is
    that person; their times are the timing variables of the data. All of them succeeded.
    """
    rng = np.random.default_rng(seed)
    family = np.sort(np.r_[np.arange(FAMILIES), rng.integers(0, FAMILIES, TASKS - FAMILIES)])
    log2_minutes = rng.uniform(np.log2(SHORTEST_MINUTES), np.log2(60.0 * longest_hours), TASKS)
    observed = log2_minutes + rng.normal(0.0, error_sd, TASKS)
    log2_horizon = horizons_true()
    effect = rng.normal(0.0, family_sd, FAMILIES)
    log_odds = SLOPE * (log2_minutes - log2_horizon[:, None]) + effect[family]
    solved = rng.binomial(attempts, 1.0 / (1.0 + np.exp(-log_odds)))
    timing = timings(rng, log2_minutes, observed, error_sd, timed)
    who, what = (index.ravel() for index in np.indices(solved.shape))
    months = MONTHS_PER_DOUBLING * (log2_horizon - log2_horizon[0])
    runs = build_dataset(
        [f"agent {i:02d}" for i in range(AGENTS)],
        [f"task {j:03d}" for j in range(TASKS)],
        pd.DataFrame(
            {
                "agent_index": who,
                "task_index": what,
                "successes": solved.ravel(),
                "attempts": attempts,
            }
        ),
        {"name": f"lecture {seed}"},
        families=[f"family {f:02d}" for f in family],
        sources=["simulated"] * TASKS,
        human_minutes=list(2.0**observed),
        minutes_kinds=["baseline"] * TASKS,
        release_dates=list(FIRST_RELEASE + (months * 30.44).astype("timedelta64[D]")),
        timing=timing,
    )
    return Lecture(runs, log2_minutes, log2_horizon, error_sd, -effect.mean() / SLOPE)


def horizons_true() -> np.ndarray:
    """log2 minutes of the true horizons: evenly spaced, the last two of `HOURS` three apart."""
    step = np.log2(HOURS[1] / HOURS[0]) / 3.0
    return np.log2(60.0 * HOURS[1]) - step * np.arange(AGENTS - 1, -1, -1)


def timings(
    rng: np.random.Generator,
    log2_minutes: np.ndarray,
    observed: np.ndarray,
    error_sd: float,
    timed: float,
) -> pd.DataFrame:
    """Timed human attempts at a random share of the tasks; the first took what was observed."""
    chosen = np.sort(rng.choice(TASKS, round(timed * TASKS), replace=False))
    number = rng.integers(1, 6, chosen.size)
    task = np.repeat(chosen, number)
    times = log2_minutes[task] + rng.normal(0.0, error_sd, task.size)
    first = np.cumsum(number) - number
    times[first] = observed[chosen]
    return pd.DataFrame({"task_index": task, "minutes": 2.0**times, "success": 1})


# An arm turns a simulated suite into a table: agent, horizon_50, horizon_80 (minutes), and, where
# it has them, horizon_50_low and horizon_50_high (90 %).


def naive(lecture: Lecture) -> pd.DataFrame:
    """Take times as exact: METR's regression."""
    return mb.classical_horizons(lecture.runs)


def simex(lecture: Lecture) -> pd.DataFrame:
    """Simulation extrapolation with the error's standard deviation known."""
    return mb.simex(lecture.runs, error_sd=lecture.error_sd, replicates=30)


def posterior(model: str, lecture: Lecture) -> pd.DataFrame:
    """Horizons of a fit: medians of tasks of average difficulty, and 90 % intervals."""
    fit = mb.fit(model, lecture.runs, seed=1, chains=2, draws=600, progress=False)
    table = mb.horizon_table(mb.horizons(fit, [0.5, 0.8])).pivot(index="agent", columns="success")
    columns = {
        "horizon_50": table["median", 0.5],
        "horizon_80": table["median", 0.8],
        "horizon_50_low": table["low", 0.5],
        "horizon_50_high": table["high", 0.5],
    }
    if "timing_sd" in fit["posterior"]:
        columns["timing_sd"] = float(fit["posterior"]["timing_sd"].mean())
    return pd.DataFrame(columns).assign(converged=converged(fit)).reset_index()


# Bayesian: times as exact, or with an error whose size the timed attempts tell; tasks of a family
# each with an effect of its own, or going together.
MODELS = (
    "horizon_task",
    "horizon_task:families=effect",
    "horizon_eiv",
    "horizon_eiv:tasks=family",
    "horizon_eiv:tasks=family,lengths=flat",
)
ARMS: dict[str, Callable[[Lecture], pd.DataFrame]] = {
    "naive": naive,
    "simex": simex,
    **{model: partial(posterior, model) for model in MODELS},
}


LABELS = {"naive": "regressions, times as exact", "simex": "SIMEX, error SD known"}
EXTRAS = ("timing_sd", "converged")  # of a fit


def row(lecture: Lecture, arm: str, replication: int) -> dict[str, float | int | str]:
    """Run an arm: estimated over true horizon, and the 80/50 ratio, at each of `HOURS`."""
    table = ARMS[arm](lecture).set_index("agent")
    found: dict[str, float | int | str] = {"replication": replication, "arm": arm}
    found["easier"] = float(lecture.easier)
    for hours in HOURS:
        agent = table.loc[lecture.agent(hours)]
        true = 60.0 * hours
        found[f"times_{hours}h"] = float(agent["horizon_50"] / true)
        found[f"ratio_{hours}h"] = float(agent["horizon_80"] / agent["horizon_50"])
        if "horizon_50_low" in agent:
            inside = agent["horizon_50_low"] <= true <= agent["horizon_50_high"]
            found[f"covered_{hours}h"] = int(inside)
    found |= {name: float(table[name].iloc[0]) for name in EXTRAS if name in table}
    return found


def summary(rows: list[dict[str, float | int | str]]) -> pd.DataFrame:
    """Means over replications: of estimated over true horizon also the geometric mean.

    ``adjusted`` is the geometric mean with the luck of each suite's draw of families taken out: the
    mean of their effects, which is known here and 0 on average, moves all horizons of a suite.
    """
    parts = {}
    for arm, table in pd.DataFrame(rows).groupby("arm", sort=False):
        parts[arm] = {"replications": len(table)}
        parts[arm] |= {name: table[name].mean() for name in EXTRAS if name in table}
        for hours in HOURS:
            times = table[f"times_{hours}h"]
            adjusted = np.log(times) - table["easier"] * np.log(2.0)
            parts[arm] |= {
                f"{hours} h, mean": times.mean(),
                f"{hours} h, geometric mean": np.exp(np.log(times).mean()),
                f"{hours} h, adjusted": np.exp(adjusted.mean()),
                f"{hours} h, its relative SE": adjusted.std() / len(table) ** 0.5,
                f"{hours} h, 80/50": np.exp(np.log(table[f"ratio_{hours}h"]).mean()),
            }
            if f"covered_{hours}h" in table and table[f"covered_{hours}h"].notna().all():
                parts[arm][f"{hours} h, covered"] = table[f"covered_{hours}h"].mean()
    return pd.DataFrame(parts).T.rename_axis("arm")


def table(rows: list[dict[str, float | int | str]]) -> str:
    """Return a Markdown table of the adjusted ratios, 80/50 ratios and coverages."""
    found = summary(rows)
    lines = [
        "| | replications | 4 h: estimated over true | covered | 12 h: estimated over true "
        "| covered | 80/50 ratio at 12 h |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm in (name for name in ARMS if name in found.index):
        x = found.loc[arm]
        cells = [f"{x['replications']:.0f}"]
        for hours in HOURS:
            error = x[f"{hours} h, adjusted"] * x[f"{hours} h, its relative SE"]
            cells.append(f"{x[f'{hours} h, adjusted']:.2f} (SE {error:.2f})")
            covered = x.get(f"{hours} h, covered", np.nan)
            cells.append("" if np.isnan(covered) else f"{100.0 * covered:.0f} %")
        cells.append(f"{x['12 h, 80/50']:.2f}")
        lines.append(f"| {LABELS.get(arm, f'`{arm}`')} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def earlier(output: Path, settings: dict) -> list[dict[str, float | int | str]]:
    """Rows of an earlier run with the same settings, which is gone on with."""
    if not output.exists():
        return []
    found = json.loads(output.read_text(encoding="utf-8"))
    if found["settings"] != settings:
        raise SystemExit(f"{output} was made with {found['settings']}: name another file")
    return found["rows"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=40)
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--longest", type=float, default=16.0, help="longest task, hours")
    parser.add_argument("--error-sd", type=float, default=1.0, help="of log2 minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="JSON of the rows")
    given = parser.parse_args()
    settings = {"longest": given.longest, "error_sd": given.error_sd, "seed": given.seed}
    rows = earlier(given.output, settings)
    done = {(one["replication"], one["arm"]) for one in rows}
    for replication in range(given.replications):
        missing = [arm for arm in given.arms if (replication, arm) not in done]
        if not missing:
            continue
        lecture = simulate_lecture(
            given.seed + replication, error_sd=given.error_sd, longest_hours=given.longest
        )
        rows += [row(lecture, arm, replication) for arm in missing]
        text = json.dumps({"settings": settings, "rows": rows}, indent=1)
        given.output.write_text(text + "\n", encoding="utf-8")  # a run can be stopped any time
    print(summary(rows).T.round(3).to_string())
    if given.output == RESULTS:
        put(PAGE, "simulation", table(rows))


if __name__ == "__main__":
    main()
