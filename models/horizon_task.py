"""Success falls with log human time, and tasks of one length differ in difficulty.

Equation
--------
    logit P(success of agent i on task j)
        = discrimination[j] (steepness[i] (log2_horizon[i] - log2(t[j])) - task_effect[j])
    t              human minutes of the task
    log2_horizon   ~ Normal(log2_horizon_mean, log2_horizon_sd)
    steepness      ~ LogNormal(log_steepness_mean, log_steepness_sd)        slopes = agent
    steepness      ~ LogNormal(0, priors[log_steepness_mean]), one for all  slopes = common
    task_effect    ~ Normal(family_effect[family of j], task_sd)
    family_effect  ~ Normal(0, family_sd)                families = effect, else 0
    discrimination ~ LogNormal(0, log_discrimination_sd) discrimination = task, else 1

Assumes
-------
Human time is known without error. What makes a task harder or easier than others of its length has
a normal distribution in logits and concerns all agents alike. Given the parameters, attempts are
independent. A slope is in logits per doubling of time, for a task of discrimination 1;
log2_horizon is the log2 minutes at which a task of average difficulty has even odds.

Identified by
-------------
Human minutes are data. Effects of tasks have mean 0 in their population, so that horizons carry the
level. Slopes are negative; discriminations have median 1.

Not to be confused with
-----------------------
horizon_logistic, the limit of this model for task_sd = 0: its curve is the average over tasks of a
length, and flatter. Nor with horizon_eiv, where the recorded time is not the task's own.

References
----------
1. De Boeck, P. (2008). Random item IRT models. Psychometrika, 73, 533-559.
   doi:10.1007/s11336-008-9092-x
2. Fischer, G. H. (1973). The linear logistic test model as an instrument in educational research.
   Acta Psychologica, 37, 359-374. doi:10.1016/0001-6918(73)90003-6
"""

from measurebayes.models.horizon_logistic import lines_of_agents

PRIORS = {
    "log2_horizon_mean": 5.0,  # doublings, standard deviation of a normal around 4 (16 minutes)
    "log2_horizon_sd": 4.0,  # doublings, scale of a half-normal
    "log_steepness_mean": 1.0,  # natural logarithms, sd of a normal around 0 (1 logit a doubling)
    "log_steepness_sd": 0.5,  # natural logarithms, scale of a half-normal
    "task_sd": 2.0,  # logits, scale of a half-normal
    "family_sd": 2.0,  # logits, scale of a half-normal
    "log_discrimination_sd": 0.5,  # natural logarithms, scale of a half-normal
}
OPTIONS = {
    "slopes": ("agent", "common"),  # each agent has its own slope, or all have one
    "discrimination": ("one", "task"),  # tasks separate agents equally well, or each in its way
    "families": ("none", "effect"),  # tasks of one family may be harder together, or not
}


def shared_in_families(pp, priors):
    family_sd = pp.half_normal("family_sd", priors["family_sd"])
    return pp.task(pp.normal("family_effect", 0.0, family_sd, dims="family"))


def model(pp, data, priors=PRIORS, slopes="agent", discrimination="one", families="none"):
    intercept, slope = lines_of_agents(pp, priors, slopes)

    usual = shared_in_families(pp, priors) if families == "effect" else 0.0
    task_sd = pp.half_normal("task_sd", priors["task_sd"])
    task_effect = pp.normal("task_effect", usual, task_sd, dims="task")

    log_odds = pp.cell(intercept) + pp.cell(slope) * pp.cell(pp.log2_minutes())
    log_odds = log_odds - pp.cell(task_effect)
    if discrimination == "task":
        log_spread = pp.half_normal("log_discrimination_sd", priors["log_discrimination_sd"])
        log_odds = pp.cell(pp.log_normal("discrimination", 0.0, log_spread, dims="task")) * log_odds
    pp.observe_successes(log_odds)
