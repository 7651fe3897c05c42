"""Pictures of docs/benchmarks.md, from what benchmarks/run.py measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loading
from tables import Results, median, rates

from measurebayes.report import figure as look

WIDTH, ROW = 7.0, 0.55  # inches
LABELS = {
    "measurebayes": "measurebayes,\nfirst fit",
    "measurebayes_again": "measurebayes,\nlater fit",
    "textbook_numpyro": "NumPyro,\ntextbook",
    "textbook_pymc": "PyMC (nutpie),\ntextbook",
    "identified_numpyro": "NumPyro,\nidentified",
    "identified_pymc": "PyMC (nutpie),\nidentified",
    "identified_stan": "Stan,\nidentified",
}


def draw(results: Results, folder: Path) -> None:
    """Write the pictures of the parts that were measured."""
    for part, make in (("metr", rate_bars), ("cold", cold_bars), ("loading", loading_bars)):
        if part in results:
            file = folder / f"benchmark_{part}.png"
            with look.quiet_fonts():
                make(results).savefig(file, dpi=150, metadata={"Software": None})


def rate_bars(results: Results) -> Any:
    """Smallest effective sample size per second of every program, logarithmic."""
    found = rates(results)
    figure, panel = _figure(len(found))
    _bars(
        panel,
        [LABELS[name] for name in found],
        {
            "of sampling": [row["per_second"] for row in found.values()],
            "with compilation": [row["with_all"] for row in found.values()],
        },
        ".2g",
    )
    panel.set_xscale("log")
    panel.set_xlim(right=5 * max(row["per_second"] for row in found.values()))
    panel.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    look.label(panel, x="Smallest effective sample size per second")
    look.legend(figure, panel)
    return figure


def loading_bars(results: Results) -> Any:
    """Seconds to read five million rows."""
    kinds = [kind for kind in loading.FORMATS if f"{kind} pandas" in results["loading"]]
    seconds = {
        name: [median(results["loading"][f"{kind} {name}"]["seconds"]) for kind in kinds]
        for name in loading.PROGRAMS
    }
    figure, panel = _figure(len(kinds))
    shown = {"csv": "CSV", "parquet": "Parquet"}
    series = {"measurebayes.load": seconds["measurebayes"], "pandas alone": seconds["pandas"]}
    _bars(panel, [shown[kind] for kind in kinds], series, ".1f")
    panel.set_xlim(right=1.2 * max(max(values) for values in seconds.values()))
    look.label(panel, x="Seconds to read five million rows")
    look.legend(figure, panel)
    return figure


def cold_bars(results: Results) -> Any:
    """Where the time of a first and a second fit from the command line goes."""
    runs = list(results["cold"].values())
    column = {key: median([run[key] for run in runs]) for key in runs[0]}
    caches = {"empty": "first fit,\nempty cache", "filled": "new process,\nfilled cache"}
    compiling = [column[f"{name}_compile"] for name in caches]
    sampling = [column[f"{name}_sampling"] for name in caches]
    rest = [column[name] - c - s for name, c, s in zip(caches, compiling, sampling, strict=True)]
    parts = {"start and file": rest, "compilation": compiling, "sampling": sampling}
    figure, panel = _figure(len(caches))
    left = [0.0] * len(caches)
    for number, (label, values) in enumerate(parts.items()):
        colour = look.COLOURS[number]
        panel.barh(range(len(caches)), values, 0.55, left=left, color=colour, label=label)
        left = [a + b for a, b in zip(left, values, strict=True)]
    for row, total in enumerate(left):
        panel.text(total, row, f" {total:.1f} s", va="center", fontsize=look.FONT)
    panel.set_yticks(range(len(caches)), caches.values())
    panel.invert_yaxis()
    panel.set_xlim(right=1.2 * max(left))
    look.dress(panel)
    look.label(panel, x="Seconds (two_pl, METR, 2 chains of 500 + 500)")
    look.legend(figure, panel)
    return figure


def _figure(rows: int) -> tuple[Any, Any]:
    """Return a figure with room for so many rows of text, and its only panel."""
    figure, panels = look.new_figure(1.1 + ROW * rows)
    figure.set_size_inches(WIDTH, 1.1 + ROW * rows)
    return figure, panels[0, 0]


def _bars(panel: Any, names: list[str], series: dict[str, list[float]], form: str) -> None:
    """Draw a group of bars for each name, a colour for each series, with its number at its end."""
    height = 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        at = [row + (number - (len(series) - 1) / 2) * height for row in range(len(names))]
        panel.barh(at, values, 0.9 * height, color=look.COLOURS[number], label=label)
        for y, value in zip(at, values, strict=True):
            panel.text(value, y, f" {value:{form}}", va="center", fontsize=look.FONT - 2)
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    look.dress(panel)
