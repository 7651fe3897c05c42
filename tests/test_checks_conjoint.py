import functools
import json
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_stats.base import array_stats
from scipy import stats

import measurebayes as mb
from measurebayes.checks import conjoint
from measurebayes.checks.conjoint_tables import choose, read
from measurebayes.checks.mixing import mixing
from measurebayes.checks.order_restricted import STARTS, restricted, sample
from measurebayes.errors import InputError

quick = functools.partial(mb.conjoint_table, tables=40, replicates=0, progress=False)


def increasing(p):
    """Single cancellation of tables (..., 3, 3)."""
    return (np.diff(p, axis=-1) > 0).all(axis=(-1, -2)) & (np.diff(p, axis=-2) > 0).all(
        axis=(-1, -2)
    )


def double_cancellation(p):
    """All 36 conditions of tables (..., 3, 3), as Luce and Tukey state them."""
    holds = np.ones(p.shape[:-2], bool)
    for a, b, c in permutations(range(3)):
        for x, y, z in permutations(range(3)):
            premises = (p[..., a, y] >= p[..., b, x]) & (p[..., b, z] >= p[..., c, y])
            holds &= ~premises | (p[..., a, z] >= p[..., c, x])
    return holds


def by_rejection(trials, successes, double, rng, wanted):
    """Posterior draws (draw, 9) by drawing without restriction and refusing what breaks it.

    Rows are refused one by one first: they are independent until columns are looked at.
    """
    a, b = successes + 1, trials - successes + 1
    kept = []
    while sum(map(len, kept)) < wanted:
        rows = [rng.beta(a[i], b[i], size=(100_000, 3)) for i in range(3)]
        rows = [row[(np.diff(row, axis=1) > 0).all(axis=1)] for row in rows]
        number = min(map(len, rows))
        p = np.stack([row[:number] for row in rows], axis=1)
        p = p[increasing(p)]
        kept.append(p[double_cancellation(p)] if double else p)
    return np.concatenate(kept).reshape(-1, 9)


def parole(folder):
    names = ("parole_N.csv", "parole_n_correct.csv")
    return tuple(pd.read_csv(folder / "conjoint" / name) for name in names)


def rasch(rng, persons, items):
    """Trials and successes by sum score of simulated Rasch data, groups of at least 10."""
    logits = rng.normal(size=(persons, 1)) - rng.normal(size=items)
    answers = rng.random(logits.shape) < 1 / (1 + np.exp(-logits))
    answers = answers[:, np.argsort(answers.sum(axis=0))]
    scores, sizes = np.unique(answers.sum(axis=1), return_counts=True)
    scores, sizes = scores[sizes >= 10], sizes[sizes >= 10]
    successes = np.array([answers[answers.sum(axis=1) == score].sum(axis=0) for score in scores])
    return np.repeat(sizes[:, None], items, axis=1), successes


ADDITIVE = 1 / (1 + np.exp(-(np.linspace(-1.5, 1.5, 5)[:, None] + np.linspace(-1, 1, 6))))
ONLY_DOUBLE = np.array([[0.10, 0.20, 0.50], [0.30, 0.45, 0.60], [0.35, 0.70, 0.90]])

