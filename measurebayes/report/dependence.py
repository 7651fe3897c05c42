"""The sections "Do tasks go together?" and "Agent against agent": what a model misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.checks.dependence import LocalDependence, local_dependence, suspect_tasks
from measurebayes.checks.dependence.misfit import fitness_tables
from measurebayes.checks.dependence.result import MEASURES
from measurebayes.errors import MeasureBayesError
from measurebayes.estimands.pairs import ablest, agent_pairs
from measurebayes.report.plots import MOST_LABELLED
from measurebayes.report.summary import data_of, has_each
from measurebayes.report.text import UNKNOWN, interval, is_time, number, shown, unit_of

REPLICATES, LEAST = 200, 60
WORK = 5e8  # agents x tasks x tasks of all replicates together, the price of Q3
MOST_LISTED = 25  # pairs of tasks, families, tasks with a note, pairs of agents in doubt
MOST_ROWS = 2000  # agents in a table
MOST_AGENTS = 150  # of whom all pairs are compared; of more, the ablest
SURE = 0.975


def dependence_context(
    fits: Mapping[str, xr.DataTree], doubtful: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what the section shows: one item a fit, and plain success rates a data set.

    Parameters
    ----------
    fits : mapping of str to DataTree
    doubtful : sequence of str
        Names of fits that have not converged.

    Returns
    -------
    dict
        ``items``, one a fit: name, doubtful, problem (why there is nothing to show), lead,
        measures, families, pairs, misfit, suspects, figure; and ``rates``, by distinct data.
    """
    from measurebayes.data import fingerprint

    items, rates, seen = [], [], set()
    for name, fit in fits.items():
        try:
            result = local_dependence(fit, _replicates(data_of(fit)))
            tables = fitness_tables(fit, ("task", "agent"), result.replicates)
        except MeasureBayesError as error:
            items.append(
                {"name": name, "doubtful": name in doubtful, "problem": shown(error.found)}
            )
            continue
        mark = fingerprint(data_of(fit))
        items.append(
            {
                "name": name,
                "doubtful": name in doubtful,
                "problem": "",
                **_found(name, result),
                "misfit": [_misfit(kind, table) for kind, table in tables.items()],
                "suspects": _suspects(fit, mark not in seen),
            }
        )
        if mark not in seen and "families" not in data_of(fit).attrs:
            rates.append({"name": name, "rows": _rates(result)})
        seen.add(mark)
    return {"items": items, "rates": rates, "several": len(rates) > 1}


def _replicates(data: xr.Dataset) -> int:
    work = data.sizes["agent"] * data.sizes["task"] ** 2
    return int(np.clip(WORK / max(work, 1), LEAST, REPLICATES))


def _found(name: str, result: LocalDependence) -> dict[str, Any]:
    from markupsafe import Markup

    from measurebayes.report.dependence_figures import plot_dimensions
    from measurebayes.report.figure import to_svg

    figure: Any = ""
    if result.residual_dimensions:  # else the sentence says it all
        words = (
            f"Residual dimensions of model {name}: share of the residual variance of data and of "
            "replicates."
        )
        figure = Markup(to_svg(plot_dimensions(result), words))
    return {
        "lead": result.text(),
        "dimensions": _dimension_words(result),
        "measures": [_measure(str(key), row) for key, row in result.measures.iterrows()],
        "families": [_family(row) for row in result.families.head(MOST_LISTED).to_dict("records")],
        "families_total": len(result.families),
        "pairs": [_pair(row) for row in result.pairs.head(MOST_LISTED).to_dict("records")],
        "pairs_total": len(result.pairs),
        "replicates": result.replicates,
        "figure": figure,
    }


def _dimension_words(result: LocalDependence) -> str:
    found, most = result.residual_dimensions, len(result.dimensions)
    if not most:
        return ""
    if not found:
        return "What is left behind has no direction that noise does not have too."
    count = f"at least {found} directions" if found == most else f"{found} direction"
    return (
        f"What is left behind has {count}{'s' if 1 < found < most else ''} that noise does not "
        "have: agents differ in more than the model has."
    )


def _measure(key: str, row: Any) -> dict[str, str]:
    return {
        "name": MEASURES[key],
        "observed": number(row["observed"], 3),
        "expected": interval(row["low"], row["high"], 3),
        "p": chance(row["p"]),
    }


def chance(p: float) -> str:
    """Write a share of replicates: few of them can't tell 0.001 from nothing."""
    if not np.isfinite(p):
        return UNKNOWN
    if p < 0.005:
        return "<\u202f0.005"
    return ">\u202f0.995" if p > 0.995 else number(p, 3)


def _family(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        "name": row["family"],
        "cells": [
            number(row["tasks"], 0),
            f"{row['unanimous']} of {row['groups']}",
            number(row["unanimous_expected"], 1),
            chance(row["unanimous_p"]),
            number(row["design_effect"]),
            chance(row["design_effect_p"]),
            number(row["q3"]),
        ],
    }


