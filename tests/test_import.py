"""The package imports fast, brings nothing heavy, and has the promised names."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

import measurebayes as mb

HEAVY = ("jax", "jaxlib", "numpyro", "pymc", "pytensor", "arviz", "matplotlib", "pandas", "xarray")
# Those of DESIGN section 4 that this version has.
PROMISED = (
    "load subset describe fit check compare report cite open save simulate pymc_model "
    "numpyro_model calibrate score item_parameters"
).split()


def in_fresh_process(code: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_heavy(statement: str) -> str:
    return in_fresh_process(
        f"import sys\n{statement}\nprint(*sorted(set(sys.modules) & set({HEAVY!r})))"
    ).splitlines()[-1]


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert loaded_heavy("import measurebayes") == ""


def test_help_imports_nothing_heavy() -> None:
    statement = (
        "from measurebayes.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: assert end.code == 0"
    )
    assert loaded_heavy(statement) == ""


@pytest.mark.parametrize("command", ["import measurebayes", "help"])
def test_takes_less_than_half_a_second(command: str) -> None:
    words = ["-m", "measurebayes", "--help"] if command == "help" else ["-c", command]

    def seconds() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, timeout=60)
        return time.perf_counter() - start

    # The least of some runs: other processes of the machine only ever add time.
    assert min(seconds() for _ in range(5)) < 0.5


@pytest.mark.parametrize("name", PROMISED)
def test_promised_name_is_callable(name: str) -> None:
    assert callable(getattr(mb, name))
    assert name in dir(mb)
    assert name in mb.__all__


def test_errors_have_one_base() -> None:
    for error in (mb.InputError, mb.ModelError, mb.CheckpointError):
        assert issubclass(error, mb.MeasureBayesError)


def test_unknown_name_says_so() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        mb.nonsense  # noqa: B018


@pytest.mark.parametrize("name", ["compare", "report"])
@pytest.mark.parametrize(
    "imports",
    [
        "",
        "import measurebayes.{name}",
        "from measurebayes.{name} import {name}",
        "import measurebayes.{name} as module",
        "mb.{name}; import measurebayes.{name}",
        "mb.{name}; from measurebayes import {name}",
    ],
)
def test_function_survives_the_import_of_its_subpackage(name: str, imports: str) -> None:
    # Python binds measurebayes.compare to the subpackage when that is imported.
    code = f"""
import inspect, sys
import measurebayes as mb
{imports.format(name=name)}
from measurebayes.{name} import {name} as function
assert inspect.isfunction(function)
assert callable(mb.{name})
assert inspect.signature(mb.{name}) == inspect.signature(function)
from measurebayes import {name} as public
assert callable(public)
import measurebayes.{name} as module
assert inspect.isfunction(module.{name})
called = []
module.{name} = lambda *args, **kwargs: called.append((args, kwargs))
mb.{name}(1, path=2)
assert called == [((1,), dict(path=2))], called
"""
    in_fresh_process(code)
