"""Time horizons where human times are measured with error (errors in variables).

Equation
--------
    logit P(success of agent i on task j)
        = steepness[i] (log2_horizon[i] - log2_minutes[j]) - task_effect[j]
    log2_minutes, the task's own time, which nobody observes
        ~ Normal(length_mean, length_sd)                                  lengths = normal
        ~ Uniform over length_range around length_mean, with ends that
          Normal(0, priors[length_edge]) makes soft                       lengths = flat
        ~ Normal(family_length[family of j], length_sd),
          family_length ~ Normal(length_mean, family_length_sd)           lengths = family
    a timed person         log2 time ~ Normal(log2_minutes[j], timing_sd[suite of j])
    a mean of n such       log2 time ~ Normal(log2_minutes[j], timing_sd[suite of j] / sqrt(n))
    somebody's estimate    log2 time ~ Normal(log2_minutes[j] + estimate_bias, estimate_sd)
    a person who failed    log2 time of success > time of failure       failed = censored
    log2_horizon ~ Normal(log2_horizon_mean, log2_horizon_sd)
    steepness    ~ LogNormal(log_steepness_mean, log_steepness_sd)        slopes = agent
    steepness    ~ LogNormal(0, priors[log_steepness_mean]), one for all  slopes = common
    task_effect  ~ Normal(0, task_sd)                                     tasks = effect
    task_effect  ~ Normal(family_effect[family of j], task_sd),
        family_effect ~ Normal(0, family_sd)                              tasks = family
    task_effect  = 0                                                      tasks = none
    difficulty = (mean steepness) (log2_minutes - length_mean) + task_effect, which is drawn in
    place of task_effect, as centred_intercept = steepness (log2_horizon - length_mean) is of
    log2_horizon: the same density in a form that samplers find easier

Assumes
-------
log2_minutes is the mean over people of log2 time: what a geometric mean of many would tend to.
Times of one task are log-normal, with one spread a suite. Estimates err alike for all tasks, and
may be too short or too long on the whole. People who failed are as the others (failed = drop) or
would have needed longer than they took (failed = censored). Errors of times have nothing to do with
how agents fare, given log2_minutes.

Identified by
-------------
timing_sd by tasks that several people were timed on; estimate_sd and estimate_bias by tasks that
have an estimate and timed people. Where the data have no such tasks, the priors of these three say
how large the errors are, and results are conditional on them.

Not to be confused with
-----------------------
horizon_task, the limit for errors of 0; and the latent abilities of rasch, to which human time says
nothing. Attempts in a fixed window (minutes_kind "window") are no times to completion: the minutes
of such a task count as an estimate.

References
----------
1. Carroll, R. J., Ruppert, D., Stefanski, L. A., & Crainiceanu, C. M. (2006). Measurement error in
   nonlinear models (2nd ed.). Chapman & Hall/CRC. doi:10.1201/9781420010138
2. Richardson, S., & Gilks, W. R. (1993). A Bayesian approach to measurement error problems in
   epidemiology using conditional independence models. American Journal of Epidemiology, 138,
   430-442. doi:10.1093/oxfordjournals.aje.a116875
"""

from math import log

from measurebayes.models.horizon_logistic import lines_of_agents
from measurebayes.models.horizon_task import shared_in_families

TIME_PRIORS = {
    "length_mean": 5.0,  # doublings, standard deviation of a normal around 4 (16 minutes)
    "length_sd": 4.0,  # doublings, scale of a half-normal
    "length_range": 10.0,  # doublings, scale of a half-normal
    "length_edge": 0.5,  # doublings, over which a flat population ends
    "family_length_sd": 4.0,  # doublings, scale of a half-normal
    "timing_sd": 1.25,  # doublings, median of a log-normal
    "log_timing_sd": 0.3,  # natural logarithms, its spread
    "estimate_sd": 1.5,  # doublings, median of a log-normal
    "log_estimate_sd": 0.3,  # natural logarithms, its spread
    "estimate_bias": 1.0,  # doublings, standard deviation of a normal around 0
}
PRIORS = {
    "log2_horizon_mean": 5.0,  # doublings, standard deviation of a normal around 4 (16 minutes)
    "log2_horizon_sd": 4.0,  # doublings, scale of a half-normal
    "log_steepness_mean": 1.0,  # natural logarithms, sd of a normal around 0 (1 logit a doubling)
    "log_steepness_sd": 0.5,  # natural logarithms, scale of a half-normal
    "task_sd": 2.0,  # logits, scale of a half-normal
    "family_sd": 2.0,  # logits, scale of a half-normal
    **TIME_PRIORS,
}
OPTIONS = {
    "slopes": ("agent", "common"),  # each agent has its own slope, or all have one
    "tasks": ("effect", "family", "none"),  # tasks of one true length differ in difficulty, those
    # of a family go together in it, or they do not differ
    "lengths": ("normal", "flat", "family"),  # the population of true lengths, or one a family
    "failed": ("drop", "censored"),  # what people who failed tell about the length
}


def measured(pp, priors, origin, slope, tasks="effect", lengths="normal", failed="drop"):
    if lengths == "flat":
        width = pp.half_normal("length_range", priors["length_range"])
        place = pp.beta("length_place", 1.0, 1.0, dims="task")
        usual, spread = origin + width * (place - 0.5), priors["length_edge"]
    else:
        usual, spread = origin, pp.half_normal("length_sd", priors["length_sd"])
    if lengths == "family":
        between = pp.half_normal("family_length_sd", priors["family_length_sd"])
        usual = pp.task(pp.normal("family_length", usual, between, dims="family"))

    suite, scale = pp.suites().dims, log(priors["timing_sd"])
    timing_sd = pp.log_normal("timing_sd", scale, priors["log_timing_sd"], dims=suite)
    people = ("timed", "recorded", "failed") if failed == "censored" else ("timed", "recorded")
    errors = {kind: (0.0, pp.timed(kind, timing_sd) * pp.averaged(kind) ** -0.5) for kind in people}
    if pp.times("estimated"):
        error = pp.log_normal("estimate_sd", log(priors["estimate_sd"]), priors["log_estimate_sd"])
        errors["estimated"] = pp.normal("estimate_bias", 0.0, priors["estimate_bias"]), error

    task_sd = None if tasks == "none" else pp.half_normal("task_sd", priors["task_sd"])
    shared = shared_in_families(pp, priors) if tasks == "family" else 0.0
    known, typical = (usual, spread, errors), -pp.mean(slope)
    log2_minutes, difficulty = pp.measured_lengths(*known, typical, task_sd, origin, shared)
    if tasks == "none":
        return log2_minutes, 0.0
    effect = difficulty - typical * (log2_minutes - origin)
    return log2_minutes, pp.cell(pp.deterministic("task_effect", effect))


def model(pp, data, priors=PRIORS, slopes="agent", tasks="effect", lengths="normal", failed="drop"):
    origin = pp.normal("length_mean", 4.0, priors["length_mean"])
    intercept, slope = lines_of_agents(pp, priors, slopes, origin=origin)
    log2_minutes, task_effect = measured(pp, priors, origin, slope, tasks, lengths, failed)
    pp.observe_successes(pp.cell(intercept) + pp.cell(slope) * pp.cell(log2_minutes) - task_effect)
