"""Simulation-based calibration: do model and sampler together recover their own priors.

Parameters are drawn from the prior, data given them, and the model is fitted to these data. The
rank of each true value among thinned posterior draws is then uniform when model text, sampler and
bookkeeping are right [1]_. The joint log-likelihood is ranked as well: it notices posteriors that
ignore the data, which the ranks of the parameters alone do not [2]_. Loadings and traits that only
a rotation tells apart have no true values; log odds of some cells, their products, are ranked.

References
----------
.. [1] Talts, Betancourt, Simpson, Vehtari, Gelman (2018). Validating Bayesian inference algorithms
   with simulation-based calibration. arXiv:1804.06788
.. [2] Modrák, Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman, Vehtari (2023). Simulation-based
   calibration checking for Bayesian computation: the choice of test quantities shapes
   sensitivity. Bayesian Analysis. doi:10.1214/23-BA1404
"""

import inspect
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.checks.convergence import comparable, scalars
from measurebayes.checks.finished import Finished
from measurebayes.checks.replicates import check_replicates
from measurebayes.checks.studies import run_tasks
from measurebayes.checks.uniformity import chi_square_p, ecdf_p, holm, pooled_p, rank_of
from measurebayes.data.schema import check_is_dataset
from measurebayes.errors import InputError

LOG_LIKELIHOOD, LOG_ODDS = "log_likelihood", "log_odds"
CELLS_RANKED = 8  # whose log odds are ranked where parameters can't be
RHAT_LIMIT = 1.05  # the runs are short, and R-hat of a short run is noisy
REFITS = 2  # each with twice the draws of the one before


@dataclass(frozen=True, eq=False)
class Calibration:
    """Result of `calibrate`.

    Attributes
    ----------
    ranks : xr.DataArray
        Dims (replication, parameter), whole numbers 0 to `largest`; coordinate `variable` on
        parameter names the vector a scalar belongs to.
    largest : int
        L: the number of nearly independent posterior draws that each rank was taken among.
    table : pd.DataFrame
        Index test: each parameter, and ``variable[all]`` for the elements of a vector together.
        Columns variable, p (envelope of the empirical distribution; Hotelling's T^2 for a vector
        together), p_chi_square, p_holm (adjusted over all rows of the table).
    diagnostics : pd.DataFrame
        Index replication; columns rhat, ess_bulk (worst of all parameters), divergences, draws.
    model : str
    seed : int
    """

    ranks: xr.DataArray
    largest: int
    table: pd.DataFrame
    diagnostics: pd.DataFrame
    model: str
    seed: int

    @property
    def unconverged(self) -> int:
        """Replications with R-hat over 1.05, a divergence, or fewer effective draws than L.

        Their ranks are kept: leaving them out would select on the data.
        """
        d = self.diagnostics
        bad = (d["rhat"] > RHAT_LIMIT) | (d["divergences"] > 0) | (d["ess_bulk"] < self.largest)
        return int((bad | d["rhat"].isna()).sum())

    def uniform(self, level: float = 0.01) -> bool:
        """Whether no test rejects at this level, Holm's correction over all tests of the table."""
        return bool(self.table["p_holm"].min() >= level)

    def summary(self) -> dict[str, Any]:
        """Numbers for JSON: model, replications, draws, unconverged, smallest p, worst, uniform."""
        worst = str(self.table["p_holm"].idxmin())
        return {
            "model": self.model,
            "seed": self.seed,
            "replications": self.ranks.sizes["replication"],
            "draws": self.largest,
            "unconverged": self.unconverged,
            "tests": len(self.table),
            "worst": worst,
            "p_holm": float(self.table["p_holm"].min()),
            "uniform": self.uniform(),
        }


class _Task(NamedTuple):
    """All that one replication needs; picklable."""

    model: str
    design: xr.Dataset
    priors: Mapping[str, float] | None
    seed: int
    replication: int
    largest: int
    options: dict[str, Any]


class Outcome(NamedTuple):
    """What one replication gives back."""

    replication: int
    names: Sequence[str]
    ranks: np.ndarray
    diagnostics: dict[str, float]


