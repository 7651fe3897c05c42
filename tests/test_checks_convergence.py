import numpy as np
import pytest
import xarray as xr
from scipy import stats

from measurebayes.checks import converged
from measurebayes.checks.convergence import (
    convergence,
    diagnostics,
    ess_threshold,
    failures,
    scalars,
)

SHAPE = (4, 500)


def tree(posterior, sample_stats=None, **attrs):
    """A fit of what convergence looks at; arrays are (chain, draw, task)."""
    data = {
        name: xr.DataArray(x, dims=("chain", "draw", "task")[: x.ndim])
        for name, x in posterior.items()
    }
    groups = {"/": xr.Dataset(attrs=attrs), "posterior": xr.Dataset(data)}
    if sample_stats is not None:
        stats_data = {name: (("chain", "draw"), x) for name, x in sample_stats.items()}
        groups["sample_stats"] = xr.Dataset(stats_data)
    return xr.DataTree.from_dict(groups)


def good_stats(rng, **other):
    stats = {
        "diverging": np.zeros(SHAPE, bool),
        "energy": rng.normal(size=SHAPE),
        "reached_max_tree_depth": np.zeros(SHAPE, bool),
    }
    return stats | other


def rows_of(fit):
    return {row.name: row for row in convergence(fit)}


def rank_normalised_split_rhat(draws):
    """R-hat as the paper defines it, written out: the larger of two, plain and folded."""
    half = draws.shape[1] // 2
    split = np.concatenate([draws[:, :half], draws[:, -half:]])

    def plain(x):
        z = stats.norm.ppf((stats.rankdata(x) - 3 / 8) / (x.size + 1 / 4)).reshape(x.shape)
        within = z.var(axis=1, ddof=1).mean()
        between = z.shape[1] * z.mean(axis=1).var(ddof=1)
        return np.sqrt(((z.shape[1] - 1) * within / z.shape[1] + between / z.shape[1]) / within)

    return max(plain(split), plain(np.abs(split - np.median(split))))


def test_rhat_is_that_of_the_paper_for_location_and_for_scale(rng):
    located = rng.normal(size=SHAPE) + np.array([0, 0, 0, 0.5])[:, None]
    scaled = rng.standard_cauchy(size=SHAPE) * np.array([1, 1, 1, 2])[:, None]
    found = diagnostics(tree({"a": located, "b": scaled})["posterior"].to_dataset())["rhat"]
    assert found["a"] == pytest.approx(rank_normalised_split_rhat(located), rel=1e-12)
    assert found["b"] == pytest.approx(rank_normalised_split_rhat(scaled), rel=1e-12)
    assert min(found.values()) > 1.01


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_bulk_ess_of_an_autoregression_is_known(rng, correlation):
    noise = rng.normal(size=(4, 5000))
    x = np.empty_like(noise)
    x[:, 0] = noise[:, 0] / np.sqrt(1 - correlation**2)
    for t in range(1, noise.shape[1]):
        x[:, t] = correlation * x[:, t - 1] + noise[:, t]
    expected = noise.size * (1 - correlation) / (1 + correlation)
    found = diagnostics(tree({"x": x})["posterior"].to_dataset())["ess_bulk"]["x"]
    assert found == pytest.approx(expected, rel=0.15)


def test_a_sound_fit_passes_every_row(rng):
    fit = tree({"a": rng.normal(size=SHAPE), "b": rng.normal(size=(*SHAPE, 3))}, good_stats(rng))
    rows = rows_of(fit)
    assert list(rows) == ["rhat", "ess_bulk", "ess_tail", "divergences", "tree_depth", "ebfmi"]
    assert all(row.passed for row in rows.values())
    assert converged(fit)
    assert rows["rhat"].value < 1.01
    assert rows["divergences"].value == 0


def test_the_worst_parameter_is_named_by_its_label(rng):
    draws = rng.normal(size=(*SHAPE, 3))
    draws[0, :, 1] += 2
    fit = tree({"difficulty": draws}, good_stats(rng))
    fit["posterior"] = fit["posterior"].to_dataset().assign_coords(task=["easy", "odd", "hard"])
    rows = rows_of(fit)
    assert not rows["rhat"].passed
    assert "difficulty[odd]" in rows["rhat"].text
    assert "difficulty[odd]" in rows["ess_bulk"].text
    assert "1 of 3" in rows["rhat"].text
    assert not converged(fit)


