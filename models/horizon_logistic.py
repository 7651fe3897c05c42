"""Success falls with log human time along a logistic curve of each agent (time horizon model).

Equation
--------
    logit P(success of agent i on task j) = intercept[i] + slope[i] log2(t[j])
                                          = steepness[i] (log2_horizon[i] - log2(t[j]))
    t            human minutes of the task
    log2_horizon ~ Normal(log2_horizon_mean, log2_horizon_sd)
    steepness    ~ LogNormal(log_steepness_mean, log_steepness_sd)       slopes = agent
    steepness    ~ LogNormal(0, priors[log_steepness_mean]), one for all  slopes = common
    slope = -steepness,  intercept = steepness log2_horizon
    centred_intercept = steepness (log2_horizon - 4), the log odds at 16 minutes, which the text
    draws in place of log2_horizon: the same density in a form that samplers find easier
    lapse: P = (1 - lapse) logistic(above),  lapse ~ Beta(1, priors[lapse]),
    one for all (lapse = common) or for each agent (lapse = agent)

Assumes
-------
Human time is known without error and is all that matters of a task; success falls with it; given
the parameters, attempts are independent. A slope is in logits per doubling of time; log2_horizon is
the log2 of the minutes at which success has even odds.

Identified by
-------------
Human minutes are data, so that an agent's two parameters are those of a regression line. Slopes are
negative. Agents of whom little is known take after the others. A lapse is told by failures on tasks
far below an agent's horizon; where there are none, its prior remains.

Not to be confused with
-----------------------
Separate regressions of each agent, whose horizons are infinite where an agent solved everything;
nor with models of tasks (rasch, two_pl, horizon_task), which let tasks of one length differ: where
they do, curves of this model are flatter than those of a single task, and 80 % horizons shorter.

With weights=family the posterior is that of a power likelihood: a cell's density is raised to
1 / (attempts sqrt(tasks of its family)), scaled so that an agent's weights sum to the effective
number of its tasks, as published point estimates weigh tasks. It is no probability of the data: it
can't be calibrated by simulation, and its intervals are what those weights make them.

References
----------
1. Kwa, T., West, B., Becker, J., et al. (2025). Measuring AI ability to complete long tasks.
   arXiv:2503.14499. doi:10.48550/arXiv.2503.14499
2. De Boeck, P., & Wilson, M. (Eds.) (2004). Explanatory item response models. Springer.
   doi:10.1007/978-1-4757-3990-9
"""

PRIORS = {
    "log2_horizon_mean": 5.0,  # doublings, standard deviation of a normal around 4 (16 minutes)
    "log2_horizon_sd": 4.0,  # doublings, scale of a half-normal
    "log_steepness_mean": 1.0,  # natural logarithms, sd of a normal around 0 (1 logit a doubling)
    "log_steepness_sd": 0.5,  # natural logarithms, scale of a half-normal
    "lapse": 19.0,  # second parameter of a beta; 19 means 5 % of attempts lapse, a priori
}
OPTIONS = {
    "slopes": ("agent", "common"),  # each agent has its own slope, or all have one
    "lapse": ("none", "common", "agent"),  # whether easy tasks fail sometimes, for all or for each
    "weights": ("none", "family"),  # large families count less: a power likelihood
}


def lines_of_agents(pp, priors, slopes, mean=None, origin=4.0):
    if slopes == "agent":
        typical = pp.normal("log_steepness_mean", 0.0, priors["log_steepness_mean"])
        spread = pp.half_normal("log_steepness_sd", priors["log_steepness_sd"])
        steepness = pp.log_normal("steepness", typical, spread, dims="agent")
    else:
        steepness = pp.log_normal("steepness", 0.0, priors["log_steepness_mean"])
    if mean is None:
        mean = pp.normal("log2_horizon_mean", 4.0, priors["log2_horizon_mean"])
    spread = steepness * pp.half_normal("log2_horizon_sd", priors["log2_horizon_sd"])
    centred = pp.normal("centred_intercept", steepness * (mean - origin), spread, dims="agent")
    log2_horizon = pp.deterministic("log2_horizon", centred / steepness + origin)
    slope = pp.deterministic("slope", -steepness)
    return pp.deterministic("intercept", steepness * log2_horizon), slope


def model(pp, data, priors=PRIORS, slopes="agent", lapse="none", weights="none"):
    intercept, slope = lines_of_agents(pp, priors, slopes)
    log_odds = pp.cell(intercept) + pp.cell(slope) * pp.cell(pp.log2_minutes())
    if lapse != "none":
        rate = pp.beta("lapse", 1.0, priors["lapse"], dims="agent" if lapse == "agent" else ())
        # odds of (1 - lapse) logistic(x) are (1 - lapse) / (lapse + exp(-x))
        log_odds = pp.cell(pp.log(1.0 - rate) - pp.log(rate)) - pp.softplus(
            -log_odds - pp.cell(pp.log(rate))
        )
    pp.observe_successes(log_odds, pp.family_weights() if weights == "family" else None)
