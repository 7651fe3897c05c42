"""Commands that read a fit warn on standard error where it has not converged."""

import json

import pytest
from click.testing import CliRunner
from fake_fit import fake_fit

import measurebayes as mb
from measurebayes.cli import main


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits")
    made = {}
    for converged in (True, False):
        made[converged] = str(folder / f"{'good' if converged else 'bad'}.nc")
        fit = fake_fit(agents=4, tasks=6, converged=converged)
        mb.save(fit, made[converged])
    return made


WORDS = [
    ("pairs", []),
    ("dependence", []),
    ("misfit", []),
    ("misfit", ["--group", "agent 1", "agent 2"]),
    ("suspects", []),
]


@pytest.mark.parametrize(("command", "more"), WORDS)
def test_unconverged_fits_are_warned_of_and_converged_ones_are_not(fits, command, more):
    bad = CliRunner().invoke(main, [command, fits[False], "--json", *more])
    assert bad.exit_code == 0
    assert "warning: 'bad' has not converged" in bad.stderr
    json.loads(bad.stdout)
    good = CliRunner().invoke(main, [command, fits[True], "--json", *more])
    assert good.exit_code == 0
    assert "converged" not in good.stderr
