"""Local dependence: do tasks go together more than a fitted model says, and which ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.backends.blocks import in_bytes
from measurebayes.checks.dependence.clusters import rates_of
from measurebayes.checks.dependence.design import SUMMARY, Design, Part, replay, summary
from measurebayes.checks.dependence.groups import DesignEffect, Unanimous
from measurebayes.checks.dependence.residuals import Dimensions, TaskPairs
from measurebayes.checks.dependence.result import LocalDependence
from measurebayes.checks.replicates import REPLICATES, check_replicates


def local_dependence(
    fit: xr.DataTree, replicates: int = REPLICATES, memory: int | str | None = None
) -> LocalDependence:
    """Measure whether tasks go together more than a model says, by posterior prediction.

    Every measure is computed for the data and for data replicated from the model, at the same
    posterior draws. Replicates keep the agents', tasks' and (in a testlet model) families'
    parameters, so that the question is whether what the model has explains what the data show.

    Parameters
    ----------
    fit
        Fit of any model.
    replicates
        Posterior draws used, a replicate each; at most the number of draws there are. Which ones,
        and the replicates, follow from the fit's seed.
    memory
        What temporary arrays of draws by cells may take together, such as "2GiB" or "500MB"; 128
        MiB by default. Changes no result. Arrays of tasks by tasks come on top.

    Returns
    -------
    LocalDependence
        Tables measures, pairs, families, dimensions, rates; and `text()`.

    Raises
    ------
    InputError
        `fit` is no fit, its model is not here, there are no attempts, or `replicates` is no whole
        number of 1 or more, or `memory` no size.
    """
    from measurebayes.inference.results import model_of

    model_of(fit)  # says in words when `fit` is no fit
    check_replicates(replicates)
    budget = in_bytes(memory)
    data = fit["data"].to_dataset()
    design, family_of = Design.of(data), data["family_index"].values
    pairs, dimensions = TaskPairs(design, family_of), Dimensions(design)
    parts: list[Part] = [pairs, dimensions]
    families = pd.DataFrame()
    found = {}
    if design.shared:
        unanimous, effect = Unanimous(design), DesignEffect(design)
        replay(fit, replicates, [*parts, unanimous, effect], budget)
        found = {**pairs.measures(), **unanimous.measures(), **effect.measures()}
        families = _families(data, design, unanimous, effect)
        families["q3"] = pairs.family_means(family_of, design.families)[families.index]
        families = families.sort_values(
            ["design_effect_p", "design_effect"], ascending=[True, False], ignore_index=True
        )
    else:
        replay(fit, replicates, parts, budget)
        found = pairs.measures()
    shares = dimensions.shares()
    if len(shares[0]):
        found["first_dimension"] = (shares[0][:, 0], shares[1][:, 0])
    measures = pd.DataFrame.from_dict(
        {name: summary(*values) for name, values in found.items()},
        orient="index",
        columns=SUMMARY,
    ).rename_axis(index="measure")
    tasks = int(np.unique(design.task).size)
    return LocalDependence(
        measures=measures,
        pairs=pairs.table(data["task"].values),
        families=families,
        dimensions=_dimensions(*shares),
        rates=rates_of(data),
        tasks=tasks,
        effective_tasks=_effective(tasks, measures),
        replicates=min(
            replicates, fit["posterior"].sizes["chain"] * fit["posterior"].sizes["draw"]
        ),
    )


def _effective(tasks: int, measures: pd.DataFrame) -> float:
    if "design_effect" not in measures.index:
        return float("nan")
    return tasks / max(1.0, float(measures["observed"]["design_effect"]))


def _families(
    data: xr.Dataset, design: Design, unanimous: Unanimous, effect: DesignEffect
) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "family": data["family"].values.astype(object),
            "tasks": design.family_tasks,
            **unanimous.by_family(),
            **effect.by_family(),
        }
    )
    return table[table["groups"] > 0]


def _dimensions(observed: np.ndarray, replicated: np.ndarray) -> pd.DataFrame:
    rows = [
        {"dimension": k + 1, **summary(observed[:, k], replicated[:, k])}
        for k in range(observed.shape[1] if observed.size else 0)
    ]
    return pd.DataFrame(rows, columns=["dimension", *SUMMARY])
