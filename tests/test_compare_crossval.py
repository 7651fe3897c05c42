"""Cross-validation by groups: what is held out is not used, and densities are right."""

import numpy as np
import pytest
from scipy.special import logsumexp

import measurebayes as mb
from measurebayes.backends.evaluate import log_likelihood
from measurebayes.compare.additivity import halves
from measurebayes.compare.crossval import held_out_density
from measurebayes.program.registry import get_model

SMALL = {"draws": 200, "tune": 200, "chains": 2}


@pytest.mark.slow
def test_held_out_groups_are_predicted_from_the_others(metr):
    runs = mb.subset(metr, source="HCAST")
    group = runs["family_index"].values[runs["task_index"].values]
    model = get_model("horizon_logistic", slopes="common")
    found = held_out_density(
        {"common": model}, runs, group, folds=2, seed=3, progress=False, **SMALL
    )
    assert found["elpd"].shape == (1, runs.sizes["family"])
    assert np.isfinite(found["elpd"]).all()
    # One fold again by hand, in data from which its tasks are really gone.
    fold = found["fold_of_group"].values
    out = fold[group] == 0
    kept = runs["family"].values[fold == 1].tolist()
    fit = mb.fit(model, mb.subset(runs, family=kept), seed=8, progress=False, **SMALL)
    posterior = fit["posterior"].to_dataset()
    left = runs.isel(cell=out)
    drawn = {str(name): posterior[name] for name in posterior.data_vars}
    terms = log_likelihood(model, left, drawn).values.reshape(-1, left.sizes["cell"])
    for family in np.unique(group[out])[:20]:
        total = terms[:, group[out] == family].sum(axis=1)
        expected = logsumexp(total) - np.log(len(total))
        assert found["elpd"].values[0, family] == pytest.approx(expected, rel=0.02, abs=0.3)


def test_halves_hold_every_attempt_once(metr):
    first, second = halves(metr, seed=4)
    for runs in (first, second):
        assert (runs["attempts"] > 0).all()
        assert (runs["successes"] <= runs["attempts"]).all()
        assert runs.sizes["task"] == metr.sizes["task"]
    for counts in ("attempts", "successes"):
        total = sum(int(runs[counts].sum()) for runs in (first, second))
        assert total == int(metr[counts].sum())
    assert int(first["attempts"].sum()) == pytest.approx(int(metr["attempts"].sum()) / 2, rel=0.02)
    again, other = halves(metr, seed=4)[0], halves(metr, seed=5)[0]
    assert first.equals(again)
    assert not first.equals(other)
