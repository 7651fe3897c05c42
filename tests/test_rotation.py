"""Rotations: draws turned to one orientation (inference), and to simple structure (estimands)."""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import ortho_group

import measurebayes as mb
from measurebayes.checks.convergence import comparable
from measurebayes.estimands.rotation import oblimin, rotate, varimax
from measurebayes.inference.rotation import align, as_sampled, common_axes, procrustes

ROTATED = ("loading", "trait")


def turned_draws(rng, noise=0.02, chains=2, draws=30, tasks=40, agents=12, k=3):
    """Draws of one truth, traits mapped by any matrix in each, and loadings by its inverse."""
    loading = rng.normal([1.5, 0.0, 0.0], [0.5, 1.0, 0.5], (tasks, k))
    trait = np.linalg.qr(rng.normal(size=(agents, k)))[0] * np.sqrt(agents)
    jitter = rng.normal(0.0, noise, (chains, draws, tasks, k))
    onto = rng.normal(size=(chains, draws, k, k))
    turned = (loading + jitter) @ np.swapaxes(np.linalg.inv(onto), -1, -2)
    posterior = xr.Dataset(
        {
            "loading": (("chain", "draw", "task", "dimension"), turned),
            "trait": (("chain", "draw", "dimension", "agent"), np.swapaxes(trait @ onto, -1, -2)),
            "trait_sd": (("chain", "draw", "dimension"), rng.gamma(9.0, size=(chains, draws, k))),
            "easiness": (("chain", "draw", "task"), rng.normal(size=(chains, draws, tasks))),
        },
        {"chain": range(chains), "draw": range(draws), "dimension": range(k)},
    )
    return loading, trait, posterior


def products(x):
    return x["loading"].values @ x["trait"].transpose("chain", "draw", "dimension", "agent").values


def test_draws_that_differ_by_any_map_of_traits_become_alike(rng):
    loading, trait, posterior = turned_draws(rng)
    found = align(posterior, ROTATED)
    np.testing.assert_allclose(products(found), products(posterior), atol=1e-9)
    spread = found["loading"].std(("chain", "draw"))
    assert float(spread.max()) < 5 * 0.02 * float(abs(found["loading"]).max())
    mean = found["loading"].mean(("chain", "draw")).values
    onto, left, *_ = np.linalg.lstsq(mean, loading)
    assert np.all(left < 40 * 0.05**2)
    np.testing.assert_allclose(found["trait"].values[0, 0] @ np.linalg.inv(onto).T, trait, atol=0.1)
    strength = np.sum(mean**2, axis=0)  # principal axes: the strongest first, uncorrelated
    assert np.all(np.diff(strength) < 0.0)
    np.testing.assert_allclose(mean.T @ mean, np.diag(strength), atol=1e-9)
    assert np.all(mean.sum(axis=0) > 0.0)


def test_traits_are_in_standard_deviations_of_their_population(rng):
    loading, trait = rng.normal(0.5, 1.0, (200, 2)), rng.normal(size=(30, 2))
    sd = rng.gamma(9.0, size=(400, 2))  # traits that happen to be correlated in these agents
    turn = ortho_group.rvs(2, 400, random_state=rng)
    sampled = np.einsum("ak,dkm,dm->dam", trait, turn, sd)
    onto = common_axes(np.einsum("jk,dkm,dm->djm", loading, turn, 1 / sd), sampled)
    found = np.einsum("djm,dmk->djk", np.einsum("jk,dkm,dm->djm", loading, turn, 1 / sd), onto)
    assert np.abs(found - found.mean(axis=0)).max() < 1e-9
    size = np.sqrt(np.mean(trait**2, axis=0)).mean()
    aligned = found[0] @ procrustes(found[0], loading * size)
    np.testing.assert_allclose(aligned, loading * size, atol=0.3)
    whitened = np.linalg.svd(trait.T @ trait / 30)  # what it would be without the last map
    apart = loading @ (whitened.U * np.sqrt(whitened.S)) @ whitened.Vh
    assert np.linalg.norm(aligned - loading * size) < 0.5 * np.linalg.norm(apart - loading * size)


