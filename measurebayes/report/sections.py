"""Gathers what the page shows: plain values for the templates, figures as SVG."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.checks.approximation import approximation_rows, doubt, is_approximate
from measurebayes.errors import InputError
from measurebayes.report import convergence, curves, plots
from measurebayes.report.citations import citations
from measurebayes.report.compared import comparison_context
from measurebayes.report.dependence import dependence_context, pairs_context
from measurebayes.report.dimensions import dimensions_context, dimensions_of
from measurebayes.report.families import families_context
from measurebayes.report.figure import to_svg
from measurebayes.report.horizons import horizons_context
from measurebayes.report.priors import priors_context
from measurebayes.report.quantity import quantity_context
from measurebayes.report.summary import (
    counts_table,
    data_of,
    draws_table,
    first_ranks,
    has_each,
    interval_table,
    json_attribute,
    model_words,
    posterior_of,
)
from measurebayes.report.text import interval, is_time, number, shown, time_of, times, unit_of

if TYPE_CHECKING:
    from measurebayes.checks.cancellation import Cancellation

AGENTS_BY_STATUS = 50  # in the table of records by status
MOST_ROWS = 2000  # of a table on the page
INTERVALS = "50\u202f% and 95\u202f% intervals"
CHECK_COLUMNS = ("name", "passed", "value", "text")


def page_context(
    fits: Mapping[str, xr.DataTree],
    comparison: pd.DataFrame | None = None,
    checks: pd.DataFrame | Mapping[str, pd.DataFrame] | None = None,
    cancellation: Cancellation | None = None,
) -> dict[str, Any]:
    """Return everything that the template ``report.html`` needs.

    Parameters
    ----------
    fits : mapping of str to DataTree
    comparison, checks, cancellation
        As in `measurebayes.report.report`.
    """
    tables = _checks_by_name(fits, checks)
    models = [
        model_context(place, name, fit, tables[name])
        for place, (name, fit) in enumerate(fits.items(), 1)
    ]
    doubtful = [model["name"] for model in models if model["failures"]]
    compared = comparison_context(fits, comparison, doubtful)
    return {
        "title": "Measurement report: " + ", ".join(fits),
        "models": models,
        "unconverged": [model for model in models if model["failures"]],
        "data": data_contexts(fits),
        "comparison": compared,
        "dependence": dependence_context(fits, doubtful),
        "pairs": pairs_context(fits, doubtful),
        "quantity": quantity_context(fits, cancellation),
        "dimensions": dimensions_context(fits, doubtful),
        "families": families_context(fits, doubtful),
        "horizons": horizons_context(fits, doubtful),
        "citations": citations(fits.values(), compared=bool(compared and compared["rows"])),
    }


def _checks_by_name(fits: Mapping[str, xr.DataTree], checks: Any) -> dict[str, pd.DataFrame]:
    if isinstance(checks, pd.DataFrame):
        if len(fits) != 1:
            raise InputError(
                f"one table of checks for {len(fits)} fits",
                where="checks",
                expected="a mapping from the name of each fit to its table of checks",
                remedy='checks={"rasch": mb.check(rasch), ...}, or leave checks out',
            )
        checks = dict.fromkeys(fits, checks)
    given = dict(checks or {})
    return {name: _check_table(name, fit, given.get(name)) for name, fit in fits.items()}


def _check_table(name: str, fit: xr.DataTree, table: pd.DataFrame | None) -> pd.DataFrame:
    if table is None:
        from measurebayes.checks import check

        table = check(fit)
    missing = [column for column in CHECK_COLUMNS if column not in table]
    if missing:
        raise InputError(
            f"no column {', '.join(missing)}",
            where=f"the table of checks of {name}",
            expected="the columns " + ", ".join(CHECK_COLUMNS),
            remedy="pass what mb.check(fit) returned",
        )
    return table


def data_contexts(fits: Mapping[str, xr.DataTree]) -> list[dict[str, Any]]:
    """Summarise the data of the fits, each distinct data set once."""
    from measurebayes.data import summarise
    from measurebayes.data.summary import status_rows, status_words

    found: dict[str, dict[str, Any]] = {}
    for name, fit in fits.items():
        summary = summarise(data_of(fit))
        summary |= {
            "status_rows": status_rows(summary, AGENTS_BY_STATUS),
            "status_words": status_words(summary),
        }
        found.setdefault(summary["fingerprint"], {**summary, "fits": []})["fits"].append(name)
    return list(found.values())


def model_context(place: int, name: str, fit: xr.DataTree, checks: pd.DataFrame) -> dict[str, Any]:
    """Gather one model's part of the page."""
    model = model_words(fit)
    approximate = is_approximate(fit)
    worst = convergence.worst_parameters(fit) if not approximate else pd.DataFrame({"name": []})
    return {
        "id": f"model-{place}",
        "name": name,
        "title": model.title,
        "sections": {head: _paragraphs(body) for head, body in model.sections.items()},
        "equation": model.equations,
        "options": ", ".join(f"{option} = {value}" for option, value in model.options.items()),
        "priors": priors_context(fit, model.source),
        "population": _scalars(fit),
        "agents": _entries(fit, "agent", ("ability", "log2_horizon")),
        "tasks": _entries(fit, "task", ("difficulty",)),
        "horizons": has_each(fit, "log2_horizon", "agent"),
        "dimensions": dimensions_of(fit),
        "lead": _lead(fit) if has_each(fit, "ability", "agent") else "",
        "figures": _figures(name, fit, list(worst["name"])[: convergence.RANKED]),
        "checks": [_check_row(row) for row in checks.to_dict("records")],
        "failures": _failures(fit, checks),
        "doubt": doubt(fit),
        "approximation": " ".join(row.text for row in approximation_rows(fit))
        if approximate
        else "",
        "misfit": _misfit(checks),
        "worst": worst.to_dict("records"),
        "chains": convergence.chains_table(fit).to_dict("records"),
        "provenance": _provenance(fit),
        "source": model.source,
    }


