"""The section "Is it a quantity?": the cancellation check in words, tables and figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from measurebayes.errors import InputError, MeasureBayesError
from measurebayes.report.summary import data_of
from measurebayes.report.text import UNKNOWN, number, shown

if TYPE_CHECKING:
    import pandas as pd

    from measurebayes.checks.cancellation import Cancellation

BANDS = 6
MOST, LEAST = 500, 100  # replicates of each explanation
WORK = 2e7  # cells, or 25 times squared agents, that all replicates may have together
MOST_AGENTS = 200  # of the check that a page makes by itself
MOST_ROWS = 2000  # of a table on the page
VERDICTS = {"more": "more than", "fewer": "fewer than", "within": "within what"}
CUT_AT_RANDOM = ("human minutes", "difficulty")
OTHER_CUTS = (
    "Other cuts can decide otherwise (measurebayes cancellation --cuts 200; docs/cancellation.md)."
)

RULES = {
    "single": "an agent that does at least as well as another in one band does so in all bands, "
    "and a band that is at least as easy as another for one agent is so for all agents",
    "double": "if agent a does at least as well in band y as agent b in band x, and b at least as "
    "well in z as agent c in y, then a does at least as well in z as c in x",
    "triple": "three such relations between four agents and four bands lead to a fourth",
}


def usual_check(fits: Mapping[str, xr.DataTree]) -> Cancellation:
    """Check double cancellation against fits and two point estimates.

    Six bands of equal numbers of tasks: by human minutes where they are known for all attempted
    tasks, else by difficulty. 500 replicates, fewer of large data.

    Parameters
    ----------
    fits : mapping of str to DataTree
        The data are those of the first; fits of other data are no explanations.

    Raises
    ------
    MeasureBayesError
        The data have too few or too many agents, too few bands, or a model can't be evaluated.
    """
    from measurebayes.checks.cancellation import cancellation

    runs = data_of(next(iter(fits.values())))
    agents, cells = runs.sizes["agent"], runs.sizes["cell"]
    if agents > MOST_AGENTS:
        raise InputError(
            f"{agents} agents",
            where="the check that a report makes by itself",
            expected=f"at most {MOST_AGENTS}, as the work grows with their square",
            remedy="mb.report(fits, cancellation=mb.cancellation(runs, against=fits))",
        )
    timed = bool(np.isfinite(runs["human_minutes"].values[runs["task_index"].values]).all())
    estimates = ("rasch_ml", "common_slope") if timed else ("rasch_ml",)
    against: dict[str, Any] = dict(of_the_same_data(fits))
    for name in estimates:
        against[f"{name} (point estimate)" if name in fits else name] = name
    return cancellation(
        runs,
        bands=BANDS,
        by="minutes" if timed else "difficulty",
        against=against,
        replicates=int(np.clip(WORK / max(cells, 25 * agents**2), LEAST, MOST)),
        progress=False,
    )


def of_the_same_data(fits: Mapping[str, xr.DataTree]) -> dict[str, xr.DataTree]:
    """Return the fits of the data that the first one is of."""
    from measurebayes.data import fingerprint

    wanted = fingerprint(data_of(next(iter(fits.values()))))
    return {name: fit for name, fit in fits.items() if fingerprint(data_of(fit)) == wanted}


def finding(result: Cancellation) -> str:
    """Say in a sentence or three what a check found; names are shown, not escaped."""
    from measurebayes.checks.cancellation.result import verdict

    rate = result.observed["rate"]
    if not np.isfinite(rate):
        return result.text()
    if len(result.cuts):
        counts = f"Over {len(result.cuts)} random cuts, {per_cent(rate)} of cases"
    else:
        violations, cases = (number(result.observed[n], 0) for n in ("violations", "cases"))
        counts = f"{violations} of {cases} cases ({per_cent(rate)})"
    verdicts: dict[str, list[str]] = {word: [] for word in VERDICTS}
    for name in ordered(result):
        values = result.expected[name]
        if not np.isfinite(values["p"]):  # no replicate has a case to judge
            continue
        verdicts[verdict(values, rate)].append(_with_p(name, values))
    said = [
        f"{VERDICTS[word]} noise makes likely under {_and(names)}"
        for word, names in verdicts.items()
        if names
    ]
    parts = [f"{counts} break {_axiom(result)}."]
    if said and len(result.cuts):
        parts.append(f"That is {'; '.join(said)}.")
    elif said:
        bands = f"{len(result.bands)} bands by {shown(result.by)}"
        parts.append(f"At this cut into {bands} that is {'; '.join(said)}.")
        parts.append(OTHER_CUTS if result.by in CUT_AT_RANDOM else "")
    return " ".join(parts).strip()


def ordered(result: Cancellation) -> list[str]:
    """Return the names of the explanations by the rate that they expect, the lowest first."""
    rates = {name: values["rate"] for name, values in result.expected.items()}
    return sorted(rates, key=lambda name: (not np.isfinite(rates[name]), rates[name]))


def _with_p(name: str, values: Mapping[str, Any]) -> str:
    doubt = f"{said}; " if (said := doubt_of(values)) else ""
    return f"{shown(name)} ({doubt}{p_of(values)})"


def p_of(values: Mapping[str, Any]) -> str:
    """Write the p value of an explanation: ``p = 0.037``, or ``p \u2264 0.002`` at its floor."""
    from measurebayes.checks.cancellation.result import p_text

    return p_text(values["p"], values["replicates"]) if np.isfinite(values["p"]) else UNKNOWN


def doubt_of(values: Mapping[str, Any]) -> str:
    """Return why the draws of an explanation can't be trusted; nothing where they can."""
    if values["kind"] != "posterior":
        return ""
    said = ("NOT CONVERGED", "A POOR APPROXIMATION")
    return next((text.lower() for text in said if text in values["title"]), "")