def test_draws_come_back_as_they_were_sampled(rng):
    posterior = turned_draws(rng)[2]
    found = align(posterior, ROTATED)
    assert found["trait_sd"].dims[-1] == "sampled_dimension"
    assert set(comparable(found)) == {"loading", "trait", "easiness"}
    back = as_sampled(found, ROTATED)
    assert set(back.coords) == set(posterior.coords)
    for name, x in posterior.items():
        np.testing.assert_allclose(back[name].transpose(*x.dims).values, x.values, atol=1e-9)
    xr.testing.assert_identical(as_sampled(posterior, ROTATED), posterior)


def test_a_dimension_that_is_switched_off_comes_back_too(rng):
    posterior = turned_draws(rng)[2]
    posterior["trait"][:, :, 2] = 0.0  # as with fewer agents than dimensions
    found = align(posterior, ROTATED)
    assert np.all(np.isfinite(found["trait"]))
    assert np.all(np.isfinite(found["loading"]))
    back = as_sampled(found, ROTATED)
    np.testing.assert_allclose(back["loading"], posterior["loading"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(products(back), products(posterior), atol=1e-8)


def test_varimax_finds_the_best_angle(rng):
    loading = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 2))

    def variance(x):
        return np.sum(np.var(x**2, axis=0))

    angles = np.linspace(0.0, np.pi, 20_001)
    best = max(
        variance(loading @ np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]))
        for a in angles
    )
    turn = varimax(loading)
    np.testing.assert_allclose(turn.T @ turn, np.eye(2), atol=1e-12)
    assert variance(loading @ turn) == pytest.approx(best, rel=1e-6)


def test_oblimin_finds_simple_structure_and_how_traits_go_together(rng):
    pattern = np.kron(np.eye(3), np.ones((8, 1))) * rng.uniform(0.6, 1.6, (24, 1))
    correlation = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.3], [0.2, 0.3, 1.0]])
    root = np.linalg.cholesky(correlation)  # traits are z root', loadings of z pattern root
    turn = oblimin(pattern @ root)
    np.testing.assert_allclose(np.diag(turn.T @ turn), 1.0)
    turned = pattern @ root @ np.linalg.inv(turn).T
    order = np.argmax(np.abs(turned.T @ pattern), axis=0)
    signs = np.sign(np.sum(turned[:, order] * pattern, axis=0))
    np.testing.assert_allclose(turned[:, order] * signs, pattern, atol=1e-4)
    np.testing.assert_allclose(
        (turn.T @ turn)[np.ix_(order, order)] * np.outer(signs, signs), correlation, atol=1e-4
    )


@pytest.mark.parametrize("method", ["varimax", "oblimin"])
def test_rotated_fit_keeps_its_products_and_its_order(rng, method):
    posterior = align(turned_draws(rng)[2], ROTATED)
    fit = xr.DataTree.from_dict({"posterior": posterior, "data": xr.Dataset()})
    found = rotate(fit, method)
    np.testing.assert_allclose(products(found), products(posterior), atol=1e-9)
    mean = found["loading"].mean(("chain", "draw")).values
    assert np.all(np.diff(np.sum(mean**2, axis=0)) <= 1e-9)
    assert np.all(mean.sum(axis=0) >= 0.0)
    np.testing.assert_allclose(np.diag(found["correlation"]), 1.0)
    if method == "varimax":
        np.testing.assert_allclose(found["correlation"], np.eye(3), atol=1e-12)


def test_what_has_no_dimensions_is_not_rotated(rng):
    fit = xr.DataTree.from_dict({"posterior": turned_draws(rng)[2], "data": xr.Dataset()})
    with pytest.raises(mb.InputError, match="'quartimax' is unknown"):
        rotate(fit, "quartimax")
    with pytest.raises(mb.InputError, match="has no 'loading'"):
        rotate(xr.DataTree.from_dict({"posterior": xr.Dataset(), "data": xr.Dataset()}))
