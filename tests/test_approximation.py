"""How fits of engines that approximate are judged, shown, compared, opened and asked for."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from fake_fit import fake_fit
from scipy import stats

import measurebayes as mb
from measurebayes.checks import converged
from measurebayes.cli import main
from measurebayes.compare import UnconvergedWarning, unconverged
from measurebayes.errors import CheckpointError, InputError
from measurebayes.inference.fitting import APPROXIMATE, METHODS, refuse_checkpoint
from measurebayes.inference.nodes import nodes_of
from measurebayes.inference.outside import Proposal, explore, mode_of, resampled, smoothed
from measurebayes.report.sections import model_context


def approximate(k, text="Weights of all parameters.", **options):
    fit = fake_fit("rasch", agents=5, tasks=6, draws=100, **options)
    fit.attrs |= {
        "method": "laplace",
        "approximation": json.dumps({"pareto_k": k, "text": text}),
    }
    fit["sample_stats"] = fit["sample_stats"].to_dataset()[["lp"]]
    return fit


@pytest.mark.parametrize(
    ("k", "passes", "words"),
    [
        (0.31, True, "weights of the draws can be trusted"),
        (0.7, False, "may not be those of the posterior"),
        (3.0, False, 'fit with method="nuts"'),
        (None, False, "No importance weights"),
    ],
)
def test_one_row_judges_draws_of_an_approximation(k, passes, words):
    fit = approximate(k)
    table = mb.check(fit).set_index("name")
    row = table.loc["approximation"]
    assert row["passed"] == passes == converged(fit)
    assert words in row["text"]
    assert "Weights of all parameters." in row["text"]
    assert math.isnan(row["value"]) if k is None else row["value"] == k
    assert not {"rhat", "ess_bulk", "ess_tail", "divergences", "ebfmi"} & set(table.index)
    assert not any("R-hat" in text or "chain" in text for text in table["text"])


@pytest.mark.slow
def test_a_page_speaks_of_no_chains():
    fit = approximate(0.3)
    context = model_context(1, "rasch", fit, mb.check(fit))
    assert context["failures"] == []
    assert context["worst"] == []
    assert "ranks" not in context["figures"]
    names = [name for name, _ in context["provenance"]]
    assert "Draws, without chains" in names
    assert not any("chain" in name.lower() and "without" not in name for name in names)
    assert not any("Warm-up" in name or "warm-up" in name for name in names)
    with pytest.raises(InputError, match="no chains to compare"):
        mb.report.plot_ranks(fit)


@pytest.mark.slow
def test_a_page_warns_of_a_poor_approximation(tmp_path):
    path = mb.report(approximate(4.2), path=tmp_path / "report.html")
    page = (tmp_path / "report.html" if path is None else path).read_text(encoding="utf-8")
    assert "Do not trust the draws of" in page
    assert "This fit is a poor approximation." in page
    assert "has not converged" not in page


def test_comparisons_warn_of_a_poor_approximation():
    fits = {"good": approximate(0.2), "poor": approximate(1.5)}
    [(category, text)] = unconverged(fits)
    assert category is UnconvergedWarning
    assert text.startswith("'poor' is a poor approximation (approximation): its numbers can't be")


@pytest.mark.parametrize(
    ("kept", "problem"),
    [
        (None, "missing"),
        ("no JSON", "figure with its text"),
        ('{"pareto_k": "x", "text": "y"}', "figure with its text"),
        ('{"pareto_k": 0.1}', "figure with its text"),
        ("[1]", "figure with its text"),
    ],
)
def test_files_that_do_not_say_what_their_draws_are_worth(tmp_path, kept, problem):
    fit = approximate(0.3)
    mb.save(fit, tmp_path / "whole.nc")
    assert converged(mb.open(tmp_path / "whole.nc"))
    del fit.attrs["approximation"]
    if kept is not None:
        fit.attrs["approximation"] = kept
    mb.save(fit, tmp_path / "fit.nc")
    with pytest.raises(InputError, match=problem):
        mb.open(tmp_path / "fit.nc")


def test_methods_are_the_choice_of_the_command_line(tiny, tmp_path):
    shown = CliRunner().invoke(main, ["fit", "--help"])
    assert shown.exit_code == 0
    assert f"[{'|'.join(METHODS)}]" in shown.output
    assert "what their draws are worth" in " ".join(shown.output.split())
    with pytest.raises(InputError, match="backend pymc"):
        mb.fit("rasch", tiny, backend="pymc", method=next(iter(APPROXIMATE)))


def test_no_checkpoint_is_gone_on_with(tmp_path):
    refuse_checkpoint("laplace", None, False)
    refuse_checkpoint("laplace", tmp_path / "new.part", False)
    with pytest.raises(CheckpointError, match="nothing to go on with"):
        refuse_checkpoint("laplace", tmp_path / "new.part", True)
    (tmp_path / "old.part").write_bytes(b"")
    with pytest.raises(CheckpointError, match="holds the run of another"):
        refuse_checkpoint("laplace", tmp_path / "old.part", False)


# -- parts of the engines ----------------------------------------------------------------------


@pytest.mark.parametrize(("width", "rel"), [(1, 1e-9), (2, 1e-9), (4, 0.1)])
def test_nodes_integrate_moments_of_a_normal(width, rel):
    for finer in (False, True):
        nodes = nodes_of(width, finer)
        weights = np.exp(nodes.log_weights)
        assert weights.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(weights @ nodes.places, 0.0, atol=1e-12)
        covariance = (weights[:, None] * nodes.places).T @ nodes.places
        np.testing.assert_allclose(covariance, np.eye(width), atol=rel)


def test_density_of_a_proposal():
    root = np.array([[2.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-0.3, 0.2, 0.7]])
    centre = np.array([1.0, -2.0, 0.5])
    rng = np.random.default_rng(1)
    draws, unit = Proposal(centre, root, 0).draw(rng, 50)
    expected = stats.multivariate_normal(centre, root @ root.T).logpdf(draws)
    np.testing.assert_allclose(Proposal(centre, root, 0).log_density(unit), expected)
    draws, unit = Proposal(centre, root, 3).draw(rng, 50)
    expected = stats.multivariate_t(centre, root @ root.T, df=7).logpdf(draws)
    np.testing.assert_allclose(Proposal(centre, root, 3).log_density(unit), expected)


def test_shape_of_a_tail_of_weights():
    rng = np.random.default_rng(2)
    for k in (0.2, 0.9):  # weights of a Pareto distribution with this shape
        log_weights = k * rng.exponential(size=20_000)
        smooth, found = smoothed(log_weights)
        assert found == pytest.approx(k, abs=0.15)
        assert np.exp(smooth).sum() == pytest.approx(1.0)
        assert np.corrcoef(smooth, log_weights)[0, 1] > 0.99


def test_resampling_takes_each_as_often_as_its_weight_says():
    weights = np.array([0.5, 0.3, 0.15, 0.05])
    taken = resampled(np.log(weights), 1000, np.random.default_rng(3))
    np.testing.assert_allclose(np.bincount(taken) / 1000, weights, atol=1e-3)


def test_a_skewed_density_is_drawn_from():
    """log of a gamma variable, and a normal that depends on it: moments in closed form."""
    shape = 4.0

    def slope(at):
        u, x = at
        away = x - 2.0 * u
        value = shape * u - np.exp(u) - 0.5 * away**2
        return value, np.array([shape - np.exp(u) + 2.0 * away, -away])

    mode, second = mode_of(slope, np.array([3.0, -4.0]))
    np.testing.assert_allclose(mode, [np.log(shape), 2.0 * np.log(shape)], atol=1e-3)
    np.testing.assert_allclose(second, [[shape + 4.0, -2.0], [-2.0, 1.0]], atol=1e-2)
    found, _ = explore(
        lambda draws: np.array([slope(at)[0] for at in draws]),
        mode, second, 1, 4000, np.random.default_rng(4),
    )  # fmt: skip
    assert found.pareto_k < 0.5
    weights = np.exp(found.log_weights)
    of_log = stats.loggamma(shape)
    assert weights @ found.draws[:, 0] == pytest.approx(of_log.mean(), abs=0.05)
    away = found.draws[:, 1] - weights @ found.draws[:, 1]
    assert weights @ away**2 == pytest.approx(4.0 * of_log.var() + 1.0, rel=0.1)
