"""Markdown of what cancellation_power.py measured."""

from __future__ import annotations

from typing import Any

LEVELS = (0.01, 0.05, 0.1, 0.2, 0.5)
TRUTHS = {
    "fixed": "fixed parameters",
    "prior": "the prior",
    "estimate": "the estimate `rasch_ml`",
}


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Markdown of each part of the page."""
    head = " | ".join([*(f"p <= {level:g}" for level in LEVELS), "mean p"])
    rule = "---|" * (len(LEVELS) + 1)
    calibrations = [f"| additive model | design | bands | {head} |", "|---|---|---|" + rule]
    for row in results["calibration"]:
        bands = f"{row['bands']}" + (" by difficulty" if row["by"] == "difficulty" else "")
        calibrations.append(f"| `{row['null']}` | {row['design']} | {bands} | {cells_of(row)} |")
    adding = [
        f"| attempts added | design | violations | expected | {head} |",
        "|---|---|---|---|" + rule,
    ]
    for row in results["added"]:
        adding.append(
            f"| {row['added']:g} | {row['design']} | {100 * row['rate']:.2f} % | "
            f"{100 * row['expected_rate']:.2f} % | {cells_of(row)} |"
        )
    posteriors = [f"| posterior of | data from | design | bands | data sets | {head} |"]
    posteriors.append("|---|---|---|---|---|" + rule)
    for row in results["posterior"]:
        about = f"`{row['model']}` | {TRUTHS[row['truth']]} | {row['design']} | {row['bands']}"
        posteriors.append(f"| {about} | {row['replications']} | {cells_of(row)} |")
    powers = [
        "| departure | size | additive model | bands | violations | expected | found |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(results["power"], key=lambda r: (r["departure"] != "slopes", r["size"])):
        powers.append(
            f"| {row['departure']} | {row['size']:g} | `{row['null']}` | {row['bands']} | "
            f"{100 * row['rate']:.2f} % | {100 * row['expected_rate']:.2f} % | "
            f"{row['power']:.2f} +- {row['power_error']:.2f} |"
        )
    agreements = [
        "| departure | size | predicted | realised | p of the difference |",
        "|" + "---|" * 5,
    ]
    for row in results["agreement"]:
        agreements.append(
            f"| {row['departure']} | {row['size']:g} | {row['predicted']:.3f} | "
            f"{row['realised']:.3f} | {row['p']:.2f} |"
        )
    parts = {
        "calibration": calibrations,
        "added": adding,
        "posterior": posteriors,
        "power": powers,
        "agreement": agreements,
    }
    return {name: "\n".join(lines) for name, lines in parts.items()}


def cells_of(row: dict[str, Any]) -> str:
    values = [f"{row['share'][level]:.3f} ({row['tail'][level]:.2g})" for level in row["share"]]
    return " | ".join([*values, f"{row['mean_p']:.2f}"])
