"""Counts of cancellation axioms against loops over everything, and sizes against simulation."""

import itertools

import numpy as np
import pytest

from measurebayes.checks.cancellation.counting import Counts, count, count_by_agent
from measurebayes.checks.cancellation.violations import largest, probability_at_least

# An axiom as its premises and its conclusion: pairs of cells (agent letter, band letter), the first
# at least as large as the second. Written here from the definitions, apart from the package.
AXIOMS = {
    "double": ("abc", "xyz", [("ay", "bx"), ("bz", "cy")], ("az", "cx")),
    "triple": ("abcd", "wxyz", [("bw", "ax"), ("az", "by"), ("cx", "dw")], ("cz", "dy")),
}
# Single cancellation has two forms: independence of agents from bands and of bands from agents.
SINGLE = [
    ("ab", "xy", [("ax", "bx")], ("ay", "by")),
    ("ab", "xy", [("ax", "ay")], ("bx", "by")),
]


def forms(axiom):
    return SINGLE if axiom == "single" else [AXIOMS[axiom]]


def by_loops(rates, axiom):
    """Cases and violations by ordered choice of bands, by trying every choice of agents."""
    found = {}
    for agents, bands, premises, conclusion in forms(axiom):
        for columns in itertools.permutations(range(rates.shape[1]), len(bands)):
            cases = violations = 0
            for rows in itertools.permutations(range(rates.shape[0]), len(agents)):
                place = dict(zip(agents + bands, (*rows, *columns), strict=True))

                def rate(cell, place=place):
                    return rates[place[cell[0]], place[cell[1]]]

                pairs = [(rate(one), rate(other)) for one, other in [*premises, conclusion]]
                if np.isnan(pairs).any() or not all(one >= other for one, other in pairs[:-1]):
                    continue
                cases += 1
                violations += pairs[-1][0] < pairs[-1][1]
            before = found.get(columns, (0, 0))
            found[columns] = (before[0] + cases, before[1] + violations)
    return found


@pytest.mark.parametrize("axiom", ["single", "double", "triple"])
@pytest.mark.parametrize(
    ("levels", "holes"), [(1000, 0.0), (5, 0.0), (5, 0.2), (3, 0.5), (1, 0.0), (4, 1.0)]
)
def test_counts_equal_loops(axiom, levels, holes, rng):
    agents, bands = (6, 4) if axiom == "triple" else (7, 5)
    rates = rng.integers(0, levels + 1, (agents, bands, 3)) / levels
    rates[rng.random((agents, bands)) < holes] = np.nan
    rates[rng.random(rates.shape) < holes / 4] = np.nan  # in some replicates only
    counted = count(rates, axiom)
    for replicate in range(rates.shape[2]):
        expected = by_loops(rates[:, :, replicate], axiom)
        assert len(expected) == len(counted.bands)
        for at, bands_of_choice in enumerate(counted.bands):
            found = (counted.cases[at, replicate], counted.violations[at, replicate])
            assert found == expected[tuple(bands_of_choice)]


@pytest.mark.parametrize("axiom", ["single", "double", "triple"])
def test_counts_by_agent_are_those_that_the_agent_takes_part_in(axiom, rng):
    rates = rng.integers(0, 6, (6, 4, 2)) / 5
    rates[0, 1] = np.nan
    cases, violations = count_by_agent(rates, axiom)
    for agent in range(6):
        with_it, without = count(rates, axiom), count(np.delete(rates, agent, axis=0), axiom)
        assert np.array_equal(cases[agent], (with_it.cases.sum(0) - without.cases.sum(0)))
        assert np.array_equal(
            violations[agent], (with_it.violations.sum(0) - without.violations.sum(0))
        )
    each_counted = {"single": 2, "double": 3, "triple": 4}[axiom]
    assert np.array_equal(violations.sum(0), each_counted * count(rates, axiom).violations.sum(0))


@pytest.mark.parametrize("axiom", ["single", "double", "triple"])
def test_an_additive_table_has_cases_and_no_violation(axiom, rng):
    rates = 1 / (1 + np.exp(-(rng.normal(size=(8, 1, 4)) - rng.normal(size=(1, 6, 4)))))
    counted = count(rates, axiom)
    assert counted.cases.sum() > 0
    assert counted.violations.sum() == 0
    assert np.array_equal(counted.rate, np.zeros(4))


