"""Cross-validation by groups: what is held out is not used, and densities are right."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import measurebayes as mb
from measurebayes.backends.evaluate import log_likelihood
from measurebayes.compare.additivity import halves
from measurebayes.compare.crossval import held_out_density
from measurebayes.errors import InputError
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


def refuse_to_fit(*_, **__):
    raise AssertionError("fitted before the arguments were checked")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bands": 50}, "50 bands"),
        ({"folds": 1}, "folds=1"),
        ({"seed": -1}, "seed=-1"),
        ({"by": "length"}, "by 'length'"),
        ({"subset": {"colour": "red"}}, "subset="),
        ({"subset": {"family": "family 1"}}, "bands"),
    ],
)
def test_additivity_checks_arguments_before_it_fits(tiny, monkeypatch, change, words):
    timed = tiny.assign(human_minutes=("task", 2.0 ** (np.arange(12) // 2)))
    monkeypatch.setattr("measurebayes.inference.fit", refuse_to_fit)
    with pytest.raises(InputError, match=words):
        mb.additivity(timed, progress=False, **{"bands": 4, **change})


def test_one_group_can_not_be_held_out(tiny):
    with pytest.raises(InputError, match="1 group"):
        held_out_density({}, tiny, np.zeros(tiny.sizes["cell"], int), progress=False)


def test_additivity_says_what_it_found_and_how_sure_it_is(tiny):
    from measurebayes.compare.additivity import Additivity

    found = mb.cancellation(
        tiny,
        by=np.arange(12.0),
        bands=4,
        min_attempts=2,
        against=["rasch_ml"],
        replicates=9,
        progress=False,
    )
    table = pd.DataFrame(
        {"elpd": [-10.0, -50.0], "elpd_diff": [0.0, -40.0], "dse": [0.0, 9.0], "converged": 1.0},
        index=["monotone", "additive"],
    )
    spread = {"median": 0.5, "low": 0.2, "high": 0.9}

    def text(**change):
        changed = table.assign(**change)
        return Additivity("minutes", changed, spread, found, {}).text()

    assert "don't add up" in text()
    assert "don't tell the two apart" in text(dse=[0.0, 30.0])
    assert "Too few of the fits converged" in text(converged=[1.0, 0.5])
    assert "add up in logits" not in text(converged=[1.0, 0.5])
    assert (
        "nothing is gained"
        in Additivity("minutes", table.set_axis(["additive", "monotone"]), spread, found, {}).text()
    )


def test_difficulty_comes_from_the_first_half_of_the_attempts(metr):
    from measurebayes.classical import estimate
    from measurebayes.compare.additivity import _placed

    data, place = _placed(metr, "difficulty", seed=4)
    first, second = halves(metr, seed=4)
    known = dict(
        zip(
            metr["task"].values.tolist(),
            estimate("rasch_ml", first).parameters["difficulty"],
            strict=True,
        )
    )
    tasks = data["task"].values.tolist()
    assert place.values == pytest.approx([known[task] for task in tasks])
    assert np.log2(data["human_minutes"].values) == pytest.approx(place.values)
    solved = first["successes"].groupby(first["task_index"]).sum()
    tried = first["attempts"].groupby(first["task_index"]).sum()
    mixed = metr["task"].values[((solved > 0) & (solved < tried)).values]
    assert set(tasks) <= set(mixed.tolist())
    assert len(tasks) > 0.95 * len(mixed)  # all but those without an attempt in the second half
    assert int(data["attempts"].sum()) <= int(second["attempts"].sum())
