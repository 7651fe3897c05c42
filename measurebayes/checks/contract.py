"""What every model file must hold: its parts, and one density in all interpreters and layouts."""

from __future__ import annotations

import ast
import importlib.util
import io
import tokenize
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.backends.density import log_densities
from measurebayes.backends.simulate import prior_draw, variables
from measurebayes.checks.rows import Check, table
from measurebayes.program.options import number_of_combinations
from measurebayes.program.registry import ModelFile, get_model

Values = Mapping[str, xr.DataArray]
DENSITY_TOLERANCE = 1e-10
GRADIENT_TOLERANCE = 1e-8
CODE_LINES = 60
SECTIONS = ("Equation", "Assumes", "Identified by", "Not to be confused with", "References")
HEAVY = ("jax", "numpyro", "pymc", "pytensor", "arviz", "matplotlib", "pandas", "xarray")


def verify(model: str | Path | ModelFile, draws: int = 20, seed: int = 1) -> pd.DataFrame:
    """Check a model file against what the toolkit relies on; no sampler is needed.

    Every combination of the model's options is checked, whichever were chosen; of more than 64 the
    first so many, those with one option changed before the others, and a row says so.

    At prior draws, the log density of every variable must agree between SciPy, NumPyro and PyMC
    and between the long and the dense layout, and so must the gradients of the unconstrained
    densities of NumPyro and PyMC.

    Parameters
    ----------
    model
        Name of a model, or path of a model file. The file is run: load only what you trust.
    draws
        Number of prior draws.
    seed
        Of the draws and of the small invented data set.

    Returns
    -------
    pandas.DataFrame
        Columns name, passed, value, text.
    """
    model = get_model(model)
    data = invented_data(seed)
    rows = list(_parts(model))
    variants, all_of_them = model.variants(), number_of_combinations(model.offered)
    if len(variants) < all_of_them:
        text = f"{len(variants)} of {all_of_them:,} combinations of options are checked"
        rows.append(Check("options", True, float(len(variants)), text))
    for variant in variants:
        mark = variant.label.removeprefix(model.name).replace(":", " ", 1)
        checks = _of_one_variant(variant, data, draws, seed)
        rows += [check._replace(name=check.name + mark) for check in checks]
    return table(rows)


def _of_one_variant(model: ModelFile, data: xr.Dataset, draws: int, seed: int) -> list[Check]:
    points, simulated = _prior_points(model, data, draws, seed)
    rows = [simulated]
    witness = [log_densities(model, data, values) for values in points]
    dense = [log_densities(model, data, values, layout="dense") for values in points]
    rows.append(_agreement("SciPy density, dense layout", witness, dense))
    for layout in ("long", "dense"):
        found = [_numpyro_densities(model, data, values, layout) for values in points]
        rows.append(_agreement(f"NumPyro density, {layout} layout", witness, found))
    if importlib.util.find_spec("pymc") is None:
        text = "PyMC is not installed, its density was not compared: pip install measurebayes[pymc]"
        return [*rows, Check("PyMC density", True, np.nan, text)]
    return [*rows, *_against_pymc(model, data, points, witness)]


def invented_data(seed: int = 1, agents: int = 5, tasks: int = 7) -> xr.Dataset:
    """Return a small table with holes, three families, and one to four attempts a cell.

    Agents have release dates. Of the human times some are means, some estimates, and of three tasks
    there are timed attempts, one in four of them failed. Every second task may load on a second
    dimension.
    """
    from measurebayes.data import load

    rng = np.random.default_rng(seed)
    agent, task = (x.ravel() for x in np.indices((agents, tasks)))
    keep = rng.random(agent.size) < 0.8
    keep[:: tasks + 1] = True  # nobody without a cell
    keep[:tasks] = True
    attempts = rng.integers(1, 5, agent.size)
    released = np.datetime64("2023-03-14") + 150 * np.arange(agents)
    columns = {
        "agent": [f"agent {i}" for i in agent],
        "task": [f"task {j}" for j in task],
        "family": [f"family {j % 3}" for j in task],
        "source": [f"suite {j % 2}" for j in task],
        "human_minutes": 2.0 ** (task - 2.0),
        "minutes_kind": np.where(task % 3 == 1, "estimate", "baseline"),
        "release_date": released[agent].astype(str),
        "attempts": attempts,
        "successes": rng.binomial(attempts, 0.5),
    }
    data = load(pd.DataFrame(columns)[keep])
    timed = np.repeat(np.arange(min(3, tasks)), 4)
    minutes = 2.0 ** (timed - 2.0 + rng.normal(size=timed.size))
    allowed = np.column_stack([np.ones(tasks), np.arange(tasks) % 2])
    return data.assign(
        allowed_loading=(("task", "dimension"), allowed),
        timing_task_index=("timing", timed),
        timing_minutes=("timing", minutes),
        timing_success=("timing", (np.arange(timed.size) % 4 > 0).astype(np.int64)),
    )


def _parts(model: ModelFile) -> Iterator[Check]:
    missing = [s for s in SECTIONS if s not in model.sections]
    yield Check(
        "docstring",
        not missing,
        float(len(missing)),
        f"lacks the parts {', '.join(missing)}" if missing else "has all its parts",
    )
    lines = code_lines(model.source)
    yield Check(
        "length", lines <= CODE_LINES, float(lines), f"{lines} lines of code (at most {CODE_LINES})"
    )
    heavy = sorted(_imports(model.source) & set(HEAVY))
    yield Check(
        "imports",
        not heavy,
        float(len(heavy)),
        f"imports {', '.join(heavy)}: use the verbs of pp" if heavy else "imports nothing heavy",
    )


