"""What fits of the testlet and signed models change: dependence, pairs of agents, wrong keys."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import measurebayes as mb

pytestmark = pytest.mark.slow

SHORT = {"draws": 250, "tune": 250, "chains": 2, "seed": 1, "progress": False}


def records(chance, family, attempts, rng):
    agent, task = (x.ravel() for x in np.indices(chance.shape))
    return mb.load(
        pd.DataFrame(
            {
                "agent": [f"agent {i:02d}" for i in agent],
                "task": [f"task {j:02d}" for j in task],
                "family": [f"family {family[j]}" for j in task],
                "attempts": attempts,
                "successes": rng.binomial(attempts, chance.ravel()),
            }
        )
    )


def test_a_testlet_model_explains_families_and_doubts_more_pairs():
    rng = np.random.default_rng(3)
    family = np.repeat(np.arange(8), 4)
    ability, difficulty = rng.normal(0, 1, 25), rng.normal(0, 1.5, 32)
    effect = rng.normal(0, 1.2, (25, 8))[:, family]
    runs = records(expit(ability[:, None] + effect - difficulty), family, 4, rng)
    fits = {name: mb.fit(name, runs, **SHORT) for name in ("rasch", "testlet")}
    found = {name: mb.local_dependence(fit, replicates=150) for name, fit in fits.items()}
    assert {"q3_within", "unanimous", "design_effect"} <= set(found["rasch"].found())
    assert not {"q3_within", "unanimous", "design_effect"} & set(found["testlet"].found())
    assert found["testlet"].measures.loc["design_effect", "observed"] == pytest.approx(1, abs=0.1)
    pairs = {name: mb.agent_pairs(fit) for name, fit in fits.items()}
    width = {name: (table["high"] - table["low"]).mean() for name, table in pairs.items()}
    assert width["testlet"] > 1.3 * width["rasch"]
    order = np.argsort(-ability)
    held = {
        name: np.mean([row.low <= truth_of(row, ability) <= row.high for row in table.itertuples()])
        for name, table in pairs.items()
    }
    assert held["testlet"] > 0.85 > held["rasch"]
    assert pairs["testlet"]["one"][0] in {f"agent {i:02d}" for i in order[:5]}


def truth_of(row, ability):
    return ability[int(row.one.split()[1])] - ability[int(row.other.split()[1])]


def test_wrong_keys_show_in_signed_slopes():
    rng = np.random.default_rng(5)
    ability, easiness = rng.normal(0, 1.5, 40), rng.normal(0, 1, 30)
    slope = np.exp(rng.normal(0, 0.3, 30))
    slope[[4, 21]] *= -1
    runs = records(expit(ability[:, None] * slope + easiness), np.arange(30), 2, rng)
    signed = mb.fit("three_pl:discrimination=signed,guessing=none", runs, **SHORT)
    table = mb.suspect_tasks(signed)
    backwards = table[table["note"] == "probably backwards"]
    assert set(backwards["task"]) == {"task 04", "task 21"}
    assert (backwards["p_negative"] > 0.95).all()
    assert (backwards["item_rest"] < 0).all()
    cheap = mb.suspect_tasks(runs)  # the correlation with the rest ranks them first, too
    assert set(cheap["task"].head(2)) == {"task 04", "task 21"}


def test_families_resampled_cover_where_tasks_resampled_do_not(benchmark_script):
    coverage = benchmark_script("cluster_coverage")["coverage"]
    found = coverage(79, 1.0, 1.5, replications=60)
    assert found["families"] > 0.9
    assert found["tasks"] < 0.85
    alone = coverage(79, 0.0, 0.0, replications=40)
    assert alone["tasks"] > 0.87
    assert alone["effect"] == pytest.approx(1.0, abs=0.1)
