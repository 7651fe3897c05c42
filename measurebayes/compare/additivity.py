"""Do ability and length add up? An additive surface of success against any monotone one, no bands.

Both surfaces say how success depends on an agent's ability and on a continuous property of tasks.
In both, success rises with ability and falls with that property: single cancellation holds. In the
additive one the two add up in logits; in the monotone one they need not. They are compared by how
well they predict families of tasks that were left out, and by posterior prediction of violations
of double cancellation.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.checks.cancellation.arrange import MOST_REPLICATES, check_numbers, part
from measurebayes.checks.cancellation.result import p_text
from measurebayes.compare.attempts import halves
from measurebayes.compare.psis import standard_error
from measurebayes.data.schema import validate
from measurebayes.errors import InputError, did_you_mean, shown

if TYPE_CHECKING:
    from measurebayes.checks.cancellation import Cancellation

MODELS = ("additive", "monotone")
FOLDS = 5
BY = ("minutes", "difficulty")
SETTLED = 0.8  # share of the fits of a surface that must have converged for a conclusion
MIN_ATTEMPTS = 20  # of a rate in the cancellation check; half as many where half the data is used


@dataclass(frozen=True)
class Additivity:
    """An additive and a monotone surface, compared.

    Attributes
    ----------
    by : str
        The property of tasks: ``"minutes"`` or ``"difficulty"``.
    comparison : pd.DataFrame
        Index model, best first: elpd (log predictive density of left-out families, higher is
        better), se, elpd_diff (0 for the best), dse (standard error of the difference, over
        families), converged (share of the fits).
    interaction : dict
        Posterior of the interactions' standard deviation, 0 for additive: median, low, high (95 %).
    cancellation : Cancellation
        Violations of double cancellation in the data, and expected under both posteriors.
    fits : dict of str to DataTree
        The two fits to all data.
    """

    by: str
    comparison: pd.DataFrame
    interaction: dict[str, float]
    cancellation: Cancellation
    fits: Mapping[str, xr.DataTree]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the fits, for JSON."""
        return {
            "by": self.by,
            "comparison": self.comparison,
            "interaction": self.interaction,
            "cancellation": self.cancellation.to_dict(),
            "text": self.text(),
        }

    def text(self) -> str:
        """Say in plain words what was found and how sure it is."""
        return " ".join([*self._prediction(), self._interactions(), self._violations()])

    def _prediction(self) -> list[str]:
        best, other = self.comparison.index
        gap, error = -self.comparison.loc[other, "elpd_diff"], self.comparison.loc[other, "dse"]
        words = (
            f"Families of tasks that were left out are predicted by {gap:.1f} units of log density "
            f"better by the {best} surface than by the {other} one, with standard error "
            f"{error:.1f}."
        )
        if (self.comparison["converged"] < SETTLED).any():
            return [
                words,
                "Too few of the fits converged to draw a conclusion (measurebayes.check of each of "
                "the fits says why).",
            ]
        if gap <= 2 * error:
            verdict = "That is within twice the error, so these data don't tell the two apart."
        elif best == "monotone":
            verdict = (
                f"So how much {self._length} costs depends on who attempts the task, even where "
                "success always rises with ability: ability and difficulty don't add up in logits."
            )
        else:
            verdict = "So nothing is gained by giving up that ability and difficulty add up."
        return [words, verdict]

    def _interactions(self) -> str:
        low, high = (f"{self.interaction[end]:.2f}" for end in ("low", "high"))
        return (
            f"The interactions have standard deviation {self.interaction['median']:.2f} ({low} to "
            f"{high}), 0 being additive; this takes tasks of one {self._length} as equal, and is "
            "therefore surer than it should be."
        )

    def _violations(self) -> str:
        found = self.cancellation
        expected = ", ".join(
            f"{name} {100 * values['rate']:.2f} % ({p_text(values['p'], values['replicates'])})"
            for name, values in found.expected.items()
        )
        return (
            f"Violations of double cancellation: {100 * found.observed['rate']:.2f} % of cases in "
            f"the data; expected: {expected}."
        )

    @property
    def _length(self) -> str:
        return "length" if self.by == "minutes" else "difficulty"

    def __str__(self) -> str:
        """Return the table and the sentences."""
        return f"{self.comparison.to_string()}\n{self.text()}"