def _paragraphs(body: str) -> list[str]:
    return [" ".join(part.split()) for part in body.split("\n\n") if part.strip()]


def _check_row(row: Mapping[Any, Any]) -> dict[str, Any]:
    value = float(row["value"])
    # A p value of 0 has decimals, a count of 0 has none.
    whole = abs(value) >= 10 or (value.is_integer() and not str(row["name"]).startswith("pred"))
    return {
        "name": str(row["name"]),
        "passed": bool(row["passed"]),
        "value": number(value, 0 if whole else 3),
        "text": str(row["text"]),
    }


def _failures(fit: xr.DataTree, checks: pd.DataFrame) -> list[str]:
    """Return why the draws can't be trusted: failed convergence checks, whoever made the table."""
    rows = checks[checks["name"].isin(convergence.TRUST)]
    if rows.empty:
        from measurebayes.checks.convergence import convergence as judge
        from measurebayes.checks.convergence import failures

        return [row.text for row in failures(judge(fit))]
    return [str(text) for text in rows.loc[~rows["passed"].astype(bool), "text"]]


def _misfit(checks: pd.DataFrame) -> list[str]:
    """Return what the model does not reproduce: failed checks other than of convergence."""
    others = checks[~checks["name"].isin(convergence.TRUST) & ~checks["passed"].astype(bool)]
    return [str(text) for text in others["text"]]


def _scalars(fit: xr.DataTree) -> list[dict[str, Any]]:
    posterior = posterior_of(fit)
    names = [str(n) for n, v in posterior.data_vars.items() if set(v.dims) == {"chain", "draw"}]
    if not names:
        return []
    draws = np.stack([posterior[n].transpose("chain", "draw").values.ravel() for n in names])
    table, model = draws_table(draws, names), str(fit.attrs.get("model", ""))
    table["unit"] = [unit_of(name, model) for name in names]
    return table.to_dict("records")  # type: ignore[return-value]