def code_lines(source: str) -> int:
    """Count the lines that hold code: no blank lines, comments or docstring of the module."""
    skip = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    module = ast.parse(source)
    start = (module.body[0].end_lineno or 0) if ast.get_docstring(module) else 0
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skip and token.type != tokenize.ENDMARKER and token.start[0] > start:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines)


def _imports(source: str) -> set[str]:
    """Top-level names that the module imports when it is loaded."""
    names: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def _prior_points(
    model: ModelFile, data: xr.Dataset, draws: int, seed: int
) -> tuple[list[Values], Check]:
    rng = np.random.default_rng(seed)
    points: list[Values] = []
    wrong, attempts = 0, data["attempts"].values
    latent = [variable.name for variable in variables(model, data)]
    for _ in range(draws):
        point = prior_draw(model, data, rng)
        successes = point["successes"].values
        wrong += not bool(np.all((successes >= 0) & (successes <= attempts)))
        points.append({name: point[name] for name in latent})
    text = f"{draws} prior draws simulated, {wrong} with impossible successes"
    return points, Check("simulation", wrong == 0, float(wrong), text)


def _numpyro_densities(
    model: ModelFile, data: xr.Dataset, values: Values, layout: str
) -> dict[str, float]:
    import jax
    from numpyro import handlers

    from measurebayes.backends.numpyro import numpyro_model

    with jax.enable_x64(True):
        run = numpyro_model(model, data, layout=layout)
        arrays = {name: x.values for name, x in values.items()}
        sites = handlers.trace(handlers.substitute(run, data=arrays)).get_trace()
        return {
            name: float(np.sum(site["fn"].log_prob(site["value"])))
            for name, site in sites.items()
            if site["type"] == "sample"
        }


def _agreement(name: str, expected: list[dict[str, float]], found: list[dict[str, float]]) -> Check:
    worst, where = 0.0, "any variable"
    for one, other in zip(expected, found, strict=True):
        if one.keys() != other.keys():
            odd = ", ".join(sorted(one.keys() ^ other.keys()))
            return Check(name, False, np.inf, f"the variables differ: {odd}")
        for variable, value in one.items():
            gap = abs(other[variable] - value) / max(1.0, abs(value))
            if not gap <= worst:  # NaN too
                worst, where = gap, variable
    text = f"largest relative difference from SciPy, long layout: {worst:.1e} ({where})"
    return Check(name, bool(worst <= DENSITY_TOLERANCE), float(worst), text)


def _against_pymc(
    model: ModelFile, data: xr.Dataset, points: list[Values], witness: list[dict[str, float]]
) -> list[Check]:
    """Compare densities on the natural scale and gradients on the unconstrained one."""
    import jax
    import pytensor.gradient

    from measurebayes.backends.numpyro import numpyro_model
    from measurebayes.backends.pymc import pymc_model

    built = pymc_model(model, data)
    latent = [built.rvs_to_values[v] for v in built.free_RVs]
    names = [v.name for v in built.free_RVs]
    terms = [term.sum() for term in built.logp(built.basic_RVs, jacobian=False, sum=False)]
    densities = _compiled(built, terms, latent)
    slopes = _compiled(built, pytensor.gradient.grad(built.logp(), latent), latent)
    found, worst, where = [], 0.0, "any variable"
    with jax.enable_x64(True):
        run = numpyro_model(model, data)
        free_of, gradient_of = _numpyro_unconstrained(run)
        for values in points:
            free = free_of({name: values[name].values for name in names})
            at = [np.asarray(free[name]) for name in names]
            found.append(
                {v.name: float(x) for v, x in zip(built.basic_RVs, densities(*at), strict=True)}
            )
            expected = gradient_of(free)
            for name, slope in zip(names, slopes(*at), strict=True):
                size = max(1.0, float(np.max(np.abs(expected[name]))))
                gap = float(np.max(np.abs(slope - expected[name]))) / size
                if not gap <= worst:
                    worst, where = gap, name
    text = f"largest relative difference of NumPyro and PyMC: {worst:.1e} ({where})"
    return [
        _agreement("PyMC density", witness, found),
        Check("gradients", bool(worst <= GRADIENT_TOLERANCE), float(worst), text),
    ]


def _compiled(built: Any, outputs: list[Any], inputs: list[Any]) -> Callable[..., list[Any]]:
    """Compile for few calls: all rewrites, which keep the tails right, but no machine code."""
    from pytensor.compile.mode import Mode

    # The Python linker takes no fused operation of more than 32 operands.
    mode = Mode(linker="py", optimizer="fast_run").excluding("fusion")
    return built.compile_fn(outputs, inputs=inputs, point_fn=False, mode=mode)


def _numpyro_unconstrained(run: Callable[..., None]) -> tuple[Callable, Callable]:
    import jax
    from numpyro.infer.util import potential_energy, unconstrain_fn

    gradient = jax.jit(jax.grad(lambda free: -potential_energy(run, (), {}, free)))

    def free_of(values: dict[str, np.ndarray]) -> dict[str, Any]:
        return unconstrain_fn(run, (), {}, values)

    return free_of, gradient
