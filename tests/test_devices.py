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
sys.path.insert(0, "tests")
from fake_fit import fake_data
import measurebayes as mb
from measurebayes.inference import devices, nuts

places, compilations, chains = {}, [], []
advance, compiled = nuts.Engine.advance, nuts.compiled

def told(engine, chain, *others):
    records = advance(engine, chain, *others)
    (device,) = jax.tree.leaves(chain.state)[0].devices()
    chains.append(chain)  # else another one may get its id
    places.setdefault(id(chain), set()).add(device.id)
    return records

nuts.Engine.advance = told
def counted(programs):
    compilations.append(sorted(programs))
    return compiled(programs)

nuts.compiled = devices.compiled = counted
runs, _ = fake_data(4, 6, attempts=2)
fit = mb.fit("rasch", runs, draws=60, tune=60, chains=4, seed=3, progress=False)
values = b"".join(x.values.tobytes() for x in fit["posterior"].to_dataset().data_vars.values())
print(json.dumps({
    "devices": len(jax.devices()), "places": sorted(map(sorted, places.values())),
    "compilations": compilations, "draws": hashlib.sha256(values).hexdigest(),
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
