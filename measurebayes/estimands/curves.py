"""Success as a curve over the length of a task, for every draw of a posterior and every agent.

A curve is known from the names of a model's variables: `intercept` and `slope` (agent) are the line
of a logistic curve over log2 human minutes; with `lapse` it ends at 1 - lapse. Effects of tasks
(`task_sd`, `family_sd`, in logits) and discriminations (`log_discrimination_sd`) are the
population of tasks of one length. `log2_horizon` without a slope is a survival curve, whose
`shape` is 1 where it is not a variable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.special import expit, logit

from measurebayes.errors import InputError

EFFECT_NODES, DISCRIMINATION_NODES = 41, 15
BISECTIONS = 60  # halve a range of some hundred logits below rounding


@dataclass(frozen=True)
class Curves:
    """Curves of all agents at all draws.

    Attributes
    ----------
    survival
        Whether success is survival of the task's time, rather than logistic.
    location
        Log odds at one minute, or log2 of the horizon of a survival curve (chain, draw, agent).
    slope
        Logits per doubling, or shape of a survival curve (chain, draw, agent).
    lapse
        Share of attempts that fail however short the task (chain, draw, agent).
    effect_sd
        Standard deviation of tasks of one length, in logits (chain, draw).
    log_discrimination_sd
        Of tasks (chain, draw).
    """

    survival: bool
    location: xr.DataArray
    slope: xr.DataArray
    lapse: xr.DataArray
    effect_sd: xr.DataArray
    log_discrimination_sd: xr.DataArray

    @classmethod
    def of(cls, fit: xr.DataTree) -> Curves:
        """Read the curves of a fit.

        Raises
        ------
        InputError
            The model has no curve over human time.
        """
        posterior = fit["posterior"].to_dataset()
        nothing = xr.zeros_like(posterior["draw"] + 0.0 * posterior["chain"]).transpose(
            "chain", "draw"
        )
        line = {"intercept", "slope"} <= set(posterior)
        if not line and "log2_horizon" not in posterior:
            raise InputError(
                f"model {fit.attrs.get('model')} has no curve of success over human time",
                where="the posterior of the fit",
                expected="variables intercept and slope, or log2_horizon, of every agent",
                remedy="fit horizon_task (or another model whose name begins with horizon_)",
            )
        agents = nothing + xr.zeros_like(posterior["agent"], dtype=float)
        location = posterior["intercept" if line else "log2_horizon"] + agents
        slope = posterior["slope"] if line else posterior.get("shape", 1.0)
        squares = sum(posterior[n] ** 2 for n in ("task_sd", "family_sd") if n in posterior)
        return cls(
            survival=not line,
            location=location,
            slope=slope + agents,
            lapse=posterior.get("lapse", 0.0) + agents,
            effect_sd=nothing + np.sqrt(squares),
            log_discrimination_sd=nothing + posterior.get("log_discrimination_sd", 0.0),
        )

    def success(self, log2_minutes: xr.DataArray, kind: str = "typical") -> xr.DataArray:
        """Probability of success at lengths, with the dims of the curves and of `log2_minutes`."""
        if self.survival:
            return 2.0 ** -(2.0 ** (self.slope * (log2_minutes - self.location)))
        line = self.location + self.slope * log2_minutes
        if kind == "typical":
            return (1.0 - self.lapse) * expit(line)
        return (1.0 - self.lapse) * xr.apply_ufunc(
            average_success, line, self.effect_sd, self.log_discrimination_sd
        )

    def log2_horizon(self, success: float, kind: str = "typical") -> xr.DataArray:
        """Log2 minutes at which a success rate is reached (chain, draw, agent).

        Infinite where success never falls so low, minus infinite where it never is so high.
        """
        if self.survival:
            return self.location + np.log2(-np.log2(success)) / self.slope
        rate = success / (1.0 - self.lapse)
        reached = rate < 1.0
        level = xr.where(reached, rate, 0.5)
        odds = logit(level)
        if kind == "marginal":
            same = bool((self.lapse == self.lapse.isel(agent=0)).all())  # one answer for all agents
            odds = xr.apply_ufunc(
                log_odds_of_average,
                level.isel(agent=0, drop=True) if same else level,
                self.effect_sd,
                self.log_discrimination_sd,
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            falling = (odds - self.location) / self.slope
        never = xr.where(self.location >= odds, np.inf, -np.inf)  # a slope that doesn't fall
        return xr.where(reached, xr.where(self.slope < 0.0, falling, never), -np.inf)


def average_success(
    line: np.ndarray, effect_sd: np.ndarray, log_discrimination_sd: np.ndarray
) -> np.ndarray:
    """Mean over tasks of logistic(a (line - e)), e ~ Normal(0, effect_sd), a ~ LogNormal(0, .).

    Arrays broadcast against each other; by Gauss-Hermite quadrature.
    """
    effects, effect_weights = hermite(EFFECT_NODES)
    logs, log_weights = hermite(DISCRIMINATION_NODES)
    if not np.any(np.asarray(log_discrimination_sd) > 0.0):
        logs, log_weights = np.zeros(1), np.ones(1)
    total = 0.0
    for z, weight in zip(logs, log_weights, strict=True):
        steep = np.exp(log_discrimination_sd * z)
        for e, own in zip(effects, effect_weights, strict=True):
            total = total + weight * own * expit(steep * (line - effect_sd * e))
    return np.asarray(total)


def log_odds_of_average(
    success: np.ndarray, effect_sd: np.ndarray, log_discrimination_sd: np.ndarray
) -> np.ndarray:
    """Line at which the mean over tasks is `success`: the inverse of `average_success`."""
    success, effect_sd, log_discrimination_sd = np.broadcast_arrays(
        success, effect_sd, log_discrimination_sd
    )
    # At even odds all symmetric effects cancel; the answer lies on the side of the log odds.
    odds = logit(success)
    reach = np.abs(odds) * np.exp(3.0 * log_discrimination_sd) + 12.0 * effect_sd + 1.0
    low, high = np.where(odds > 0, 0.0, -reach), np.where(odds < 0, 0.0, reach)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        below = average_success(middle, effect_sd, log_discrimination_sd) < success
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(odds == 0.0, 0.0, (low + high) / 2.0)


def hermite(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the mean over a standard normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(number)
    return nodes, weights / weights.sum()
