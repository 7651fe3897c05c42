"""Time horizons that follow a trend over release dates, around which agents scatter.

Equation
--------
    logit P(success of agent i on task j)
        = steepness[i] (log2_horizon[i] - log2(t[j])) - task_effect[j]
    log2_horizon ~ Normal(trend[i], log2_horizon_sd)
    d = years from the middle between first and last release, e = years from the first
    trend = level + rate d                                                   shape = linear
    trend = level + rate d + curvature d^2, curvature > 0                    shape = quadratic
    trend = level + gain (g(e) / g(span) - 1/2), gain > 0
        g(e) = (1 + e)^power - 1                                             shape = power
        g(e) = 1 - exp(-e / duration)                                        shape = saturating
    trend = a broken line of rates rate_before and rate_after = rate_before + bend, broken at the
        change; rate is that of the straight line between its ends           shape = piecewise
    steepness    ~ LogNormal(log_steepness_mean, log_steepness_sd)        slopes = agent
    steepness    ~ LogNormal(0, priors[log_steepness_mean]), one for all  slopes = common
    task_effect  ~ Normal(0, task_sd)
    t human minutes (times = exact), or latent as in horizon_eiv (times = latent)

Assumes
-------
Scatter around the trend is normal and as large at all dates. Agents in the data are those of whom
the trend is meant: a trend of the best agents is another question. Rates are in doublings of the
horizon a year. The change of a piecewise trend is spread over about a month.

Identified by
-------------
Release dates are data. All trends but the linear need agents over a good range of dates; gain is
the rise over that range, and rate of a piecewise trend that of the line between its ends, so that
they don't compete with the rest. The change lies inside the range of dates (its place within it ~
Beta(2, 2), bend ~ Normal(0, priors[rate])).

Not to be confused with
-----------------------
A regression of estimated horizons on dates, which takes estimates as known, leaves out that errors
of agents on the same tasks go together, and loses horizons that are not finite.

References
----------
1. Kwa, T., West, B., Becker, J., et al. (2025). Measuring AI ability to complete long tasks.
   arXiv:2503.14499. doi:10.48550/arXiv.2503.14499
2. Carlin, B. P., Gelfand, A. E., & Smith, A. F. M. (1992). Hierarchical Bayesian analysis of
   changepoint problems. Journal of the Royal Statistical Society C, 41, 389-405.
   doi:10.2307/2347570
"""

from math import log

from measurebayes.models.horizon_eiv import TIME_PRIORS, measured
from measurebayes.models.horizon_logistic import lines_of_agents

PRIORS = {
    "level": 5.0,  # doublings, standard deviation of a normal around 4 (16 minutes)
    "rate": 4.0,  # doublings a year, standard deviation of a normal around 0
    "curvature": 1.0,  # doublings a year^2, scale of a half-normal
    "log_power": 0.5,  # natural logarithms, sd of a normal around 0 (linear)
    "gain": 15.0,  # doublings over all dates, scale of a half-normal
    "duration": 3.0,  # years, median of a log-normal with a spread of 1
    "log2_horizon_sd": 2.0,  # doublings, scale of a half-normal
    "log_steepness_mean": 1.0,  # natural logarithms, sd of a normal around 0 (1 logit a doubling)
    "log_steepness_sd": 0.5,  # natural logarithms, scale of a half-normal
    "task_sd": 2.0,  # logits, scale of a half-normal
    **TIME_PRIORS,
}
OPTIONS = {
    "shape": ("linear", "quadratic", "power", "saturating", "piecewise"),
    "times": ("exact", "latent"),  # human times have no error, or one as in horizon_eiv
    "slopes": ("agent", "common"),  # each agent has its own slope, or all have one
}
A_MONTH = 1 / 12  # years over which a piecewise trend bends


def trend_over(pp, priors, shape):
    d, span = pp.release_years(), pp.release_span()
    level = pp.normal("level", 4.0, priors["level"])
    if shape in ("power", "saturating"):
        gain = pp.half_normal("gain", priors["gain"])
        if shape == "power":
            power = pp.log_normal("power", 0.0, priors["log_power"])
            gone, whole = (pp.exp(power * pp.log(1.0 + e)) - 1.0 for e in (d + span / 2, span))
        else:
            duration = pp.log_normal("duration", log(priors["duration"]), 1.0)
            gone, whole = (1.0 - pp.exp(-1.0 / duration * e) for e in (d + span / 2, span))
        return level + gain * (gone / whole - 0.5)
    rate = pp.normal("rate", 0.0, priors["rate"])
    if shape == "quadratic":
        return level + rate * d + pp.half_normal("curvature", priors["curvature"]) * d**2
    if shape == "piecewise":
        bend = pp.normal("bend", 0.0, priors["rate"])
        change = pp.deterministic("change", span * (pp.beta("place", 2.0, 2.0) - 0.5))
        after, last = (pp.softplus((-change + e) / A_MONTH) * A_MONTH for e in (d, span / 2))
        before = pp.deterministic("rate_before", rate - bend * last / span)
        pp.deterministic("rate_after", before + bend)
        return level + rate * d + bend * (after - last * (d / span + 0.5))
    return level + rate * d


def model(pp, data, priors=PRIORS, shape="linear", times="exact", slopes="agent"):
    trend = pp.deterministic("trend", trend_over(pp, priors, shape))
    origin = pp.normal("length_mean", 4.0, priors["length_mean"]) if times == "latent" else 4.0
    intercept, slope = lines_of_agents(pp, priors, slopes, trend, origin)

    if times == "latent":
        log2_minutes, task_effect = measured(pp, priors, origin, slope)
    else:
        log2_minutes, task_sd = pp.log2_minutes(), pp.half_normal("task_sd", priors["task_sd"])
        task_effect = pp.cell(pp.normal("task_effect", 0.0, task_sd, dims="task"))
    pp.observe_successes(pp.cell(intercept) + pp.cell(slope) * pp.cell(log2_minutes) - task_effect)
