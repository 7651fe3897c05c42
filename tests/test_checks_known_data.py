"""Checks against numbers that others published on the same data."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from measurebayes.checks.predictive import posterior_predictive, predictive, time_bands

LEDGER = tomllib.loads((Path(__file__).parent / "ledger.toml").read_text(encoding="utf-8"))


def test_six_bands_of_the_metr_tasks(metr):
    band, labels = time_bands(metr["human_minutes"].values)
    np.testing.assert_array_equal(np.bincount(band), [36, 40, 38, 38, 35, 41])
    assert len(labels) == 6
    # mean over agents of the share of attempts in each band that succeeded
    place = metr["agent_index"].values * 6 + band[metr["task_index"].values]
    solved, tried = (
        np.bincount(place, weights=metr[name].values).reshape(-1, 6)
        for name in ("successes", "attempts")
    )
    found = (solved / tried).mean(axis=0)
    np.testing.assert_allclose(found, [1.00, 0.96, 0.73, 0.75, 0.35, 0.24], atol=0.006)


@pytest.mark.slow
def test_largest_q3_of_verbal_aggression(shared_data):
    """Rasch by marginal maximum likelihood: .387, S1WantScold with S2WantScold."""
    import measurebayes as mb

    runs = mb.load(shared_data / "verbagg" / "verbagg_wide01.csv")
    fit = mb.fit("rasch", runs, draws=300, tune=300, chains=2, seed=1, progress=False)
    q3 = posterior_predictive(fit, replicates=200)["q3"].values
    tasks = runs["task"].values
    first, second = np.unravel_index(np.nanargmax(q3), q3.shape)
    assert (tasks[first], tasks[second]) == ("S1WantScold", "S2WantScold")
    assert q3[first, second] == pytest.approx(LEDGER["verbagg_largest_q3"]["value"], abs=0.015)
    row = {row.name: row for row in predictive(fit, replicates=200)}["predictive_q3"]
    assert not row.passed  # the situations are testlets
    assert "S1WantScold and S2WantScold" in row.text
    pair = mb.local_dependence(fit, replicates=200).pairs.iloc[0]
    assert {pair["task"], pair["other"]} == {"S1WantScold", "S2WantScold"}
    assert pair["q3"] == pytest.approx(LEDGER["verbagg_largest_q3"]["value"], abs=0.015)
    assert pair["p"] == 0
