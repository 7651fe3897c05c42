"""The counter of cancellation violations against NumPy over all triples and against plain loops.

``python benchmarks/run.py --part counting``: double cancellation in random tables of rates. The
other two programs count fewer replicates, since they are slow; all three must find the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import permutations

import numpy as np

SIZES = {  # agents, bands, replicates
    "measurebayes": ((23, 8, 2000), (200, 20, 200)),
    "numpy": ((23, 8, 40), (200, 4, 1)),
    "loops": ((23, 8, 1),),
}
MOST_SECONDS = 60  # no further repetition after so long
TITLES = {
    "measurebayes": "measurebayes",
    "numpy": "NumPy, all triples of agents at once",
    "loops": "plain loops",
}
Totals = list[tuple[int, int]]  # cases and violations of each replicate


def by_measurebayes(rates: np.ndarray) -> Totals:
    """Count with the package."""
    from measurebayes.checks.cancellation.counting import count

    counts = count(rates)
    cases, violations = counts.cases.sum(axis=0), counts.violations.sum(axis=0)
    return [(int(c), int(v)) for c, v in zip(cases, violations, strict=True)]


def by_numpy(rates: np.ndarray) -> Totals:
    """Count over agents (a, b, c) as arrays, a triple of bands at a time."""
    agents, bands, replicates = rates.shape
    a, b, c = np.ogrid[:agents, :agents, :agents]
    distinct = (a != b) & (b != c) & (a != c)
    found = []
    for replicate in range(replicates):
        table, cases, violations = rates[:, :, replicate], 0, 0
        for x, y, z in permutations(range(bands), 3):
            first = table[:, y][:, None, None] >= table[:, x][None, :, None]
            second = table[:, z][None, :, None] >= table[:, y][None, None, :]
            held = first & second & distinct
            broken = table[:, z][:, None, None] < table[:, x][None, None, :]
            cases += int(np.count_nonzero(held))
            violations += int(np.count_nonzero(held & broken))
        found.append((cases, violations))
    return found


def by_loops(rates: np.ndarray) -> Totals:
    """Count as the definition says."""
    found = []
    for table in np.moveaxis(rates, 2, 0).tolist():
        cases = violations = 0
        for x, y, z in permutations(range(len(table[0])), 3):
            for a, b, c in permutations(table, 3):
                if a[y] >= b[x] and b[z] >= c[y]:
                    cases += 1
                    violations += a[z] < c[x]
        found.append((cases, violations))
    return found


COUNT: dict[str, Callable[[np.ndarray], Totals]] = {
    "measurebayes": by_measurebayes,
    "numpy": by_numpy,
    "loops": by_loops,
}


def random_rates(agents: int, bands: int, replicates: int) -> np.ndarray:
    """Rates of twenty attempts, noisy and near additive, (agent, band, replicate)."""
    rng = np.random.default_rng(20260101)
    ability, difficulty = np.linspace(-2, 2, agents), np.linspace(-2, 2, bands)
    chance = 1 / (1 + np.exp(difficulty - ability[:, None]))
    return rng.binomial(20, chance, size=(replicates, agents, bands)).transpose(1, 2, 0) / 20


def measure(program: str, size: tuple[int, int, int], repeats: int) -> list[float]:
    """Return the seconds that a program takes for tables of one size, of each repetition."""
    rates, seconds = random_rates(*size), []
    while len(seconds) < repeats and sum(seconds) < MOST_SECONDS:
        started = time.perf_counter()
        COUNT[program](rates)
        seconds.append(time.perf_counter() - started)
    return seconds


def check() -> None:
    """Refuse to compare programs that find different numbers."""
    rates = random_rates(9, 5, 3)
    found = {name: function(rates) for name, function in COUNT.items()}
    if len({str(totals) for totals in found.values()}) != 1:
        raise SystemExit(f"the counts differ: {found}")