def _axiom(result: Cancellation) -> str:
    from measurebayes.checks.cancellation.result import AXIOMS

    return AXIOMS[result.axiom]


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def per_cent(value: Any) -> str:
    """Format a proportion in per cent with two decimals."""
    return f"{number(100 * float(value))}\u202f%"


def left_out(result: Cancellation) -> str:
    """Say what the table of rates does not hold; empty where it holds everything."""
    few = f"{result.min_attempts} attempts"
    words = {
        "tasks_without_value": f"tasks without {result.by}",
        "tasks_outside_bands": "tasks outside the bands",
        "entries_with_few_attempts": f"rates of an agent in a band, with fewer than {few}",
    }
    parts = [f"{n:,} {words[key]}" for key, n in result.left_out.items() if n]
    return f"Left out: {'; '.join(parts)}." if parts else ""


def quantity_context(
    fits: Mapping[str, xr.DataTree], result: Cancellation | None = None
) -> dict[str, Any]:
    """Return what the section shows, or the reason why there is nothing to show.

    Parameters
    ----------
    fits : mapping of str to DataTree
    result : Cancellation, optional
        Made by `usual_check` where absent.

    Returns
    -------
    dict
        Keys problem, finding, axiom, rule, rows, names, left_out, figures, triple, tables.
    """
    others: list[str] = []
    if result is None:
        try:
            result = usual_check(fits)
        except MeasureBayesError as error:
            needed = f"; needed: {error.expected}" if error.expected else ""
            return {"problem": f"Not made for these data: {shown(error.found)}{needed}."}
        others = [name for name in fits if name not in result.expected]
    if not np.isfinite(result.observed["rate"]):
        return {"problem": f"{result.text()} {left_out(result)}".strip()}
    triple, caption = _triple(result)
    return {
        "problem": "",
        # A p value must not be broken over two lines.
        "finding": re.sub(r"p ([=<\u2264]) (?=\d)", "p\u00a0\\1\u00a0", finding(result)),
        "axiom": _axiom(result),
        "rule": RULES[result.axiom],
        "by": result.by,
        "bands": len(result.bands),
        "observed": per_cent(result.observed["rate"]),
        "rows": _rows(result),
        "names": ordered(result),
        "others": others,
        "left_out": left_out(result),
        "figures": {"expected": _expected(result), "triple": triple},
        "triple": caption,
        "tables": _tables(result),
    }