def test_scalars_follow_labels_in_order(rng):
    posterior = xr.Dataset(
        {
            "sd": (("chain", "draw"), rng.normal(size=(2, 5))),
            "effect": (("agent", "chain", "family", "draw"), rng.normal(size=(2, 2, 3, 5))),
        },
        coords={"agent": ["x", "y"], "family": ["f", "g", "h"]},
    )
    names, draws = scalars(posterior)
    assert names[0] == "sd"
    assert names[1:4] == ["effect[x, f]", "effect[x, g]", "effect[x, h]"]
    expected = posterior["effect"].sel(agent="y", family="g").transpose("chain", "draw")
    np.testing.assert_array_equal(draws[names.index("effect[y, g]")], expected)


def test_one_chain_cannot_be_judged_and_does_not_pass(rng):
    row = rows_of(tree({"a": rng.normal(size=(1, 1000))}))["rhat"]
    assert not row.passed
    assert np.isnan(row.value)
    assert "chains" in row.text


def test_constants_are_left_out(rng):
    fit = tree({"a": rng.normal(size=SHAPE), "fixed": np.ones(SHAPE)})
    assert "fixed" not in diagnostics(fit["posterior"].to_dataset())["rhat"]
    assert rows_of(fit)["rhat"].passed


def test_nothing_moves(rng):
    row = rows_of(tree({"a": np.ones(SHAPE)}))["rhat"]
    assert not row.passed
    assert "stuck" in row.text


def test_chains_stuck_at_different_values_fail():
    stuck = np.repeat(np.arange(4.0), 500).reshape(SHAPE)
    rows = rows_of(tree({"a": stuck}))
    assert not rows["rhat"].passed
    assert rows["rhat"].value > 100


def test_draws_that_are_not_finite_fail_by_name(rng):
    draws = rng.normal(size=(*SHAPE, 2))
    draws[2, 10, 1] = np.nan
    row = rows_of(tree({"a": draws}))["ess_tail"]
    assert not row.passed
    assert "a[1]" in row.text


def test_missing_sample_statistics_are_said(rng):
    rows = rows_of(tree({"a": rng.normal(size=SHAPE)}))
    for name in ("divergences", "tree_depth", "ebfmi"):
        assert rows[name].passed
        assert np.isnan(rows[name].value)
        assert rows[name].text.startswith("Not judged")


def test_divergences_are_counted(rng):
    diverging = np.zeros(SHAPE, bool)
    diverging[1, :3] = True
    fit = tree({"a": rng.normal(size=SHAPE)}, good_stats(rng, diverging=diverging))
    row = rows_of(fit)["divergences"]
    assert (row.passed, row.value) == (False, 3)
    assert not converged(fit)


def test_tree_depth_from_the_largest_depth_in_attrs(rng):
    depth = np.full(SHAPE, 5)
    depth[:, :50] = 10
    sample_stats = good_stats(rng, tree_depth=depth)
    del sample_stats["reached_max_tree_depth"]
    unknown = tree({"a": rng.normal(size=SHAPE)}, sample_stats)
    assert np.isnan(rows_of(unknown)["tree_depth"].value)
    known = tree({"a": rng.normal(size=SHAPE)}, sample_stats, max_tree_depth=10)
    row = rows_of(known)["tree_depth"]
    assert not row.passed
    assert row.value == pytest.approx(0.1)
    assert converged(known)  # a matter of speed, not of bias
    assert failures([row]) == []


def test_ebfmi_of_a_slow_energy(rng):
    energy = rng.normal(size=SHAPE)
    energy[2] = np.cumsum(rng.normal(size=500))
    fit = tree({"a": rng.normal(size=SHAPE)}, good_stats(rng, energy=energy))
    row = rows_of(fit)["ebfmi"]
    by_hand = np.mean(np.diff(energy[2]) ** 2) / np.var(energy[2], ddof=1)
    assert not row.passed
    assert row.value == pytest.approx(by_hand)
    assert "chain 2" in row.text


def test_threshold_is_100_a_chain_and_never_under_400():
    assert [ess_threshold(chains) for chains in (1, 2, 4, 8)] == [400, 400, 400, 800]