SMALL = {
    "agrees": ([[9, 9, 9], [12, 12, 12], [6, 6, 6]], [[1, 3, 4], [4, 7, 8], [3, 4, 5]]),
    "one falls": ([[8, 8, 8], [8, 8, 8], [8, 8, 8]], [[2, 4, 5], [5, 3, 6], [4, 6, 7]]),
    # p12 < p21, p23 < p32, p31 < p13: three ways out, so three peaks
    "not double": ([[20] * 3] * 3, [[1, 3, 12], [8, 9, 13], [8, 17, 18]]),
    "not double either": ([[20] * 3] * 3, [[1, 8, 9], [3, 9, 17], [12, 13, 18]]),
    "zeros": ([[3, 5, 4], [2, 6, 5], [4, 4, 1]], [[0, 0, 3], [0, 5, 4], [2, 4, 1]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("double", [True, False])
def test_sampler_agrees_with_rejection(rng, double):
    trials, successes = (np.array([v[k] for v in SMALL.values()]).reshape(-1, 9) for k in (0, 1))
    draws = sample(trials, successes, rng, double, chains=4, draws=1500, warmup=200)
    _, ess = mixing(draws)
    for i, name in enumerate(SMALL):
        exact = by_rejection(
            trials[i].reshape(3, 3), successes[i].reshape(3, 3), double, rng, 6_000
        )
        flat = draws[i].reshape(9, -1)
        error = exact.std(axis=0) * np.sqrt(1 / ess[i] + 1 / len(exact))
        assert (np.abs(flat.mean(axis=1) - exact.mean(axis=0)) < 4.5 * error).all(), name
        for tail in (0.025, 0.5, 0.975):
            cut = np.quantile(exact, tail, axis=0)
            share = (flat < cut[:, None]).mean(axis=1)
            # indicators of tails mix about as well as the mean; be generous
            error = np.sqrt(tail * (1 - tail) * (2 / ess[i] + 1 / len(exact)))
            assert (np.abs(share - tail) < 4.5 * error).all(), (name, tail)


def test_all_draws_satisfy_every_condition(rng):
    trials, successes = (np.array([v[k] for v in SMALL.values()]).reshape(-1, 9) for k in (0, 1))
    draws = sample(trials, successes, rng, draws=100, warmup=0)
    p = draws.transpose(0, 2, 3, 1).reshape(-1, 3, 3)
    assert increasing(p).all()
    assert double_cancellation(p).all()


def test_the_one_condition_that_is_checked_implies_all_36(rng):
    # every way in which nine different values can satisfy single cancellation
    p = np.array(list(permutations(np.linspace(0.1, 0.9, 9)))).reshape(-1, 3, 3)
    p = p[increasing(p)]
    assert len(p) == 42  # standard Young tableaux of shape (3, 3), by the hook length formula
    positive = p[:, [0, 1, 2], [1, 2, 0]] > p[:, [1, 2, 0], [0, 1, 2]]
    holds = positive.any(axis=1) & ~positive.all(axis=1)
    np.testing.assert_array_equal(holds, double_cancellation(p))
    assert 0 < holds.sum() < 42
    values, p = np.sort(rng.random(9)), np.empty(9)
    for start in STARTS.tolist():
        p[start] = values
        assert increasing(p.reshape(3, 3))
        assert double_cancellation(p.reshape(3, 3))


@pytest.mark.slow
def test_large_counts_far_from_the_order_mix_and_pool(rng):
    # success falls instead of rising: all nine are pressed to the pooled proportion
    trials = np.full((1, 9), 20_000)
    successes = np.linspace(0.8, 0.2, 9) * 20_000
    found = restricted(trials, successes.astype(int)[None], rng, draws=300, retries=1)
    assert np.abs(found.mean - 0.5).max() < 0.01
    assert found.rhat.max() < 1.2


def test_mixing_agrees_with_arviz(rng):
    noise = rng.normal(size=(6, 4, 400))
    for t in range(1, 400):
        noise[:, :, t] += np.linspace(-0.5, 0.95, 6)[:, None] * noise[:, :, t - 1]
    noise[0, 0] += 0.5
    axes = {"chain_axis": 1, "draw_axis": 2}
    rhat, ess = mixing(noise)
    np.testing.assert_allclose(rhat, array_stats.rhat(noise, method="split", **axes), rtol=1e-10)
    np.testing.assert_allclose(ess, array_stats.ess(noise, method="mean", **axes), rtol=0.1)


def test_an_additive_table_with_many_trials_has_hardly_a_flag():
    trials = np.full(ADDITIVE.shape, 5_000)
    result = quick(trials, np.round(ADDITIVE * 5_000).astype(int))
    assert result.flagged == 0
    assert result.eligible == 10 * 20
    known = result.cells[result.cells.times > 0]
    assert (known.low < known.observed).all()
    assert (known.observed < known.high).all()
    assert known["mean"].to_numpy() == pytest.approx(ADDITIVE.ravel(), abs=0.01)


def test_a_fall_along_a_row_is_flagged():
    p = ADDITIVE.copy()
    p[2, [2, 3]] = 0.70, 0.40
    trials = np.full(p.shape, 200)
    result = quick(trials, np.round(p * trials).astype(int), tables=100)
    share = result.cells.pivot(index="row", columns="column", values="flagged")
    assert share.loc[2, 2] > 0.3
    assert share.loc[2, 3] > 0.3
    assert share.loc[0].max() < 0.1


def test_a_violation_of_double_cancellation_alone_is_found_by_double_only():
    trials = np.full((3, 3), 2_000)
    successes = np.round(ONLY_DOUBLE * 2_000).astype(int)
    assert quick(trials, successes, axioms="single").flagged == 0
    result = quick(trials, successes, axioms="double")
    assert result.flagged >= 2 / 9
    assert result.tables == result.eligible == 1


@pytest.mark.slow
def test_reference_finds_a_departure(rng):
    p = ADDITIVE.copy()
    p[1:3, 1:3] = p[1:3, 2:0:-1]
    p[3, [1, 4]] = p[3, [4, 1]]
    trials = np.full(p.shape, 80)
    result = mb.conjoint_table(trials, rng.binomial(trials, p), tables=100, replicates=40)
    assert result.p == pytest.approx(1 / 41)
    assert result.expected < result.expected_high < result.flagged


@pytest.mark.slow
def test_reference_lets_additive_data_pass(rng):
    trials = np.full(ADDITIVE.shape, 40)
    successes = rng.binomial(trials, ADDITIVE)
    result = mb.conjoint_table(trials, successes, tables=30, replicates=40)
    assert result.p > 0.05
    assert 0 < result.expected < 0.08
    assert result.replicates.shape == (40,)


def test_additive_model_reproduces_the_margins(rng):
    trials = rng.integers(20, 200, size=(6, 4))
    successes = rng.binomial(trials, 0.5)
    table = read(trials, successes)
    by_row, by_column = table.effects()
    fitted = trials / (1 + np.exp(-by_row[:, None] - by_column))
    # the equations of the maximum: expected equal observed totals of each row and column
    np.testing.assert_allclose(fitted.sum(axis=0), successes.sum(axis=0), rtol=1e-3)
    np.testing.assert_allclose(fitted.sum(axis=1), successes.sum(axis=1), rtol=1e-3)


@pytest.mark.slow
def test_reference_keeps_the_order_that_is_tested(rng):
    trials = np.full(ADDITIVE.shape, 40)
    successes = np.round(ADDITIVE[:, ::-1] * 40).astype(int)
    by_row, by_column = read(trials, successes).ordered_effects()
    assert (np.diff(by_row) > 0).all()
    np.testing.assert_allclose(by_column, by_column.mean())  # falling effects are pooled
    options = {"tables": 20, "replicates": 30}
    assert mb.conjoint_table(trials, successes, **options).p == pytest.approx(1 / 31)
    assert mb.conjoint_table(trials, successes, order="margins", **options).p > 0.5


def test_p_counts_replicates_at_least_as_flagged():
    replicates = np.array([0.0, 0.1, 0.2, np.nan, 0.3])
    result = conjoint._compare(0.2, replicates, 0.95)
    assert result["p"] == pytest.approx(3 / 5)
    assert result["expected"] == pytest.approx(0.15)
    assert np.isnan(conjoint._compare(0.2, np.array([np.nan]), 0.95)["p"])


def listed(usable):
    """Every 3 x 3 table of usable cells."""
    return {
        (rows, columns)
        for rows in combinations(range(usable.shape[0]), 3)
        for columns in combinations(range(usable.shape[1]), 3)
        if usable[np.ix_(rows, columns)].all()
    }


@pytest.mark.parametrize("shape", [(5, 6), (7, 4), (3, 3)])
def test_tables_are_chosen_evenly_and_never_twice(rng, shape):
    usable = np.ones(shape, bool)
    usable[0, 1] = usable[-1, -1] = shape == (3, 3)
    expected = sorted(listed(usable))
    everything = choose(usable, 10_000, rng)
    assert everything.eligible == len(expected)
    pairs = zip(everything.rows.tolist(), everything.columns.tolist(), strict=True)
    assert sorted((tuple(r), tuple(c)) for r, c in pairs) == expected
    number = max(1, len(expected) // 5)
    counts = dict.fromkeys(expected, 0)
    for _ in range(2_000 // number):
        chosen = choose(usable, number, rng)
        pairs = set(zip(map(tuple, chosen.rows), map(tuple, chosen.columns), strict=True))
        assert len(pairs) == number
        for pair in pairs:
            counts[pair] += 1
    if len(expected) > 1:
        assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_choice_of_a_table_too_large_to_list(rng):
    usable = rng.random((300, 40)) < 0.9
    chosen = choose(usable, 500, rng)
    assert chosen.rows.shape == chosen.columns.shape == (500, 3)
    assert chosen.of(usable).all()
    for side, size in ((chosen.rows, 300), (chosen.columns, 40)):
        assert (np.diff(side, axis=1) > 0).all()
        assert side.max() < size
    assert np.ptp(chosen.rows) > 250


def test_sums_by_cell(rng):
    chosen = choose(np.ones((5, 4), bool), 20, rng)
    values = rng.random((20, 9))
    expected = np.zeros((5, 4))
    for t in range(20):
        expected[np.ix_(chosen.rows[t], chosen.columns[t])] += values[t].reshape(3, 3)
    np.testing.assert_allclose(chosen.onto(values, (5, 4)), expected)


@pytest.mark.slow
def test_order_by_margins_undoes_a_shuffle(rng):
    trials = pd.DataFrame(np.full(ADDITIVE.shape, 10), index=list("abcde"), columns=list("uvwxyz"))
    successes = trials * 0 + np.round(ADDITIVE * 10).astype(int)
    sorted_ = quick(trials, successes)
    rows, columns = rng.permutation(5), rng.permutation(6)
    shuffled = trials.iloc[rows, columns], successes.iloc[rows, columns]
    result = quick(*shuffled, order="margins")
    assert result.flagged == sorted_.flagged
    pd.testing.assert_frame_equal(result.cells, sorted_.cells)
    assert not quick(*shuffled).cells.equals(sorted_.cells)


def test_tied_margins_keep_the_given_order():
    trials = np.full((4, 3), 10)
    successes = np.array([[5, 5, 5], [2, 3, 4], [4, 3, 2], [5, 6, 7]])
    result = quick(trials, successes, order="margins")
    assert result.cells["row"].unique().tolist() == [1, 2, 0, 3]
    assert result.cells["column"].unique().tolist() == [0, 1, 2]


def test_margins_are_compared_within_rows_of_different_sizes():
    # the hardest column was tried most by the best row, so its pooled proportion is the highest
    trials = np.array([[90, 10, 90], [30, 30, 30], [10, 90, 10]])
    rates = np.array([[0.3, 0.1, 0.2], [0.5, 0.3, 0.4], [0.9, 0.7, 0.8]])
    successes = np.round(trials * rates).astype(int)
    table = read(trials, successes).by_margins()
    assert table.columns == [1, 2, 0]
    assert table.rows == [0, 1, 2]


def test_cells_at_0_or_1_are_skipped_or_kept_unjudged():
    trials = np.full(ADDITIVE.shape, 30)
    successes = np.round(ADDITIVE * 30).astype(int)
    successes[0, 0], successes[4, 5] = 0, 30
    skipped = quick(trials, successes)
    assert skipped.eligible == 200 - 2 * 6 * 10 + 3 * 4  # tables with either corner, both
    kept = quick(trials, successes, extremes="keep")
    assert kept.eligible == 200
    corners = kept.cells.iloc[[0, -1]]
    assert (corners["times"] == 0).all()
    assert corners[["flagged", "mean", "low", "high"]].isna().all(axis=None)
    assert kept.cells["times"].iloc[1:-1].min() > 0


def test_result_is_a_mapping_and_repeats_with_its_seed():
    trials = np.full(ADDITIVE.shape, 15)
    successes = np.round(ADDITIVE * 15).astype(int)
    again = functools.partial(quick, trials, successes, replicates=5, tables=10)
    first, second, other = again(), again(), again(seed=2)
    assert dict(first)["flagged"] == first["flagged"] == first.flagged == second.flagged
    np.testing.assert_array_equal(first.replicates, second.replicates)
    assert first.cells.equals(second.cells)
    assert not first.cells.equals(other.cells)
    assert "cells" in first
    with pytest.raises(KeyError):
        first["items"]
    assert set(first) - set(json.loads(json.dumps(first.summary()))) == {"cells", "replicates"}
    # the reference distribution changes nothing else
    without = again(replicates=0)
    assert first.flagged == without.flagged
    assert np.isnan(without.p)
    used = first.cells[first.cells.times > 0]
    assert first.flagged == pytest.approx(used.flagged.mean())
    assert first.cells.times.sum() == 9 * first.tables


def test_chains_that_do_not_mix_give_a_warning(monkeypatch):
    hard = np.full((3, 3), 200_000)
    monkeypatch.setattr(conjoint, "restricted", functools.partial(restricted, retries=0))
    with pytest.warns(conjoint.MixingWarning, match="1 of 1 3 x 3 tables have not mixed"):
        result = quick(hard, np.linspace(0.8, 0.2, 9).reshape(3, 3) * 200_000 // 1)
    assert result.unmixed == 1


GOOD = np.full((4, 4), 10), np.tile(np.arange(1, 5), (4, 1)) + np.arange(4)[:, None]


def changed(which, value):
    tables = [GOOD[0].astype(object), GOOD[1].astype(object)]
    tables[which][1, 2] = value
    return tables


@pytest.mark.parametrize(
    ("tables", "options", "message"),
    [
        ((GOOD[0], GOOD[1][:3]), {}, "shape"),
        ((GOOD[0][:2], GOOD[1][:2]), {}, "2 rows and 4 columns"),
        ((GOOD[0][0], GOOD[1][0]), {}, "1 dimensions"),
        (changed(0, 0), {}, "without trials"),
        (changed(1, 11), {}, "more successes than trials"),
        (changed(1, -1), {}, "not counts"),
        (changed(1, 0.5), {}, "not counts"),
        (changed(0, np.inf), {}, "not counts"),
        (changed(0, np.nan), {}, "missing"),
        (changed(0, "ten"), {}, "not a table of numbers"),
        (changed(0, "10"), {}, "text"),
        (changed(0, True), {}, "true or false"),
        (changed(1, np.datetime64("2020-01-01")), {}, "dates"),
        ((GOOD[0], GOOD[1].astype(bool)), {}, "true or false"),
        ((GOOD[0], pd.DataFrame(GOOD[1] > 0)), {}, "true or false"),
        ((GOOD[0].astype(complex), GOOD[1]), {}, "complex numbers"),
        ((GOOD[0].astype("M8[ns]"), GOOD[1]), {}, "dates"),
        ((pd.DataFrame(GOOD[0].astype("M8[ns]")), GOOD[1]), {}, "dates"),
        ((GOOD[0].astype("m8[s]"), GOOD[1]), {}, "durations"),
        ((np.ma.masked_equal(GOOD[0], 10), GOOD[1]), {}, "masked entries"),
        ((GOOD[0], list(np.ma.masked_equal(GOOD[1], 2))), {}, "masked entries"),
        ((GOOD[0], GOOD[1] * np.eye(4)[::-1]), {}, 'extremes="keep"'),
        ((GOOD[0], np.zeros((4, 4))), {}, "always or never"),
        ((GOOD[0], np.zeros((4, 4))), {"extremes": "keep"}, "always or never"),
        ((pd.DataFrame(GOOD[0]), pd.DataFrame(GOOD[1]).add_prefix("c")), {}, "column labels"),
        (GOOD, {"order": "margin"}, "margins"),
        (GOOD, {"axioms": "triple"}, "axioms"),
        (GOOD, {"extremes": "drop"}, "extremes"),
        (GOOD, {"axioms": ["single"]}, "axioms"),
        (GOOD, {"order": None}, "order"),
        (GOOD, {"tables": 0}, "tables"),
        *[
            (GOOD, {name: value}, f"{name} is")
            for name in ("seed", "tables", "level", "replicates", "chains", "draws")
            for value in (None, "a", [1], True, -1, np.nan, np.array([2, 3]))
        ],
        *[
            (GOOD, {name: 100.5}, f"{name} is")
            for name in ("seed", "tables", "level", "replicates", "chains", "draws")
        ],
        (GOOD, {"level": 1.0}, "level"),
        (GOOD, {"replicates": -1}, "replicates"),
        (GOOD, {"chains": 1}, "chains"),
        (GOOD, {"draws": 10}, "draws"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(tables, options, message):
    with pytest.raises(InputError, match=message) as raised:
        mb.conjoint_table(*tables, **options)
    assert raised.value.remedy
    assert raised.value.where


def test_keeping_extremes_is_no_remedy_where_nothing_can_be_judged():
    for options in ({}, {"extremes": "keep"}):
        with pytest.raises(InputError, match="every cell of the table") as raised:
            mb.conjoint_table(GOOD[0], GOOD[0] * (GOOD[1] > 3), **options)
        assert "keep" not in raised.value.remedy
    # one cell of a hundred that can be judged, not in the table that is chosen
    trials, successes = np.full((10, 10), 10), np.zeros((10, 10), int)
    successes[9, 9] = 5
    with pytest.raises(InputError, match="in the 1 3 x 3 tables chosen") as raised:
        mb.conjoint_table(trials, successes, extremes="keep", tables=1)
    assert "larger number of tables" in raised.value.remedy


def test_arrays_of_any_kind_of_number_are_read():
    trials, successes = GOOD
    masked = np.ma.masked_array(trials)  # nothing is masked
    for n, s in (
        (masked, successes),
        (pd.DataFrame(trials).astype("Int64"), pd.DataFrame(successes, dtype=object)),
        (trials.tolist(), successes.astype(np.float32)),
        (xr.DataArray(trials), successes.astype(np.uint8)),
    ):
        found = read(n, s)
        np.testing.assert_array_equal(found.trials, trials)
        np.testing.assert_array_equal(found.successes, successes)


def test_result_is_shown_in_a_few_lines():
    result = mb.conjoint_table(*GOOD, tables=3, replicates=2, draws=100)
    assert str(result) == repr(result)
    assert len(str(result).splitlines()) <= 6
    assert f"{result.flagged:.3f}" in str(result)
    assert f"{result.expected:.3f}" in str(result)
    assert f"{result.p:.3g}, of 2 replicates" in str(result)
    assert "3 of 16" in str(result)
    assert "no replicate was asked for" in str(quick(*GOOD, tables=1, draws=100))


def test_progress_is_shown_on_standard_error_only(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    shown = mb.conjoint_table(*GOOD, tables=3, replicates=2, draws=100)
    out, err = capsys.readouterr()
    assert "3 x 3 tables" in err
    assert "Replicates" in err
    assert not out
    hidden = mb.conjoint_table(*GOOD, tables=3, replicates=2, draws=100, progress=False)
    assert capsys.readouterr() == ("", "")
    assert shown.summary() == hidden.summary()


def test_errors_name_the_cells():
    with pytest.raises(InputError, match=r"1 cells that are not counts: .* \(1, 2\)"):
        mb.conjoint_table(*changed(0, 2.5))


@pytest.mark.slow
def test_parole_tables(shared_data):
    trials, successes = parole(shared_data)
    result = mb.conjoint_table(trials, successes, seed=1)
    # published: 8.4 % over one random choice of 500 3 x 3; other choices give 7.5 to 10.5 %
    assert 0.075 < result.flagged < 0.105
    assert result.unmixed == 0
    assert result.p <= 0.03
    assert 0.01 < result.expected < 0.045


@pytest.mark.slow
def test_simulated_rasch_data(rng):
    trials, successes = rasch(rng, persons=2000, items=20)
    result = mb.conjoint_table(trials, successes, tables=400, replicates=0, draws=300)
    assert 0.015 < result.flagged < 0.045  # published: about 3 %