def _rows(result: Cancellation) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "title": values["title"],
            "kind": values["kind"],
            "doubt": doubt_of(values),
            "rate": per_cent(values["rate"]),
            "interval": f"{number(100 * values['low'])} to {per_cent(values['high'])}",
            "p": p_of(values).removeprefix("p ").removeprefix("= "),
            "replicates": values["replicates"],
        }
        for name, values in ((name, result.expected[name]) for name in ordered(result))
    ]


def _expected(result: Cancellation) -> Any:
    from markupsafe import Markup

    from measurebayes.report.cancellation import plot_cancellation
    from measurebayes.report.figure import to_svg

    if not any(np.isfinite(rates).any() for rates in result.replicated.values()):
        return ""
    words = (
        f"Violations of {_axiom(result)}: {per_cent(result.observed['rate'])} of cases observed, "
        "over the distribution of replicates of each explanation. The table below holds the "
        "numbers."
    )
    return Markup(to_svg(plot_cancellation(result), words))


def _triple(result: Cancellation) -> tuple[Any, str]:
    """Draw the largest violation, and say it in words; two empty texts where there is none."""
    from markupsafe import Markup

    from measurebayes.checks.cancellation.distinct import distinct
    from measurebayes.report.cancellation import plot_triple
    from measurebayes.report.figure import to_svg

    if not len(result.violations):
        return "", ""
    row = distinct(result.violations, list(result.bands["band"])).index[0]
    one = result.violations.loc[row]
    a, b, c = (shown(one[f"agent_{n}"]) for n in "abc")
    x, y, z = (shown(one[f"band_{n}"]) for n in "xyz")
    rate = {name: f"{100 * one[name]:.1f}\u202f%" for name in ("ay", "bx", "bz", "cy", "az", "cx")}
    words = (
        f"The largest violation. {a} in band {y} does at least as well as {b} in {x} ({rate['ay']} "
        f"and {rate['bx']}), and {b} in {z} as {c} in {y} ({rate['bz']} and {rate['cy']}). So {a} "
        f"in {z} should do at least as well as {c} in {x}, but does not ({rate['az']} and "
        f"{rate['cx']})."
    )
    certain = (
        f" The smallest of the three differences is {number(100 * one['size'])} points; the "
        f"probability that all three hold between the true rates is {number(one['probability'])}."
    )
    return Markup(to_svg(plot_triple(result, int(row)), words)), words + certain


def _tables(result: Cancellation) -> list[dict[str, Any]]:
    """Return the tables of bands and of agents, where there are any."""
    found = []
    for title, key, table in (
        (f"Bands by {result.by}", "band", result.by_band),
        ("Agents", "agent", result.by_agent),
    ):
        if len(table):
            heads = ["Tasks", "Attempts"] if key == "band" else []
            rows = table.join(result.bands[["tasks", "attempts"]]) if heads else table
            found.append(
                {
                    "title": title,
                    "key": key,
                    "heads": heads,
                    "rows": _cells(rows, key, ordered(result)),
                }
            )
    return found


def _cells(table: pd.DataFrame, key: str, names: Sequence[str]) -> list[dict[str, Any]]:
    counts = [n for n in ("tasks", "attempts", "cases", "violations") if n in table]
    rates = ["rate", *(f"expected {name}" for name in names)]
    return [
        {
            "name": row[key],
            "cells": [number(row[n], 0) for n in counts] + [number(100 * row[n]) for n in rates],
        }
        for row in table.head(MOST_ROWS).to_dict("records")
    ]
