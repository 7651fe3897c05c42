"""A default fit agrees with a long run of another sampler, to what chance in both explains.

benchmarks/reference_two_pl.json holds posterior means and standard deviations of the 483
parameters of two_pl on the METR counts, and their Monte Carlo standard errors, by nutpie
(benchmarks/reference.py). Each difference is divided by the standard error of both runs together.
With 966 such numbers, about three are beyond 3 by chance alone, so that 3 can't be asked of each:
shares within 1, 2 and 3 should be those of a normal distribution (less what dependence between
parameters does to them), and the largest should be below what all 966 exceed together once in
1,000 times, whatever their dependence (Bonferroni).
"""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from measurebayes.data import fingerprint

FILE = Path(__file__).parent.parent / "benchmarks" / "reference_two_pl.json"
REFERENCE = json.loads(FILE.read_text(encoding="utf-8"))


def differences(posterior, statistic):
    """Differences from the reference in standard errors of both runs, of all parameters."""
    import arviz as az

    over = ("chain", "draw")
    ours = posterior.mean(over) if statistic == "mean" else posterior.std(over, ddof=1)
    errors = az.mcse(posterior, method=statistic)
    found = []
    for name, reference in REFERENCE["parameters"].items():
        error = np.hypot(errors[name].values, reference[f"mcse_{statistic}"])
        found.append(np.ravel((ours[name].values - reference[statistic]) / error))
    return np.concatenate(found)


def test_reference_is_of_these_data_and_priors_and_converged(metr):
    from measurebayes.program.registry import get_model

    assert REFERENCE["data"] == fingerprint(metr)
    assert REFERENCE["priors"] == get_model("two_pl").priors
    assert REFERENCE["largest_rhat"] < 1.01
    assert REFERENCE["least_ess"] > 2000


@pytest.mark.slow
@pytest.mark.parametrize("statistic", ["mean", "sd"])
def test_default_fit_agrees_with_the_reference_run(metr_two_pl, statistic):
    names = list(REFERENCE["parameters"])
    z = np.abs(differences(metr_two_pl["posterior"].to_dataset()[names], statistic))
    assert z.size == 483
    shares = [float(np.mean(z < bound)) for bound in (1, 2, 3)]
    # 0.68, 0.954 and 0.997 on average over fits. In one they go together: an error of 1.5 in the
    # direction in which all abilities and difficulties stretch is in every one of them.
    assert shares[0] > 0.4, shares
    assert shares[1] > 0.8, shares
    assert shares[2] > 0.985, shares
    assert z.max() < norm.isf(0.001 / (2 * 966)), (shares, z.max())