def _entries(fit: xr.DataTree, dim: str, main: Sequence[str]) -> dict[str, Any]:
    """Return the table of agents or tasks: every variable of that dim, sorted by a main one."""
    data = data_of(fit)
    variables = [str(n) for n in posterior_of(fit).data_vars if has_each(fit, str(n), dim)]
    variables.sort(key=lambda name: name not in main)
    rows = counts_table(data, dim)
    rows["name"] = data[dim].values
    rows = rows.join(_labels_of(data, dim))
    for variable in variables:
        table = interval_table(fit, variable, dim)
        rows[variable] = table["mean"]
        rows[f"{variable} interval"] = [
            interval(low, high) for low, high in zip(table["low95"], table["high95"], strict=True)
        ]
        if is_time(variable):
            rows[f"{variable} time"] = table["median"].map(time_of)
            rows[f"{variable} times"] = list(map(times, table["low95"], table["high95"]))
    column, order = _order(rows, dim, variables)
    if column:
        rows = rows.sort_values(column, ascending=False, kind="stable")
    extra = [column for column in ("family", "minutes", "released") if column in rows]
    return {
        "variables": variables,
        "order": order,
        "extra": extra,
        "total": len(rows),
        "rows": rows.head(MOST_ROWS).to_dict("records"),
        "states": rows["state"].value_counts().drop("", errors="ignore").to_dict(),
    }


def _order(rows: pd.DataFrame, dim: str, variables: Sequence[str]) -> tuple[str, str]:
    """Return the column that a table is sorted by, the largest first, and the order in words."""
    if variables:
        return variables[0], f"by mean {variables[0].replace('_', ' ')}, highest first"
    if dim == "task" and "minutes" in rows:
        return "minutes", "by human time, longest first"
    if dim == "agent":
        return "rate", "by share of successes, highest first"
    return "", "in the order of the data"


def _labels_of(data: xr.Dataset, dim: str) -> pd.DataFrame:
    """Return what is known of agents or tasks besides counts; columns without content are out."""
    if dim == "agent":
        dates = pd.Series(data["release_date"].values)
        days = dates.dt.strftime("%Y-%m-%d").fillna("")
        return pd.DataFrame({"released": days} if dates.notna().any() else {}, index=days.index)
    columns: dict[str, Any] = {}
    if "families" not in data.attrs:
        columns["family"] = data["family"].values[data["family_index"].values]
    if np.isfinite(data["human_minutes"].values).any():
        columns["minutes"] = data["human_minutes"].values
    return pd.DataFrame(columns, index=range(data.sizes["task"]))


def _lead(fit: xr.DataTree) -> str:
    """Say which agent leads and how surely."""
    table = interval_table(fit, "ability", "agent")
    best = int(table["mean"].argmax())
    row, chance = table.iloc[best], first_ranks(fit)[best]
    if chance < 0.5:
        return (
            f"No agent is clearly the ablest of {len(table)}: the highest mean ability is "
            f"{number(row['mean'])} logits (95\u202f% interval "
            f"{interval(row['low95'], row['high95'])}), and the probability that this agent, "
            f"{shown(row['name'])}, is the ablest is {_chance(chance)}."
        )
    return (
        f"{shown(row['name'])} has the highest mean ability, {number(row['mean'])} logits "
        f"(95\u202f% interval {interval(row['low95'], row['high95'])}); the probability that it is "
        f"the ablest of the {len(table)} agents is {_chance(chance)}."
    )


def _chance(value: float) -> str:
    # A share of draws can't tell 0.999 from certainty.
    if value < 0.01:
        return "less than 0.01"
    return "more than 0.99" if value > 0.99 else number(value)


