"""Chains over several JAX devices, in a process that has two."""

import json
import os
import subprocess
import sys

import pytest

# Fits with four chains, and says where they ran, how often was compiled, and what came out.
PROGRAM = """
import hashlib, json, sys
import jax
import numpy as np
sys.path.insert(0, "tests")
from fake_fit import fake_data
import measurebayes as mb
from measurebayes.inference import devices, nuts
from measurebayes.program.registry import get_model

places, compilations, chains = {}, [], []
advance, compiled = nuts.Engine.advance, nuts.compiled

def told(engine, chain, *others):
    records = advance(engine, chain, *others)
    there = jax.tree.leaves(chain.state)[0].devices()
    chains.append(chain)  # else another one may get its id
    places.setdefault(id(chain), set()).update(device.id for device in there)
    return records

nuts.Engine.advance = told
def counted(programs):
    compilations.append(sorted(programs))
    return compiled(programs)

nuts.compiled = devices.compiled = counted
runs, _ = fake_data(4, 6, attempts=2)
fit = mb.fit("rasch", runs, draws=60, tune=60, chains=4, seed=3, progress=False)
found = {"places": sorted(map(sorted, places.values())), "compilations": list(compilations)}
values = b"".join(x.values.tobytes() for x in fit["posterior"].to_dataset().data_vars.values())

# a grid in parts: energy and gradient, then a whole fit
engine, there = nuts.engine_for(get_model("rasch"), runs, get_model("rasch").priors, 60)
everywhere, apart, parts, one_chain = tuple(jax.devices()), [], [], []
if len(everywhere) > 1:
    arguments = {**engine.arguments(runs), "geometry": engine.split.plain()}
    at = np.random.default_rng(0).normal(size=sum(engine.split.sizes))
    spread = devices.put(arguments, everywhere)
    parts = [x.data.shape for x in spread["counts"]["attempts"].addressable_shards]
    with jax.enable_x64(True):
        key = jax.random.PRNGKey(1)
        whole = engine.run["begin"](key, at, arguments)
        summed = devices.placed(engine, everywhere).run["begin"](key, at, spread)
    for name in ("potential_energy", "z_grad"):
        one, other = (np.asarray(getattr(state, name)) for state in (whole, summed))
        apart.append(float(np.abs(one - other).max() / np.abs(one).max()))
    devices.LARGE = 1
    places.clear()
    again = mb.fit("rasch", runs, draws=20, tune=60, chains=1, seed=3, progress=False)
    one_chain = [sorted(map(sorted, places.values()))[-1], *(
        float(each["sample_stats"]["lp"].mean()) for each in (again, fit))]

print(json.dumps({
    **found, "devices": len(jax.devices()), "draws": hashlib.sha256(values).hexdigest(),
    "apart": apart, "parts": parts, "one_chain": one_chain,
}))
"""


def fit_on(devices, folder):
    flags = f"--xla_force_host_platform_device_count={devices}"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "XLA_FLAGS": flags,
            "JAX_PLATFORMS": "cpu",
            "MEASUREBAYES_CACHE": str(folder),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_chains_are_dealt_to_devices_and_draw_the_same(tmp_path):
    one, two = (fit_on(number, tmp_path) for number in (1, 2))
    assert (one["devices"], two["devices"]) == (1, 2)
    # The pilot run, of two stages, stays on the first device.
    assert one["places"] == [[0]] * 6
    assert two["places"] == [[0]] * 4 + [[1]] * 2
    assert len(one["compilations"]) == 1
    assert two["compilations"] == [*one["compilations"], ["advance", "begin"]]
    assert two["draws"] == one["draws"]
    assert two["parts"] == [[4, 3], [4, 3]]  # of 4 agents by 6 tasks
    assert max(two["apart"]) < 1e-12
    places, lp, lp_of_four = two["one_chain"]
    assert places == [0, 1]
    assert abs(lp - lp_of_four) < 5
