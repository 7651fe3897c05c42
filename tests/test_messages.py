"""What messages say to somebody with records of their own: nothing is cut, every remedy works."""

from __future__ import annotations

import pandas as pd
import pytest

import measurebayes as mb
from measurebayes.errors import InputError, listed, shown


def refused(*arguments, **options) -> str:
    with pytest.raises(InputError) as caught:
        mb.load(*arguments, **options)
    return str(caught.value)


def hub(*rows, columns=("run", "task", "model", "item_id", "scorer", "value")) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns))


# HELM's names: two suites that differ in their last letters, with commas in them
LONG = "mmlu:subject=philosophy,method=multiple_choice_joint,prompt="
SUITES = hub(
    ("r1", f"{LONG}a", "m1", "i1", "exact", 1),
    ("r1b", f"{LONG}b", "m1", "i1", "exact", 1),
    ("r1b", f"{LONG}b", "m1", "i1", "fuzzy", 0),
    ("r2", f"{LONG}a", "m2", "i1", "exact", 0),
)


def test_long_names_are_cut_in_the_middle():
    names = [f"{LONG}{'x' * 40}/id{number}" for number in range(4)]
    assert len({shown(name) for name in names}) == 4
    assert all(shown(name).endswith(f"id{at}'") for at, name in enumerate(names))
    assert listed(names).count("'") == 8
    assert max(len(shown("x" * size)) for size in range(200)) == 60


def test_numbers_of_records_stay_beside_long_labels():
    rows = [("r", "s", "m" * 80, f"i{at}", "x", None if at < 3 else 1) for at in range(5)]
    assert "m: 3)" in refused(hub(*rows))


@pytest.mark.parametrize("suite", [f"{LONG}a", f" {LONG}a ", [f"{LONG}a"]])
def test_names_with_commas_can_be_chosen(suite):
    runs = mb.load(SUITES, suite=suite)
    assert set(runs["source"].values) == {f"{LONG}a"}
    assert runs.sizes["cell"] == 2


def test_several_names_with_commas_can_be_chosen():
    runs = mb.load(SUITES, suite=f"{LONG}b,{LONG}a", scorer="exact")
    assert set(runs["source"].values) == {f"{LONG}a", f"{LONG}b"}
    assert "'nothing'" in refused(SUITES, suite=f"{LONG}a,nothing")


def test_columns_with_commas_can_be_ignored():
    table = pd.DataFrame(
        {"agent": ["a", "b"], "task": ["t", "t"], "success": [1, 0], "x, y": [1, 2], "z": [1, 2]}
    )
    assert mb.load(table, ignore="z,x, y").sizes["cell"] == 2


def test_a_suite_with_two_scorers_can_be_left_out_as_the_message_says():
    message = refused(SUITES)
    said = message.rpartition("suite='")[2].partition("'")[0]
    assert mb.load(SUITES, suite=said).sizes["task"] == 1


def test_unknown_columns_of_a_hub_may_be_settings():
    columns = ("run", "task", "model", "item_id", "scorer", "value", "effort")
    table = hub(
        ("r1", "s", "m", "i", "x", 1, "low"), ("r2", "s", "m", "i", "x", 1, "high"), columns=columns
    )
    assert "settings='effort'" in refused(table)
    runs = mb.load(table, settings="effort", agent_from="model,effort")
    assert set(runs["agent"].values) == {"m [effort=low]", "m [effort=high]"}


def test_unknown_columns_of_responses_may_be_properties():
    table = pd.DataFrame({"id": [1, 2], "item": ["q", "q"], "resp": [0, 1], "age": [30, 40]})
    assert "cov_" in refused(table)
    assert "age" not in mb.load(table, ignore="age")
    renamed = table.rename(columns={"age": "cov_age"})
    assert mb.load(renamed, covariates="*")["cov_age"].values.tolist() == [30, 40]


def test_a_near_name_says_of_which_column():
    table = pd.DataFrame(
        {"agent": ["a"], "task": ["t"], "success": [1], "xyzzy": [1], "famly": ["f"]}
    )
    assert "'famly' may be 'family'" in refused(table)
