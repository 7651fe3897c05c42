"""Tables of docs/benchmarks.md and README.md, from what benchmarks/run.py measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import cold
import counting
import loading
import metr
import peers
import reading

Results = dict[str, dict[str, Any]]


def median(values: list[float]) -> float:
    return float(statistics.median(values))


def in_seconds(x: float) -> str:
    return f"{x:.0f}" if x >= 10 else f"{x:.2g}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def where(results: Results, part: str, packages: tuple[str, ...]) -> str:
    """Say what a part was measured on."""
    found = results["machine"][part]
    versions = ", ".join(f"{name} {found['versions'][name]}" for name in packages)
    system = f"{found['cores']} cores ({found['architecture']}), Python {found['python']}"
    return f"{system}, {versions}."


def rates(results: Results) -> dict[str, dict[str, float]]:
    """Return the medians of the METR programs; programs that were skipped are left out."""
    found = {}
    for program in metr.PROGRAMS:
        runs = [r for name, r in results["metr"].items() if name.split()[0] == program]
        runs = [run for run in runs if "skipped" not in run]
        if not runs:
            continue
        columns: dict[str, list[float]] = {
            "per_second": [r["ess"] / r["sampling_seconds"] for r in runs],
            "with_all": [r["ess"] / (r["sampling_seconds"] + r["other_seconds"]) for r in runs],
            "without_level": [r["ess_without_level"] / r["sampling_seconds"] for r in runs],
            "per_1000": [1000 * r["ess"] / r["gradients"] for r in runs],
            "a_draw": [r["gradients_per_draw"] for r in runs],
            "sampling": [r["sampling_seconds"] for r in runs],
            "other": [r["other_seconds"] for r in runs],
            "ess": [r["ess"] for r in runs],
            "rhat": [r["rhat"] for r in runs],
            "divergent": [r["divergent"] for r in runs],
        }
        found[program] = {name: median(values) for name, values in columns.items()}
    return found


def _times(own: float, other: float) -> str:
    """How many times faster this engine is."""
    return f"{own / other:.0f}" if own / other >= 10 else f"{own / other:.1f}"


def readme(results: Results) -> str:
    """Return the short table of the METR programs."""
    found, rows = rates(results), []
    own = found["measurebayes"]
    for program, row in found.items():
        ours = program.startswith("measurebayes")
        rows.append(
            [
                metr.PROGRAMS[program],
                f"{row['per_second']:.3g}",
                "" if ours else _times(own["per_second"], row["per_second"]),
                f"{row['with_all']:.3g}",
                "" if ours else _times(own["with_all"], row["with_all"]),
                f"{row['rhat']:.3f}",
            ]
        )
    head = ["program", "ESS / s of sampling", "times slower", "ESS / s with compilation",
            "times slower", "R-hat"]  # fmt: skip
    return f"{table(head, rows)}\n\n{_metr_note(results, found)}"


def _metr_note(results: Results, found: dict[str, dict[str, float]]) -> str:
    chains = results["machine"]["metr chains"]
    repeats = sum(name.startswith("measurebayes ") for name in results["metr"])
    packages = ("numpyro", "jax", "pymc", "nutpie", "arviz")
    stan = [r["versions"]["stan"] for r in results["metr"].values() if r.get("versions")]
    note = (
        f"Medians of {repeats} runs of {chains} chains of {metr.DRAWS:,} draws, "
        f"{where(results, 'metr', packages)}"
    )
    note = note[:-1] + f", {stan[0]}." if stan else note
    skipped = {r["skipped"] for r in results["metr"].values() if "skipped" in r}
    own = found["measurebayes"]["per_second"]
    kinder = {
        name: _times(own, row["without_level"])
        for name, row in found.items()
        if name.startswith("textbook")
    }
    words = [
        note,
        "Times slower are against the first fit, for which nothing was compiled before.",
        "Where R-hat is over 1.01, effective sample sizes are too good to be true.",
        "A textbook program leaves the common level of abilities and difficulties to the priors; "
        "counting only what the data tell, these are slower "
        + " and ".join(
            f"{times} times ({'NumPyro' if 'numpyro' in n else 'PyMC'})"
            for n, times in kinder.items()
        )
        + ".",
        *(f"Stan was {reason}." for reason in skipped),
    ]
    return " ".join(words)


def metr_table(results: Results) -> str:
    """Return everything that was measured of the METR programs."""
    rows = [
        [
            metr.PROGRAMS[program],
            f"{row['ess']:.0f}",
            f"{row['sampling']:.1f}",
            f"{row['other']:.1f}",
            f"{row['per_second']:.3g}",
            f"{row['with_all']:.3g}",
            f"{row['a_draw']:.0f}",
            f"{row['per_1000']:.2g}",
            f"{row['rhat']:.3f}",
            f"{row['divergent']:.0f}",
        ]
        for program, row in rates(results).items()
    ]
    head = ["program", "smallest ESS", "sampling, s", "compilation and the rest, s",
            "ESS / s of sampling", "ESS / s of both", "gradients a draw", "ESS / 1,000 gradients",
            "largest R-hat", "divergent draws"]  # fmt: skip
    return f"{table(head, rows)}\n\n{_metr_note(results, rates(results))}"


def peers_table(results: Results) -> str:
    """Return one table a data set and model."""
    pieces = []
    for data, (title, _) in peers.DATA.items():
        for model, words in peers.MODELS.items():
            name = f"{data} {model}"
            if name in results["peers"]:
                found = dict(results["peers"][name])
                best = found.pop("largest")
                known = f" (largest log likelihood: {best:,.2f})" if best else ""
                pieces.append(f"**{title}, {words}**{known}\n")
                pieces.append(_one_peers_table(found) + "\n")
    return "\n".join(pieces) + "\n" + where(results, "peers", ("numpy", "jax", "numpyro"))


def _one_peers_table(found: dict[str, Any]) -> str:
    never = any(one.get("never_solved") for one in found.values())
    head = ["program", "seconds", "log likelihood", "abilities: r", "RMS", "difficulties: rank r",
            "RMS", "discriminations"]  # fmt: skip
    head += ["difficulty of tasks solved never", "largest of others"] if never else []
    rows = []
    for program, one in found.items():
        if "skipped" in one:
            rows.append([program, one["skipped"], *[""] * (len(head) - 2)])
            continue
        row = [program, in_seconds(median(one["seconds"])), f"{one['log_likelihood']:,.2f}"]
        if program == peers.OURS:
            row += [""] * 4
        else:
            for name in ("ability", "difficulty_rank"):
                rms = one[f"{name.removesuffix('_rank')}_rms"]
                row += [f"{one[f'{name}_r']:.3f}", f"{rms:.2g}" if rms < 100 else f"{rms:,.0f}"]
        row.append(" to ".join(f"{x:.3g}" for x in one["discriminations"]))
        if never:
            low, high = one["never_solved"]
            row.append(f"{low:.3g} to {high:.3g}" if high - low > 0.01 else f"{low:.3g}")
            row.append(f"{one['largest_difficulty']:.3g}")
        rows.append(row)
    return table(head, rows)


def counting_table(results: Results) -> str:
    """Return seconds and tables a second of each program and size."""
    rows = []
    for name, seconds in results["counting"].items():
        program, size = name.split(" ", 1)
        agents, bands, replicates = size.split(" x ")
        rate = int(replicates) / median(seconds)
        shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
        cells = [counting.TITLES[program], f"{agents} x {bands}", f"{int(replicates):,}",
                 in_seconds(median(seconds)), shown]  # fmt: skip
        rows.append(cells)
    head = ["program", "agents x bands", "replicates", "seconds", "replicates a second"]
    return f"{table(head, rows)}\n\n{where(results, 'counting', ('numpy',))}"


def loading_table(results: Results) -> str:
    """Return seconds and memory of each program and format."""
    rows = []
    for kind in loading.FORMATS:
        for program, (_, title) in loading.PROGRAMS.items():
            one = results["loading"][f"{kind} {program}"]
            rows.append(
                [
                    f"{kind}, {one['megabytes']:.0f} MB",
                    title,
                    f"{median(one['seconds']):.1f}",
                    f"{loading.ROWS / median(one['seconds']) / 1e6:.1f} million",
                    f"{max(one['mebibytes']):.0f}",
                ]
            )
    head = ["file", "program", "seconds", "rows a second", "peak memory, MiB"]
    note = f"{loading.ROWS:,} attempts of {reading.AGENTS} agents at {reading.TASKS:,} tasks; "
    return f"{table(head, rows)}\n\n{note}{where(results, 'loading', ('numpy', 'pandas'))}"


def cold_table(results: Results) -> str:
    """Return the wall time of commands in new processes."""
    runs, rows = list(results["cold"].values()), []
    for name, title in cold.MEASURED.items():
        column = {key: median([r[key] for r in runs]) for key in runs[0]}
        row = [title, f"{column[name]:.2f}", f"{max(r[name] for r in runs):.2f}"]
        for part in ("compile", "sampling"):
            row.append(f"{column[f'{name}_{part}']:.2f}" if f"{name}_{part}" in column else "")
        rows.append(row)
    head = ["command", "seconds (median)", "slowest", "of which compilation", "sampling"]
    return f"{table(head, rows)}\n\n{where(results, 'cold', ('jax', 'numpyro'))}"


TABLES: dict[str, Callable[[Results], str]] = {
    "metr": metr_table,
    "peers": peers_table,
    "counting": counting_table,
    "loading": loading_table,
    "cold": cold_table,
}