def calibrate(
    model: Any,
    data_design: xr.Dataset,
    replications: int = 200,
    executor: Executor | None = None,
    seed: int = 1,
    draws: int = 500,
    tune: int = 500,
    chains: int = 2,
    priors: Mapping[str, float] | None = None,
    progress: bool = True,
    ranked_among: int = 99,
    checkpoint: str | Path | None = None,
    **fit_options: Any,
) -> Calibration:
    """Check a model and its sampler by simulation-based calibration.

    Parameters
    ----------
    model : str or ModelFile
        Name or path of a model, options included.
    data_design : xr.Dataset
        Agents, tasks and attempts to simulate; its successes are not used. Small designs with a
        few attempts a cell are best.
    replications : int
        Number of simulated data sets.
    executor : concurrent.futures.Executor, optional
        Runs the replications; one after another in this process without it. Each replication
        has random numbers of its own, so the result doesn't depend on the executor.
    seed : int
    draws, tune, chains : int
        Of each fit. A fit with fewer effective draws than `ranked_among` is repeated with twice the
        draws, at most twice.
    priors : mapping, optional
        Numbers that replace those of the model's PRIORS, in simulation and fit alike.
    progress : bool
    ranked_among : int
        L: number of thinned draws that the truth is ranked among; ranks are 0..L.
    checkpoint : str or Path, optional
        File to which each replication is added when it is done, and from which those of the same
        study that are there are taken.
    **fit_options
        Passed to `measurebayes.fit`, e.g. backend; or options of the model.

    Returns
    -------
    Calibration

    Raises
    ------
    InputError
        For fewer than 2 replications or more ranked draws than there are draws; or for a
        checkpoint that is no file of results.
    ExecutorError
        Processes of the executor were killed. Results that were done are kept.
    """
    check_is_dataset(data_design)
    check_replicates(replications, "replications")
    if replications < 2:
        raise InputError(
            f"{replications} replications",
            where="replications",
            expected="at least 2, better 200",
            remedy="pass replications=200",
        )
    if not 1 <= ranked_among <= draws * chains:
        raise InputError(
            f"the truth is to be ranked among {ranked_among} of {draws * chains} draws",
            where="ranked_among",
            expected=f"1 to draws * chains = {draws * chains}",
            remedy=f"pass ranked_among={min(99, draws * chains)} or more draws",
        )
    chosen, passed_on = _chosen(model, fit_options)
    options = {"draws": draws, "tune": tune, "chains": chains, **passed_on}
    tasks = [
        _Task(chosen.reference, data_design, priors, seed, i, ranked_among, options)
        for i in range(replications)
    ]
    finished = Finished(["calibrate", chosen.sha256], checkpoint)
    done = run_tasks(run_replication, tasks, executor, "Calibrating", progress, finished)
    outcomes = [Outcome(*one) for one in done]
    return summarise(outcomes, ranked_among, chosen.label, seed)


