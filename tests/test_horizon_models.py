"""Horizon models: the sampler's form of the density, records of human time, limits."""

import jax
import numpy as np
import pytest
from numpyro import handlers

from measurebayes.backends.density import log_densities
from measurebayes.backends.numpyro import sampler_model
from measurebayes.backends.simulate import prior_draw
from measurebayes.checks.contract import invented_data
from measurebayes.program.registry import get_model

MEASURED = [
    "horizon_eiv",
    "horizon_eiv:slopes=common,lengths=family,failed=censored",
    "horizon_eiv:tasks=none",
    "horizon_trend:times=latent",
]


@pytest.mark.parametrize("name", MEASURED)
def test_the_samplers_order_of_densities_has_the_same_joint_density(name, rng):
    data, model = invented_data(), get_model(name)
    for _ in range(5):
        values = prior_draw(model, data, rng)
        arrays = {n: x.values for n, x in values.items() if n != "successes"}
        with jax.enable_x64(True):
            run = handlers.substitute(sampler_model(model, data), data=arrays)
            sites = handlers.trace(run).get_trace()
            terms = [
                float(np.sum(site["fn"].log_prob(site["value"])))
                for site in sites.values()
                if site["type"] == "sample"
            ]
        expected = sum(log_densities(model, data, values).values())
        assert sum(terms) == pytest.approx(expected, rel=1e-10, abs=1e-8)