def _pair(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        "names": (row["task"], row["other"]),
        "same": "same" if row["same_family"] else "other",
        "q3": number(row["q3"]),
        "p": chance(row["p"]),
    }


def _misfit(kind: str, table: pd.DataFrame) -> dict[str, Any]:
    noted = table[table["note"] != ""]
    rows = noted.head(MOST_LISTED) if kind == "task" else table.head(MOST_ROWS)
    return {
        "kind": kind,
        "noted": len(noted),
        "total": len(table),
        "expected": number(0.03 * len(table), 1),
        "rows": [
            {
                "name": row[kind],
                "rate": row["rate"],
                "cells": [
                    number(row["infit"]),
                    interval(row["infit_low"], row["infit_high"]),
                    chance(row["infit_p"]),
                    number(row["outfit"]),
                    chance(row["outfit_p"]),
                ],
                "note": row["note"],
            }
            for row in rows.to_dict("records")
        ],
    }


def _suspects(fit: xr.DataTree, first: bool) -> dict[str, Any]:
    """Tasks with a note; of fits that can't see them only once a data set."""
    table = suspect_tasks(fit)
    signed = "p_negative" in table
    noted = table[table["note"] != ""]
    rows = []
    for row in noted.head(MOST_LISTED).to_dict("records"):
        cells = [number(row["rate"]), number(row["item_rest"]), chance(row["item_rest_p"])]
        if signed:
            cells += [chance(row["p_negative"]), interval(row["low"], row["high"])]
        rows.append({"name": row["task"], "cells": cells, "note": row["note"]})
    return {"shown": signed or first, "signed": signed, "noted": len(noted), "rows": rows}


def _rates(result: LocalDependence) -> list[dict[str, Any]]:
    return [
        {
            "name": row["agent"],
            "cells": [
                number(row["rate"], 3),
                interval(row["low"], row["high"], 3),
                interval(row["low_tasks"], row["high_tasks"], 3),
                number(row["design_effect"]),
                f"{number(row['effective_tasks'], 0)} of {row['tasks']}",
            ],
        }
        for row in result.rates.head(MOST_ROWS).to_dict("records")
    ]


def pairs_context(
    fits: Mapping[str, xr.DataTree], doubtful: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return what the section "Agent against agent" shows, one item a fit with abilities.

    Parameters
    ----------
    fits, doubtful
        As for `dependence_context`.
    """
    found = []
    for name, fit in fits.items():
        variable = next((v for v in ("ability", "log2_horizon") if has_each(fit, v, "agent")), "")
        if variable and data_of(fit).sizes["agent"] >= 2:
            found.append(_pairs(name, fit, variable, name in doubtful))
    return found


def _probability(value: float) -> str:
    return "more than 0.99" if value > 0.99 else number(value)


def _pairs(name: str, fit: xr.DataTree, variable: str, doubtful: bool) -> dict[str, Any]:
    from markupsafe import Markup

    from measurebayes.report.dependence_figures import plot_pairs
    from measurebayes.report.figure import to_svg

    agents = data_of(fit).sizes["agent"]
    few = ablest(fit, MOST_LABELLED if agents > MOST_AGENTS else agents, variable)
    table = agent_pairs(fit, variable, agents=few)
    unit = "doublings" if is_time(variable) else unit_of(variable)
    unsure = table[table["p_greater"] < SURE]
    best = table.iloc[0]
    words = (
        f"Matrix of agents of model {name}: probability that the agent of the row has the higher "
        f"{variable.replace('_', ' ')} than that of the column."
    )
    of_whom = f"the {len(few)} ablest agents" if len(few) < agents else "agents"
    lead = (
        f"{len(table) - len(unsure)} of {len(table)} pairs of {of_whom} are told apart with "
        f"probability {SURE}. {shown(best['one'])} is ahead of {shown(best['other'])} by "
        f"{number(best['difference'])} {unit} (95\u202f% interval "
        f"{interval(best['low'], best['high'])}); the probability that it is ahead at all is "
        f"{_probability(best['p_greater'])}."
    )
    return {
        "name": name,
        "doubtful": doubtful,
        "lead": lead,
        "unit": unit,
        "variable": variable.replace("_", " "),
        "agents": agents,
        "drawn": min(agents, MOST_LABELLED),
        "unsure": len(unsure),
        "rows": [
            {
                "names": (row["one"], row["other"]),
                "cells": [
                    number(row["p_greater"], 3),
                    number(row["difference"]),
                    interval(row["low"], row["high"]),
                ],
            }
            for row in unsure.head(4 * MOST_LISTED).to_dict("records")
        ],
        "figure": Markup(to_svg(plot_pairs(fit, variable), words)),
    }