def _figures(name: str, fit: xr.DataTree, worst: list[str]) -> dict[str, str]:
    """Draw the figures that the model allows, as SVG by name."""
    agents, tasks = data_of(fit).sizes["agent"], data_of(fit).sizes["task"]
    abilities, difficulties = has_each(fit, "ability", "agent"), has_each(fit, "difficulty", "task")
    both = abilities and difficulties
    timed = bool(np.isfinite(data_of(fit)["human_minutes"].values).all())
    who = f"of model {name}"
    wanted: dict[str, tuple[bool, Callable[..., Any], str]] = {
        "abilities": (
            abilities,
            plots.plot_abilities,
            f"Abilities {who}: {agents} agents, ablest first, with {INTERVALS} in logits. The "
            "table below holds the numbers.",
        ),
        "difficulties": (
            difficulties,
            plots.plot_difficulties,
            f"Difficulties {who}: {tasks} tasks, hardest first, with {INTERVALS} in logits. The "
            "table below holds the numbers.",
        ),
        "icc": (
            both and bool(curves.informative_tasks(fit)),
            curves.plot_icc,
            f"Item characteristic curves {who}: probability of success against ability, with "
            "95\u202f% bands and observed shares of success.",
        ),
        "wright": (
            both,
            plots.plot_wright,
            f"Wright map {who}: abilities of agents and difficulties of tasks on one scale in "
            "logits.",
        ),
        "predictive_agents": (
            True,
            functools.partial(curves.plot_predictive, by="agent"),
            f"Predictive check {who} by agent: observed shares of success over intervals of "
            "replicated data.",
        ),
        "predictive_bands": (
            timed or difficulties,
            curves.plot_predictive,
            f"Predictive check {who} by band of human time or difficulty: observed shares of "
            "success over intervals of replicated data.",
        ),
        "ranks": (
            not is_approximate(fit),
            functools.partial(convergence.plot_ranks, parameters=worst),
            f"Ranks of the draws of each chain {who}, for the parameters with the largest R-hat.",
        ),
    }
    from markupsafe import Markup

    # An XML library wrote the element from its parts, so that names in it are escaped already.
    return {
        key: Markup(to_svg(draw(fit), alternative))
        for key, (possible, draw, alternative) in wanted.items()
        if possible
    }


def _provenance(fit: xr.DataTree) -> list[tuple[str, str]]:
    """Return what is known of how the fit was made, in words and units."""
    attributes = fit.attrs
    rows = [
        ("Made", attributes.get("created", "")),
        ("measurebayes", attributes.get("measurebayes_version", "")),
        ("Backend and method", f"{attributes.get('backend', '')}, {attributes.get('method', '')}"),
        ("Sampler", attributes.get("sampler", "")),
        *_numbers_of_draws(fit),
        ("Seed", attributes.get("seed", "")),
        ("Layout", attributes.get("layout", "")),
        ("Sampling", _seconds(attributes.get("sampling_seconds"))),
        ("Compilation", _seconds(attributes.get("compile_seconds"))),
        (
            "Passes over the data" if is_approximate(fit) else "Gradients, with warm-up",
            _count(attributes.get("gradients")),
        ),
        ("Model file, SHA-256", attributes.get("model_sha256", "")),
        ("Data", attributes.get("data_name", "")),
        ("Data, fingerprint", attributes.get("data_fingerprint", "")),
    ]
    versions = json_attribute(attributes, "versions")
    rows += [(f"Version of {name}", version) for name, version in sorted(versions.items())]
    return [(name, str(value)) for name, value in rows if str(value).strip(" ,")]


def _numbers_of_draws(fit: xr.DataTree) -> list[tuple[str, Any]]:
    sizes = posterior_of(fit).sizes
    if is_approximate(fit):
        return [("Draws, without chains", sizes["chain"] * sizes["draw"])]
    return [
        ("Chains", sizes["chain"]),
        ("Draws a chain", sizes["draw"]),
        ("Warm-up draws a chain", fit.attrs.get("tune", "")),
    ]


def _seconds(value: Any) -> str:
    return "" if value is None else f"{number(value, 1)} s"


def _count(value: Any) -> str:
    return "" if value is None else number(value, 0)