def test_counts_do_not_depend_on_steps(rng, monkeypatch):
    from measurebayes.checks.cancellation import counting

    rates = rng.integers(0, 30, (9, 5, 40)) / 30
    whole = count(rates)
    monkeypatch.setattr(counting, "LEAST_AT_ONCE", 7)
    monkeypatch.setattr(counting, "STEP_BYTES", 1)
    pieces = count(rates)
    assert np.array_equal(whole.cases, pieces.cases)
    assert np.array_equal(whole.violations, pieces.violations)


def test_counts_of_more_agents_than_a_byte_holds(rng):
    # 300 agents: the sums need more than 8 and 16 bits. Three bands; matrix products as witness.
    rates = rng.integers(0, 60, (300, 3, 1)) / 60
    counted = count(rates)
    p, different = rates[:, :, 0], ~np.eye(300, dtype=bool)
    for at, (x, y, z) in enumerate(counted.bands):
        first = ((p[:, None, y] >= p[None, :, x]) & different).astype(float)
        second = ((p[:, None, z] >= p[None, :, y]) & different).astype(float)
        chains = first @ second
        assert counted.cases[at, 0] == (chains * different).sum()
        fails = (p[:, None, z] < p[None, :, x]) & different
        assert counted.violations[at, 0] == chains[fails].sum()


def test_a_rate_without_cases_is_missing():
    assert np.isnan(Counts(np.zeros((1, 3), int), np.zeros((1, 1)), np.zeros((1, 1))).rate).all()


def test_probability_that_one_rate_is_at_least_another(rng):
    successes, attempts = np.array([3, 40, 0, 700, 9]), np.array([5, 100, 20, 1000, 9])
    one, other = (x.ravel() for x in np.meshgrid(np.arange(5), np.arange(5), indexing="ij"))
    found = probability_at_least(successes, attempts, one, other).reshape(5, 5)
    draws = rng.beta(successes + 1, attempts - successes + 1, (200_000, 5))
    simulated = (draws[:, :, None] >= draws[:, None]).mean(axis=0)
    off = ~np.eye(5, dtype=bool)
    assert np.allclose(found[off], simulated[off], atol=0.005)
    assert np.allclose(found + found.T, 1, atol=1e-12)
    # a closed form: uniform against Beta(n + 1, 1) is 1 / (n + 2)
    assert probability_at_least(
        np.array([0, 7]), np.array([0, 7]), np.array([0]), np.array([1])
    ) == pytest.approx(1 / 9, abs=1e-5)


def test_largest_violations_are_those_of_a_loop(rng):
    attempts = rng.integers(20, 60, (6, 4))
    successes = rng.binomial(attempts, 0.5)
    rates = successes / attempts
    rates[2, 1] = np.nan
    expected = []
    for (a, b, c), (x, y, z) in itertools.product(
        itertools.permutations(range(6), 3), itertools.permutations(range(4), 3)
    ):
        gaps = (rates[a, y] - rates[b, x], rates[b, z] - rates[c, y], rates[c, x] - rates[a, z])
        if gaps[0] >= 0 and gaps[1] >= 0 and gaps[2] > 0:
            expected.append((min(gaps), a, b, c, x, y, z))
    expected.sort(key=lambda row: -row[0])
    labels = np.array([f"agent {i}" for i in range(6)])
    bands = [f"band {i}" for i in range(4)]
    whole = largest(successes, attempts, rates, labels, bands, most=10_000)
    assert len(whole) == len(expected) == count(rates[:, :, None]).violations.sum()
    assert np.allclose(whole["size"], [row[0] for row in expected])
    assert {tuple(row) for row in whole.iloc[:, :6].to_numpy()} == {
        (*(f"agent {i}" for i in row[1:4]), *(f"band {i}" for i in row[4:])) for row in expected
    }
    few = largest(successes, attempts, rates, labels, bands, most=10)
    assert np.allclose(few["size"], whole["size"][:10])
    # the probability is that of three independent comparisons
    draws = rng.beta(successes + 1, attempts - successes + 1, (50_000, 6, 4))
    _, a, b, c, x, y, z = expected[0]
    true = (
        (draws[:, a, y] >= draws[:, b, x])
        & (draws[:, b, z] >= draws[:, c, y])
        & (draws[:, a, z] < draws[:, c, x])
    )
    row = whole[(whole[["agent_a", "agent_b", "agent_c"]] == labels[[a, b, c]]).all(axis=1)]
    row = row[(row[["band_x", "band_y", "band_z"]] == [bands[i] for i in (x, y, z)]).all(axis=1)]
    assert float(row["probability"].iloc[0]) == pytest.approx(true.mean(), abs=0.01)
