"""The command cancellation: published numbers, refusals, and what goes where."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_fit import fake_data, fit_of
from test_cli import fails, run

import measurebayes as mb
from measurebayes.checks.cancellation.distinct import distinct
from measurebayes.cli import main
from measurebayes.cli.cancellation import as_options

METR = ["cancellation", "metr-th1.1"]
SIGNS = (("ay", "bx"), ("bz", "cy"), ("cx", "az"))


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What --json prints for the METR counts, six bands, with one explanation."""
    result = run(*METR, "--bands", "6", "--against", "rasch_ml", "--replicates", "9", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout, parse_constant=lambda word: pytest.fail(word))


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and fits of them under names of which one is that of an estimate."""
    folder = tmp_path_factory.mktemp("fits")
    data, truth = fake_data(agents=6, tasks=18, attempts=20, holes=0.0)
    from measurebayes.data import save

    save(data, folder / "runs.nc")
    for name, converged in (("mine", True), ("rasch_ml", True), ("bad", False)):
        mb.save(fit_of(data, truth, "rasch", converged=converged), folder / f"{name}.nc")
    (folder / "text.nc").write_text("no fit")
    return folder


def test_json_has_the_published_counts_of_six_bands(found: dict[str, Any]) -> None:
    assert found["observed"]["cases"] == 219416
    assert found["observed"]["violations"] == 4735
    assert round(found["observed"]["rate"], 5) == 0.02158
    assert list(found["expected"]) == ["rasch_ml"]
    assert found["expected"]["rasch_ml"]["replicates"] == 9
    assert found["text"].startswith("4,735 of 219,416 cases")


def test_json_has_the_published_counts_of_eight_bands() -> None:
    result = run(*METR, "--bands", "8", "--against", "none", "--quiet", "--json")
    observed = json.loads(result.stdout)["observed"]
    assert (observed["cases"], observed["violations"]) == (660989, 23658)
    assert round(observed["rate"], 5) == 0.03579


def test_json_has_the_published_triple(found: dict[str, Any]) -> None:
    agents = {"agent_a": "GPT-5 (Inspect)", "agent_b": "GPT-5.4", "agent_c": "GPT-4o (Inspect)"}
    bands = [row["band"] for row in found["bands"]]
    third, fourth, sixth = bands[2], bands[3], bands[5]
    wanted = agents | {"band_x": third, "band_y": fourth, "band_z": sixth}
    (row,) = [row for row in found["violations"] if wanted.items() <= row.items()]
    per_cent = {name: round(100 * row[name]) for name in ("ay", "bx", "bz", "cy", "az", "cx")}
    assert per_cent == {"ay": 96, "bx": 89, "bz": 43, "cy": 33, "az": 36, "cx": 43}


def test_every_set_of_broken_relations_is_shown_once(found: dict[str, Any]) -> None:
    violations = pd.DataFrame(found["violations"])
    bands = [row["band"] for row in found["bands"]]
    kept = distinct(violations, bands)

    def relations(row: Any) -> frozenset[Any]:
        place = {n: row[f"agent_{n}"] for n in "abc"} | {n: row[f"band_{n}"] for n in "xyz"}
        return frozenset(tuple(place[letter] for letter in one + other) for one, other in SIGNS)

    before = [relations(row) for row in found["violations"]]
    after = [relations(row) for _, row in kept.iterrows()]
    assert len(set(after)) == len(after)
    assert set(after) == set(before)
    assert len(after) < len(before)
    starts = kept[["band_x", "band_y", "band_z"]].map(bands.index)
    turned = before.count(after[0]) == 3
    assert turned
    assert starts.iloc[0].idxmin() == "band_x"


def test_no_violation_has_nothing_to_keep_apart() -> None:
    assert distinct(pd.DataFrame(), ["x"]).empty


def test_tables_and_sentences_are_on_stdout_alone(tmp_path: Path) -> None:
    words = ["--against", "rasch_ml", "--replicates", "9", "-o", tmp_path / "violations.csv"]
    result = run(*METR, *words)
    assert result.exit_code == 0, result.output
    for part in (
        "4,735 of 219,416 cases (2.16 %) are violations of double cancellation.",
        "rasch_ml (maximum likelihood) expects",
        "Bands by human minutes",
        "Agents",
        "Largest violations",
        "96.1 >= 89.0",
        "42.9 >= 32.9",
        "36.1 < 42.8",
    ):
        assert part in result.stdout
    assert "Replicating" not in result.stdout
    assert result.stderr.split() == ["wrote", str(tmp_path / "violations.csv")]
    written = pd.read_csv(tmp_path / "violations.csv")
    assert len(written) == 1000
    assert written["size"].is_monotonic_decreasing


def test_parts_cuts_and_edges_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def stop(runs: Any, **options: Any) -> None:
        seen.update(options)
        raise mb.InputError("stopped", remedy="bands=[0.1, 4, 15, 60, 480] or by='difficulty'")

    monkeypatch.setattr(mb, "cancellation", stop)
    words = [
        "--bands",
        "0.1",
        "4",
        "15",
        "--by",
        "difficulty",
        "--min-attempts",
        "5",
        "--seed",
        "3",
    ]
    words += ["--subset", "source=HCAST", "--subset", "source=SWAA", "--axiom", "triple"]
    words += ["--equal", "attempts", "--cuts", "7", "--replicates", "11", "--quiet"]
    fails(run(*METR, *words), "stopped", "--bands 0.1 4 15 60 480 or --by difficulty")
    assert seen == {
        "bands": [0.1, 4, 15],
        "by": "difficulty",
        "min_attempts": 5,
        "against": None,
        "executor": None,
        "replicates": 11,
        "axiom": "triple",
        "subset": {"source": ["HCAST", "SWAA"]},
        "equal": "attempts",
        "cuts": 7,
        "seed": 3,
        "progress": False,
    }


def test_defaults_are_those_of_the_function() -> None:
    function = {n: p.default for n, p in inspect.signature(mb.cancellation).parameters.items()}
    options = {p.name: p.default for p in main.commands["cancellation"].params}
    for name in ("by", "min_attempts", "axiom", "equal", "cuts", "seed"):
        assert options[name] == function[name]
    assert options["bands"] == [function["bands"]]


def test_fits_are_explanations_by_the_names_of_their_files(fits: Path) -> None:
    words = ["--against", fits / "mine.nc", fits / "bad.nc", "common_slope", "--replicates", "9"]
    result = run("cancellation", fits / "runs.nc", "--bands", "4", *words, "--json")
    assert result.exit_code == 0, result.output
    expected = json.loads(result.stdout)["expected"]
    kinds = {"mine": "posterior", "bad": "posterior", "common_slope": "maximum likelihood"}
    assert {name: row["kind"] for name, row in expected.items()} == kinds
    assert "NOT CONVERGED" in expected["bad"]["title"]
    assert "NOT CONVERGED" not in expected["mine"]["title"]


@pytest.mark.parametrize("more", [["--cuts", "3"], ["--axiom", "single"], ["--by", "difficulty"]])
def test_other_checks_print_what_they_have(more: list[str], fits: Path) -> None:
    words = ["--bands", "4", "--against", "rasch_ml", "--replicates", "9", *more]
    result = run("cancellation", fits / "runs.nc", *words)
    assert result.exit_code == 0, result.output
    assert "of cases" in result.stdout
    assert ("Agents" in result.stdout) == ("--cuts" not in more)
    if "--cuts" in more:
        assert "random cuts" in result.stdout
    if "difficulty" not in more:
        assert "Largest violations" not in result.stdout


def test_nothing_to_judge_is_said_with_status_0(fits: Path) -> None:
    words = ["--bands", "4", "--against", "rasch_ml", "--replicates", "3"]
    result = run("cancellation", fits / "runs.nc", *words, "--min-attempts", "1000")
    assert result.exit_code == 0, result.output
    assert "No case of double cancellation can be judged" in result.stdout
    assert "Left out: 24 rates of an agent in a band, with fewer than 1000" in result.stdout
    again = run("cancellation", fits / "runs.nc", *words, "--min-attempts", "1000", "--json")
    assert json.loads(again.stdout)["observed"]["rate"] is None


def test_unknown_explanation_names_both_possibilities(fits: Path) -> None:
    both = ["neither a file nor the name of a point estimate", "fit.nc", "agent_slopes"]
    fails(run(*METR, "--against", "rasch_mll"), *both, "did you mean 'rasch_ml'?")
    close = run(*METR, "--against", fits / "mien.nc")
    fails(close, *both, "did you mean", "mine.nc")
    fails(run(*METR, "--against", "rasch_ml", "nowhere/fit.nc"), *both)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--against", "rasch_ml", "rasch_ml"], ["two of the explanations", "rasch_ml once"]),
        (["--against", "rasch_ml", "FITS/rasch_ml.nc"], ["two of the explanations", "rename"]),
        (["--against", "none", "rasch_ml"], ["none alone"]),
        (["--against", "FITS/text.nc"], ["can't be read as a fit"]),
        (["--against", "FITS/runs.nc"], ["holds no fit"]),
        (["--against", "FITS/mine.nc"], ["is of other data"]),
        (["--bands", "6.5"], ["a whole number of bands", "--bands 6"]),
        (["--bands", "nan"], ["--bands nan"]),
        (["--bands", "2"], ["at least 3 for double cancellation", "--bands 4"]),
        (["--bands", "1", "2"], ["increasing edges", "--bands 0.1 4 15 60 480"]),
        (["--bands", "-1"], ["--bands 6"]),
        (["--by", "minuts"], ["minuts", "did you mean 'minutes'"]),
        (["--by", "galaxy"], ["galaxy", "after --by"]),
        (["--subset", "source"], ["NAME=VALUE", "source=HCAST"]),
        (["--subset", "kind=x"], ["agent, task, family or source"]),
        (["--subset", "source=HCST"], ["did you mean 'HCAST'"]),
        (["--axiom", "triple", "-o", "v.csv"], ["--axiom double"]),
        (["-o", "no/folder/v.csv"], ["does not exist", "mkdir"]),
        (["--against", "FITS/mine.nc", "-o", "FITS/mine.nc"], ["also an input"]),
        (["--axiom", "quadruple"], ["--axiom"]),
        (["--replicates", "0"], ["--replicates"]),
    ],
)
def test_what_cant_be_used_is_refused(words: list[str], parts: list[str], fits: Path) -> None:
    words = [word.replace("FITS", str(fits)) for word in words]
    fails(run(*METR, "--quiet", *words), *parts)


@pytest.mark.parametrize(
    ("remedy", "words"),
    [
        ("bands=6", "--bands 6"),
        ("bands=[0.1, 4, 15, 60, 480]", "--bands 0.1 4 15 60 480"),
        ("by='difficulty' puts them into bands", "--by difficulty puts them into bands"),
        ("bands=4, or by= with a variable", "--bands 4, or --by with a variable"),
        ("min_attempts=20", "--min-attempts 20"),
        ("data of more agents", "data of more agents"),
    ],
)
def test_remedies_are_words_for_the_command_line(remedy: str, words: str) -> None:
    assert as_options(remedy) == words
