"""The programs that benchmarks compare with are the model of models/two_pl.py.

Stan's program is compared in the same way by benchmarks/run.py, before it is measured.
"""

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
pytestmark = pytest.mark.slow


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.mark.parametrize("program", ["textbook", "identified"])
@pytest.mark.parametrize("library", ["numpyro", "pymc"])
def test_density_is_that_of_the_model(tiny, scripts, program, library):
    pytest.importorskip(library)
    agreement = scripts("agreement")
    model = getattr(scripts(program), f"{library}_model")(tiny)
    density = getattr(agreement, f"{library}_density")
    at = agreement.points(tiny)
    wanted = [agreement.expected(tiny, point, program == "textbook") for point in at]
    agreement.check(program, [density(model, point) for point in at], wanted)


def test_another_prior_is_noticed(tiny, scripts, monkeypatch):
    agreement, textbook = scripts("agreement"), scripts("textbook")
    monkeypatch.setitem(textbook.PRIORS, "difficulty_sd", 4.99)
    at = agreement.points(tiny)
    found = [agreement.numpyro_density(textbook.numpyro_model(tiny), point) for point in at]
    wanted = [agreement.expected(tiny, point, textbook=True) for point in at]
    with pytest.raises(SystemExit, match="textbook is another model"):
        agreement.check("textbook", found, wanted)