def _chosen(model: Any, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the model with its options, and the arguments that are for `fit`."""
    from measurebayes.inference.fitting import fit
    from measurebayes.program.registry import get_model

    own = inspect.signature(fit).parameters.keys() - {"options"}
    options = {name: value for name, value in arguments.items() if name not in own}
    passed_on = {name: value for name, value in arguments.items() if name in own}
    return get_model(model, **options), passed_on


def run_replication(task: _Task) -> Outcome:
    """Simulate, fit and rank once; a module-level function, so that processes can run it."""
    from measurebayes.backends import evaluate
    from measurebayes.backends.simulate import prior_data
    from measurebayes.inference.rotation import AXES
    from measurebayes.program.registry import get_model

    rng = np.random.default_rng([task.seed, task.replication])
    model = get_model(task.model)
    truth, data = prior_data(model, task.design, rng, priors=task.priors)
    posterior, diagnostics = _fit_until_long_enough(model, data, task, int(rng.integers(2**31)))
    drawn = {str(name): posterior[name] for name in posterior.data_vars}
    known = {name: value for name, value in truth.items() if name in comparable(posterior)}
    added = {LOG_LIKELIHOOD: evaluate.log_likelihood(model, data, drawn).sum("cell")}
    known[LOG_LIKELIHOOD] = evaluate.log_likelihood(model, data, truth).sum("cell")
    if AXES in posterior:  # what the truth has of one orientation, the draws have of another
        known = {name: value for name, value in known.items() if name not in model.rotated}
        some = data.isel(cell=slice(None, None, max(1, data.sizes["cell"] // CELLS_RANKED)))
        added[LOG_ODDS] = evaluate.cell_logits(model, some, drawn)
        known[LOG_ODDS] = evaluate.cell_logits(model, some, truth)
    everything = posterior.assign(added)
    single = xr.Dataset(known).expand_dims(chain=1, draw=1)
    names, true_values = scalars(single)
    same_names, values = scalars(everything[list(known)])
    if names != same_names:  # labels are the same, so only a broken fit can do this
        raise AssertionError(f"the fit names {same_names}, the simulation {names}")
    at = thinned(values.shape[1], values.shape[2], task.largest)
    kept = values.reshape(len(names), -1)[:, at]
    ranks = [rank_of(t, row, rng) for t, row in zip(true_values.ravel(), kept, strict=True)]
    return Outcome(task.replication, names, np.array(ranks), diagnostics)


def _fit_until_long_enough(
    model: Any, data: xr.Dataset, task: _Task, seed: int
) -> tuple[xr.Dataset, dict[str, float]]:
    """Fit; while the worst effective sample size is under L, fit again with twice the draws."""
    from measurebayes.checks.convergence import diagnostics
    from measurebayes.inference import fit

    options = dict(task.options)
    for attempt in range(REFITS + 1):
        # a chain that got stuck would get stuck again with the same seed
        again = seed + attempt
        own: dict[str, Any] = {"progress": False, "unconnected": "fit"}  # priors are part of it
        result = fit(model, data, seed=again, priors=task.priors, **own, **options)
        posterior = result["posterior"].to_dataset()
        found = diagnostics(comparable(posterior))
        worst = float(np.min(list(found["ess_bulk"].values())))
        if worst >= task.largest or attempt == REFITS:
            break
        options["draws"] *= 2
    return posterior, {
        "rhat": float(np.max(list(found["rhat"].values()))),
        "ess_bulk": worst,
        "divergences": _divergences(result),
        "draws": options["draws"],
    }


def _divergences(fit: xr.DataTree) -> float:
    if "sample_stats" not in fit.children or "diverging" not in fit["sample_stats"]:
        return 0.0
    return float(np.sum(fit["sample_stats"].to_dataset()["diverging"].values))


def thinned(chains: int, draws: int, number: int) -> np.ndarray:
    """Positions of `number` evenly spaced draws in chains laid end to end, shape (number,)."""
    return (np.arange(number) * (chains * draws) // number).astype(int)


def summarise(outcomes: list[Outcome], largest: int, model: str, seed: int) -> Calibration:
    """Test the ranks of all replications for uniformity.

    Parameters
    ----------
    outcomes : list of Outcome
        In the order of replications.
    largest : int
        L.
    model : str
    seed : int

    Returns
    -------
    Calibration
    """
    names = outcomes[0].names
    ranks = np.stack([outcome.ranks for outcome in outcomes])
    variables = np.array([name.split("[", 1)[0] for name in names], dtype=str)
    rows = {
        name: (variable, ecdf_p(column, largest), chi_square_p(column, largest))
        for name, variable, column in zip(names, variables, ranks.T, strict=True)
    }
    for variable in dict.fromkeys(variables.tolist()):
        elements = ranks[:, variables == variable]
        if elements.shape[1] > 1:
            rows[f"{variable}[all]"] = (variable, pooled_p(elements, largest), float("nan"))
    columns = ["variable", "p", "p_chi_square"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    table.index.name = "test"
    table["p_holm"] = holm(table["p"].to_numpy())
    array = xr.DataArray(
        ranks,
        dims=("replication", "parameter"),
        coords={
            "parameter": np.array(names, dtype=str),
            "variable": ("parameter", variables),
            "replication": [outcome.replication for outcome in outcomes],
        },
        name="rank",
    )
    diagnostics = pd.DataFrame([outcome.diagnostics for outcome in outcomes])
    diagnostics.index = pd.Index(array["replication"].values, name="replication")
    return Calibration(array, largest, table, diagnostics, model, seed)


def plot_ranks(result: Calibration, variables: list[str] | None = None, columns: int = 4) -> Any:
    """Draw rank histograms, the elements of a vector together, with the range of chance.

    The grey band holds 99 % of the counts of a bin when ranks are uniform and, for vectors, when
    elements are independent (they are not quite, so single bins may leave it a little more often).

    Parameters
    ----------
    result : Calibration
    variables : list of str, optional
        Which variables; all by default.
    columns : int
        Histograms in a row.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure
    from scipy import stats

    from measurebayes.checks.uniformity import bins_for

    owner = result.ranks["variable"].values
    shown = variables or list(dict.fromkeys(owner.tolist()))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(3 * columns, 2.2 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    bins = bins_for(result.ranks.sizes["replication"], result.largest)
    edges = np.linspace(-0.5, result.largest + 0.5, bins + 1)
    for axis, variable in zip(axes, shown, strict=False):
        values = result.ranks.values[:, owner == variable].ravel()
        chance = stats.binom(len(values), 1 / bins)
        axis.axhspan(chance.ppf(0.005), chance.ppf(0.995), color="0.85")
        axis.hist(values, bins=edges, color="#3b6ea5", edgecolor="white", linewidth=0.5)
        axis.set(title=variable, xlabel="rank", yticks=[])
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    return figure
