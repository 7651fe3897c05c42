"""What messages say to somebody with records of their own: nothing is cut, every remedy works."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from fake_horizons import horizon_fit

import measurebayes as mb
from measurebayes import data
from measurebayes.cli import main
from measurebayes.cli.options import on_command_line
from measurebayes.cli.output import cell_text
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


@pytest.mark.parametrize(
    "names",
    [
        ("model", "item", "score"),
        ("Model", "question_id", "correct"),
        ("subject", "task_id", "passed"),
        ("agent", "task", "is_correct"),
    ],
)
def test_the_remedy_names_columns_of_other_names(tmp_path, names):
    path = tmp_path / "t.csv"
    path.write_text(f"{','.join(names)}\na,q1,1\nb,q1,0\n")
    result = CliRunner().invoke(main, ["data", str(path)])
    words = re.findall(r"--column (\w+=\w+)", result.stderr)
    fixed = [word for pair in words for word in ("--column", pair)]
    assert words
    assert CliRunner().invoke(main, ["data", str(path), *fixed]).exit_code == 0


def test_a_table_of_properties_is_told_from_records(tmp_path):
    path = tmp_path / "tasks.csv"
    path.write_text("task_id,family,human_minutes\nt1,f,3\n")
    assert "tasks='FILE'" in refused(path)


def test_a_wide_table_of_counts_says_which_entry(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("who,t1,t2\na,0,4\nb,1,0\n")
    message = refused(path)
    assert "'t2'" in message
    assert "successes, attempts" in message


def test_a_folder_with_tables_alone_names_them(tmp_path):
    (tmp_path / "README").write_text("words")
    (tmp_path / "results.csv").write_text("agent,task,success\na,t,1\n")
    assert str(tmp_path / "results.csv") in refused(tmp_path)
    assert "README" not in refused(tmp_path)
    (finding,) = mb.lint(tmp_path).findings
    assert finding.code == "F102"


def test_a_folder_with_lines_of_a_table_names_file_and_reader(tmp_path):
    lines = tmp_path / "answers.jsonl"
    lines.write_text('{"subject_id": "a", "responses": {"q": 1}}\n')
    message = refused(tmp_path)
    assert f"'{lines}' (pyirt)" in message
    assert "reader='inspect'" not in message


def test_logs_of_several_formats_are_read_one_by_one(tmp_path):
    (tmp_path / "a.json").write_text('{"results": {}, "configs": {}}')
    (tmp_path / "b.json").write_text('{"name": "n", "adapter_spec": {}}')
    message = refused(tmp_path)
    assert "several formats" in message
    assert "reader='lm_eval' or reader='helm'" in message
    assert "measurebayes concat puts" in on_command_line(message)


def test_a_mapping_does_not_change_the_format():
    message = refused(SUITES, columns={"reasoning_effort": "scorer"})
    assert "no column 'reasoning_effort'" in message
    assert "item_id" in message  # the names of a hub, not of a long table


def command(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_formats_has_every_field_and_option_of_a_reader():
    assert set(re.findall(r"^\w+", command("formats").stdout, re.MULTILINE)) >= set(data.READERS)
    for reader in data.READERS.values():
        text = command("formats", reader.name).stdout
        told = json.loads(command("formats", reader.name, "--json").stdout)
        assert [field["name"] for field in told["fields"]] == [c.name for c in reader.columns]
        for option in reader.options:
            assert option.meaning in text
            assert option.name.removesuffix("s") in text
    wrong = command("formats", "inspekt")
    assert (wrong.exit_code, "did you mean 'inspect'?" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("name", ["data", "load", "lint", "fit", "analyse"])
def test_options_of_readers_are_told_how_they_are_written(name):
    result = command(name, "x.csv", "--without-scores", "leave_out")
    assert result.exit_code == 2
    assert "--option without_scores=VALUE" in result.stderr
    assert "--option" not in command("models", "--scorer", "x").stderr


def test_a_pattern_without_quotes_is_told():
    result = command("data", "a.eval", "b.eval")
    assert result.exit_code == 2
    assert "in quotes" in result.stderr


def test_examples_in_messages_name_options_that_exist():
    example = command("data", "x.csv", "--option", "scorer").stderr.rpartition("--option ")[2]
    assert example.partition("=")[0] in {o.name for r in data.READERS.values() for o in r.options}


def test_open_statuses_are_one_finding_with_all_places(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("agent,task,success\na,t,1\nb,t,0\na,u,\nb,u,\nb,v,0\na,v,1\n")
    result = mb.lint(path)
    (finding,) = (one for one in result.findings if one.severity == "error")
    assert (finding.code, finding.count) == ("S501", 2)
    assert [place.partition("line ")[2][0] for place in finding.places] == ["4", "5"]
    assert "a: 1" in finding.problem
    assert result.taken == {"policy": "missing"}
    # nobody has said that they are left out
    assert "S503" not in {one.code for one in result.findings}
    text = command("lint", path).stdout
    assert text.endswith("it was read on as with --policy missing\n")
    decided = mb.lint(path, policy="missing")
    assert {one.code for one in decided.findings} >= {"S502", "S503"}
    assert decided.taken == {}
    assert "read on" not in command("lint", path, "--policy", "missing").stdout


def test_equal_remedies_of_a_kind_are_printed_once(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{agent},t{task},{task % 2}" for agent in "abcABC" for task in range(30)]
    path.write_text("agent,task,success\n" + "\n".join(rows) + "\n")
    text = command("lint", path).stdout
    kinds = json.loads(command("lint", path, "--json").stdout)["findings"]
    assert [one["code"] for one in kinds[:3]] == ["C602"] * 3
    assert text.count(kinds[0]["remedy"]) == 1
    assert text.index(kinds[2]["problem"]) < text.index(kinds[0]["remedy"])


PIECES = pd.DataFrame(
    {"agent": ["a", "b", "x,y", "d"], "task": ["t", "t", "u", "u"], "success": [1, 0, 1, 0]}
)


def test_pieces_are_named_once_and_one_can_be_taken(tmp_path):
    path, part = tmp_path / "t.csv", tmp_path / "part.nc"
    PIECES.to_csv(path, index=False)
    (finding,) = (one for one in mb.lint(path).findings if one.code == "C601")
    assert "'x,y'" not in finding.problem
    assert "'x,y'" in finding.places[1]
    assert "measurebayes load DATA --subset agent=LABEL" in command("lint", path).stdout
    words = ("--subset", "agent=x,y", "--subset", "agent=d")
    assert command("load", path, *words, "-o", part).exit_code == 0
    assert mb.load(part)["agent"].values.tolist() == ["x,y", "d"]
    wrong = command("load", path, "--subset", "agnt=d", "-o", part)
    assert (wrong.exit_code, "did you mean 'agent'?" in wrong.stderr) == (2, True)


def test_numbers_and_words_agree():
    one = mb.lint(pd.DataFrame({"agent": ["a", "b"], "task": ["t", "t"], "success": [1, 1]}))
    assert any("1 of 1 tasks is always solved" in found.problem for found in one.findings)


def outcomes(*values):
    return pd.DataFrame({"agent": ["a", "b"] * len(values), "task": "t", "success": [*values] * 2})


@pytest.mark.parametrize(
    ("yes", "no"), [(1, 0), ("Correct", "incorrect"), ("pass", "FAIL"), (True, 0)]
)
def test_long_tables_know_the_words_that_logs_use(yes, no):
    runs = mb.load(outcomes(yes, no))
    assert (runs["successes"].values.tolist(), runs["attempts"].values.tolist()) == ([2, 0], [2, 2])


def test_fractions_in_a_long_table_need_a_threshold(tmp_path):
    path = tmp_path / "t.csv"
    outcomes(0.7, 0.2).to_csv(path, index=False)
    result = command("data", path)
    assert "line 2, column 'success'" in result.stderr
    given = re.findall(r"--option threshold=0.5", result.stderr)
    assert command("data", path, *given[0].split(" ")).exit_code == 0
    assert mb.load(path, threshold=0.7)["successes"].values.tolist() == [2, 0]
    assert mb.load(path, threshold=0.71)["successes"].sum() == 0
    codes = [one.code for one in mb.lint(path).findings]
    assert codes.count("V304") == 2


@pytest.mark.parametrize("value", ["C", "I", "N", "maybe", "2", -1, "nan nan"])
def test_other_values_in_a_long_table_are_no_outcomes(value):
    assert "is not the outcome of an attempt" in refused(outcomes(1, value))


def test_one_file_of_a_pair_names_the_folder(tmp_path):
    (tmp_path / "results_2025-01-01T00-00-00.json").write_text('{"results": {}, "configs": {}}')
    samples = tmp_path / "samples_x_2025-01-01T00-00-00.jsonl"
    samples.write_text('{"doc_id": 1, "doc": {}, "target": "a"}\n')
    message = refused(samples)
    assert "none were given" in message
    assert repr(str(tmp_path)) in message
    assert repr(str(tmp_path)) in refused(tmp_path / "results_2025-01-01T00-00-00.json")


def test_remedies_in_python_become_options():
    text = on_command_line("strip=True, threshold=0.5, x=1, runs='all', columns={'agent': 'b c'}")
    assert text == (
        "--option strip=true, --option threshold=0.5, x=1, --option runs=all, --column 'agent=b c'"
    )


def test_tables_of_properties_say_what_to_rename():
    runs = mb.load(PIECES)
    tasks = pd.DataFrame({"task_id": ["t", "u"], "human_minutes": [1, 2]})
    with pytest.raises(InputError, match="rename 'task_id' to 'task'") as caught:
        mb.join(runs, tasks=tasks)
    assert caught.value.code == "T201"
    weights = tasks.rename(columns={"task_id": "task", "human_minutes": "task_weight"})
    with pytest.raises(InputError, match="remove it"):
        mb.join(runs, tasks=weights)


def test_the_summary_leaves_out_what_is_not_known(tmp_path):
    path = tmp_path / "t.csv"
    PIECES.replace({"agent": {"a": "a" * 50, "d": "d" * 50}}).to_csv(path, index=False)
    lines = command("data", path).stdout.splitlines()
    assert "human_minutes       known=0" in lines
    assert not any(line.startswith("timing") or line.endswith("-") for line in lines)
    at = next(number for number, line in enumerate(lines) if line.startswith("unconnected"))
    assert re.match(r" {20}piece 2=2 agents", lines[at + 1])  # each piece on a line of its own


def test_names_with_commas_are_quoted_in_the_summary():
    assert cell_text({"a=b,c": 3, "plain": 1}) == "'a=b,c'=3, plain=1"


@pytest.mark.parametrize("name", ["option", "arguments", "a, option x", "reader options"])
def test_the_linter_does_not_take_a_path_for_an_argument(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    path = folder / "options.csv"
    path.write_text("agent,task,success\na,t,maybe\n")
    assert "V302" in {one.code for one in mb.lint(path).findings}
    with pytest.raises(InputError, match="no option"):
        mb.lint(path, nonsense=1)
    with pytest.raises(InputError, match="policy"):
        mb.lint(path, policy="nonsense")


def test_a_table_that_disagrees_is_settled_as_the_message_says(tmp_path):
    path, table = tmp_path / "t.csv", tmp_path / "tasks.csv"
    PIECES.assign(human_minutes=[1, 1, 2, 2]).to_csv(path, index=False)
    table.write_text("task,human_minutes\nt,5\nu,2\n")
    words = ("data", path, "--join", f"tasks={table}")
    given = re.findall(r"--join conflicts=(\w+)", command(*words).stderr)
    assert given == ["table", "data"]
    for choice, least in (("table", "min=2"), ("data", "min=1")):
        assert least in command(*words, "--join", f"conflicts={choice}").stdout


@pytest.mark.parametrize("name", ["subset(runs, agent=[...])", "concat", "score(runs, fit)"])
def test_functions_in_remedies_become_commands(name):
    text = on_command_line(f"do measurebayes.{name} first")
    words = text.removeprefix("do ").split()
    assert words[0] == "measurebayes"
    assert words[1] in main.commands
    assert text.endswith(" first")


@pytest.mark.parametrize(
    "call",
    [
        lambda runs: mb.horizons(runs),
        lambda runs: mb.horizons(None),
        lambda runs: mb.horizons("task.nc"),
        lambda runs: mb.inversions(runs),
        lambda runs: mb.length_share(runs),
        lambda runs: mb.plan_suite(runs, 24),
        lambda runs: mb.trend_line(runs, "2026-01-01"),
        lambda runs: mb.crossing_dates(runs, 480),
        lambda runs: mb.trend_table({}),
        lambda runs: mb.trend_table([runs]),
        lambda runs: mb.horizon_table(xr.DataTree()),
        lambda runs: mb.classical_horizons("metr-th1.1"),
        lambda runs: mb.classical_horizons(pd.DataFrame({"agent": ["a"]})),
        lambda runs: mb.slope_test(None),
        lambda runs: mb.simex(None, error_sd=1.0),
        lambda runs: mb.error_sensitivity("metr-th1.1"),
        lambda runs: mb.error_sensitivity(runs, level=2.0),
        lambda runs: mb.error_sensitivity(runs, sds=-1.0),
    ],
)
def test_the_wrong_object_is_refused_in_words(metr, call):
    with pytest.raises(mb.InputError):
        call(metr)


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 2.0, float("nan"), "a", True, None])
def test_levels_that_are_none_are_refused(level):
    with pytest.raises(mb.InputError, match="level="):
        mb.horizon_table(xr.DataArray(), level=level)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "x"}, "kind='x'"),
        ({"success": 1.0}, "success"),
        ({"success": float("nan")}, "success"),
        ({"until": "1990-01-01"}, "not after the first release"),
        ({"until": "x"}, "the date 'x'"),
        ({"until": None}, "the date None"),
        ({"minutes": -1.0}, "minutes"),
    ],
)
def test_crossings_that_can_not_be_are_refused(change, message):
    fit = horizon_fit("horizon_trend", draws=3, chains=1)
    with pytest.raises(mb.InputError, match=message):
        mb.crossing_dates(fit, **{"minutes": 480, **change})
    with pytest.raises(mb.InputError, match="the date"):
        mb.trend_line(fit, [None])


def test_trends_of_different_data_are_not_mixed():
    one, other = (horizon_fit("horizon_trend", draws=3, chains=1) for _ in range(2))
    other.attrs["data_fingerprint"] = "another"
    with pytest.raises(mb.InputError, match="'b' was fitted to other data than 'a'"):
        mb.trend_table({"a": one, "b": other}, weights={"a": 0.5, "b": 0.5})
