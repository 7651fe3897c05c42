"""The method "map" for large tables: the mode of all columns, and a normal distribution around it.

The steps: `text` runs a model text on blocks of cells; `columns` says how its parameters lie along
agents and tasks; `grid` and `prior` add up derivatives; `bordered` factorises the second derivative
in the columns, exactly; `search` finds the scales at the maximum of their marginal density, the
columns being integrated out by Laplace's method. Draws: the singles from a normal distribution
around that maximum in their unconstrained coordinates, the columns given them from one around their
conditional mode, moved by the first-order distance of their mean from it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import xarray as xr

from measurebayes.inference.mode.columns import Point
from measurebayes.inference.mode.grid import Grid
from measurebayes.inference.mode.marginal import Found, Marginal
from measurebayes.inference.mode.prior import Prior
from measurebayes.inference.mode.search import Search
from measurebayes.inference.mode.text import Text
from measurebayes.inference.results import labelled_draws
from measurebayes.program.registry import ModelFile

DRAWS_AT_ONCE = 250
#: Draws times cells up to which the density is computed at every draw, for the quality figure.
CHEAP = 4 * 10**8
TAIL = 25  # draws: fewer have no tail to look at


def draw(
    model: ModelFile,
    runs: xr.Dataset,
    numbers: Mapping[str, float],
    settings: Mapping[str, Any],
    progress: bool,
) -> tuple[xr.Dataset, xr.Dataset, dict[str, Any]]:
    """Return draws around the posterior's mode.

    Parameters
    ----------
    model, runs, numbers
        Model, data and priors.
    settings
        draws, chains and seed; the draws are independent, chains of them only give every fit one
        shape.
    progress
        Say on standard error what is being done.

    Returns
    -------
    tuple
        Posterior (chain, draw, ...); sample statistics: lp, the log joint density in unconstrained
        coordinates (chain, draw), where it is cheap; attributes.

    Raises
    ------
    InputError
        The model has a form that this method can't take.
    ModelError
        The search found no mode.
    """
    started = time.perf_counter()
    with _saying(f"{model.label}: mode", progress) as say:
        with jax.enable_x64(True):
            text = Text(model, runs, numbers)
        search = Search(Prior(text), Grid(text, runs), say)
        compiled = time.perf_counter() - started
        found, curvature = Marginal(search).best(text.start)
        say("draws")
        drawn = Draws(text, search, found, curvature, settings)
        drawn.fill()
    posterior = labelled_draws(drawn.arrays, text.like, runs)
    stats = labelled_draws({"lp": drawn.lp}, {}, runs)
    attrs = {
        "sampler": "normal approximation around the mode, scales at the maximum of their "
        "Laplace-approximated marginal density",
        "compile_seconds": round(compiled, 3),
        "sampling_seconds": round(time.perf_counter() - started - compiled, 3),
        "gradients": search.passes,
        "layout": "dense",
        "approximation": json.dumps(_quality(drawn)),
    }
    return posterior, stats, attrs


class Draws:
    """Draws from the normal approximation.

    Parameters
    ----------
    text, search, found, curvature
        The model, the search, what it found, and the second derivative of the marginal there.
    settings
        draws, chains and seed.

    Attributes
    ----------
    arrays
        Named variables (chain, draw, ...).
    lp
        Log joint density (chain, draw); NaN where it would take long.
    log_weights
        Log joint density minus log density of the approximation, up to a constant (draw,); None
        where it would take long.
    """

    def __init__(
        self,
        text: Text,
        search: Search,
        found: Found,
        curvature: np.ndarray,
        settings: Mapping[str, Any],
    ) -> None:
        self._text, self._found = text, found
        self._root = np.linalg.cholesky(np.linalg.inv(curvature)) if curvature.size else curvature
        self._rng = np.random.default_rng(settings["seed"])
        self.shape = settings["chains"], settings["draws"]
        self.arrays = {
            name: np.empty((*self.shape, *like.shape)) for name, like in text.like.items()
        }
        self.lp = np.full(self.shape, np.nan)
        self.log_weights: np.ndarray | None = None
        of_cells = search.grid.value_of()
        lengths, number = text.columns.lengths, int(np.prod(self.shape))
        self._density: Callable[[Point], Any] | None = None
        if of_cells is not None and number * lengths[0] * lengths[1] <= CHEAP:
            self._density = lambda point: text.log_prior(point) - of_cells(point)
            self.log_weights = np.empty(number)

    def fill(self) -> None:
        """Draw all."""
        flat = {name: x.reshape(-1, *x.shape[2:]) for name, x in self.arrays.items()}
        number, lp = int(np.prod(self.shape)), self.lp.reshape(-1)
        named = jax.jit(jax.vmap(self._text.named))
        density = (
            None if self._density is None else jax.jit(lambda p: jax.lax.map(self._density, p))
        )
        for start in range(0, number, DRAWS_AT_ONCE):
            part = slice(start, min(start + DRAWS_AT_ONCE, number))
            points, half = self._points(DRAWS_AT_ONCE)
            count = part.stop - part.start
            with jax.enable_x64(True):
                for name, value in named(points).items():
                    flat[name][part] = np.asarray(value)[:count]
                if density is not None and self.log_weights is not None:
                    lp[part] = np.asarray(density(points))[:count]
                    self.log_weights[part] = lp[part] + half[:count]

    def _points(self, number: int) -> tuple[Point, np.ndarray]:
        """Return draws, unconstrained, and half their squares in the approximation (draw,)."""
        found = self._found
        plain = self._rng.normal(size=(number, found.slope.size))
        singles = plain @ self._root.T
        (top, bottom), half = found.inner.draws(self._rng, number, found.root)
        for part, at, shift, follow in zip(
            (top, bottom),
            (found.point.top, found.point.bottom),
            found.shift,
            found.follow,
            strict=True,
        ):
            part += at + shift
            if len(follow):
                part += np.tensordot(singles, follow, 1)
        points = Point(top, bottom, found.point.singles + singles)
        return points, half + 0.5 * np.sum(plain**2, axis=1)


def _quality(drawn: Draws) -> dict[str, Any]:
    """Return the Pareto k of the importance weights of the draws, and what it says."""
    if drawn.log_weights is None or drawn.log_weights.size < TAIL:
        return {
            "pareto_k": None,
            "text": "a normal approximation whose distance from the posterior was not measured: it "
            "is near where tasks and agents have some tens of successes and failures each, "
            "and too symmetric for those with few",
        }
    from arviz_stats.base import array_stats

    k = float(array_stats.psislw(drawn.log_weights)[1])
    return {
        "pareto_k": round(k, 3) if np.isfinite(k) else None,
        "text": "Pareto k of the importance weights of the draws over all parameters at once: "
        "under 0.7 the draws could be weighted to the posterior; above it, as nearly always with "
        "hundreds of parameters, single margins may still be close, which k does not tell",
    }


@contextmanager
def _saying(label: str, show: bool) -> Iterator[Callable[[str], None]]:
    """Show on standard error what is being done and for how long."""
    if not show:
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=2) as progress:
        task = progress.add_task(label)
        yield lambda text: progress.update(task, description=f"{label}: {text}")