def additivity(
    runs: xr.Dataset,
    by: str = "minutes",
    subset: Mapping[str, Any] | None = None,
    bands: int = 6,
    folds: int = FOLDS,
    seed: int = 0,
    replicates: int = 1000,
    executor: Executor | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    **settings: Any,
) -> Additivity:
    """Compare an additive with a monotone surface of success over ability and a task's property.

    Parameters
    ----------
    runs : xr.Dataset
        Data of the schema.
    by : {"minutes", "difficulty"}
        ``"minutes"``: human minutes; tasks without are left out. ``"difficulty"``: estimated by
        ``rasch_ml`` from a random half of the attempts of each cell; the surfaces are fitted to
        the other half, so that no outcome counts twice. Tasks that were always or never solved in
        the first half are left out: only a bound of their difficulty is known.
    subset : mapping, optional
        Passed to `measurebayes.subset`, e.g. ``{"source": "HCAST"}``.
    bands : int
        Of the cancellation check that the posteriors replicate.
    folds : int
        Families are dealt to this many folds at random and left out together; where families are
        unknown, tasks are. No more folds are made than there are families.
    seed : int
        Makes halves, folds and fits reproducible.
    replicates : int
        Of the cancellation check.
    executor : concurrent.futures.Executor, optional
        Where the fits of the folds run; by default one after another.
    progress : bool
        Show bars on standard error.
    checkpoint : str or Path, optional
        File to which what the fits of the folds predicted is added, as for `measurebayes.crossval`.
    **settings
        Passed to `measurebayes.fit`.

    Returns
    -------
    Additivity

    Raises
    ------
    InputError
        An argument can't be used, or no task has minutes.

    References
    ----------
    Scheiblechner (1999). Additive conjoint isotonic probabilistic models. Psychometrika 64.
    doi:10.1007/BF02294297
    """
    from measurebayes.checks import converged
    from measurebayes.checks.cancellation import cancellation
    from measurebayes.compare.crossval import held_out_density
    from measurebayes.inference import fit
    from measurebayes.program.registry import get_model

    validate(runs)
    check_numbers(
        "additivity", folds=(folds, 2), seed=(seed, 0), replicates=(replicates, 1, MOST_REPLICATES)
    )
    data, place = _placed(part(runs, subset), by, seed)
    check = partial(
        cancellation,
        data,
        bands=bands,
        by=place,
        min_attempts=MIN_ATTEMPTS if by == "minutes" else MIN_ATTEMPTS // 2,
        replicates=replicates,
        progress=progress,
    )
    check(against=[])  # bands that can't be made are refused before anything is fitted
    models = {name: get_model(name) for name in MODELS}
    group = data["family_index"].values[data["task_index"].values]
    densities = held_out_density(
        models, data, group, folds, seed, executor, progress, checkpoint=checkpoint, **settings
    )
    fits = {
        name: fit(model, data, seed=seed, progress=progress, **settings)
        for name, model in models.items()
    }
    low, median, high = np.quantile(
        fits["monotone"]["posterior"].to_dataset()["interaction_sd"].values, [0.025, 0.5, 0.975]
    )
    return Additivity(
        by=by,
        comparison=_comparison(densities, [converged(found) for found in fits.values()]),
        interaction={"median": float(median), "low": float(low), "high": float(high)},
        cancellation=check(against=fits),
        fits=fits,
    )


def _placed(runs: xr.Dataset, by: str, seed: int) -> tuple[xr.Dataset, str | xr.DataArray]:
    """Return data in which human minutes are the property, and what bands are made by."""
    from measurebayes.checks.cancellation.tasks import task_values, with_value

    if by == "minutes":
        return with_value(runs, task_values(runs, by))[0], by
    if by != "difficulty":
        raise InputError(
            f"by {shown(by)}",
            where="the arguments of additivity",
            expected="one of " + ", ".join(BY),
            remedy=did_you_mean(str(by), BY) or "by='minutes'",
        )
    first, second = halves(runs, seed)
    difficulty = task_values(first, by)
    # Of a task that was never tried, always solved or never, only a bound of it is known.
    counts = (
        np.bincount(first["task_index"].values, first[name].values, runs.sizes["task"])
        for name in ("attempts", "successes")
    )
    attempts, successes = counts
    mixed = (successes > 0) & (successes < attempts)
    difficulty = difficulty._replace(of_task=np.where(mixed, difficulty.of_task, np.nan))
    data, difficulty = with_value(second, difficulty)
    # The surfaces take log2 minutes: a difficulty in their place is a number of doublings.
    data = data.assign(human_minutes=("task", 2.0**difficulty.of_task))
    return data, xr.DataArray(difficulty.of_task, dims="task", name="difficulty")


def _comparison(densities: xr.Dataset, whole: list[bool]) -> pd.DataFrame:
    elpd = densities["elpd"]
    total = elpd.sum("group").to_series()
    best = str(total.idxmax())
    rows = {
        str(name): {
            "elpd": float(total[name]),
            "se": standard_error(elpd.sel(model=name).values),
            "elpd_diff": float(total[name] - total[best]),
            "dse": standard_error((elpd.sel(model=name) - elpd.sel(model=best)).values),
            "converged": float(np.mean([*densities["converged"].sel(model=name).values, all_data])),
        }
        for name, all_data in zip(densities["model"].values, whole, strict=True)
    }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "model"
    return table.sort_values("elpd", ascending=False)
