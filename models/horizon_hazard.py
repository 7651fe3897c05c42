"""Success is surviving the task's human time at a constant or Weibull hazard of each agent.

Equation
--------
    P(success of agent i on task j) = 2^(-(t[j] / h[i])^shape[i])
    t human minutes of the task, h = 2^log2_horizon minutes
    log2_horizon ~ Normal(log2_horizon_mean, log2_horizon_sd)
    shape = 1                                          shape = constant
    shape ~ LogNormal(0, priors[log_shape_mean])       shape = common
    shape ~ LogNormal(log_shape_mean, log_shape_sd)    shape = agent

Assumes
-------
An agent fails as soon as something goes wrong; what goes wrong comes at a rate that stays the same
(shape 1), falls (below 1) or rises (above 1) as the human time of the task passes. Human time is
known without error and is all that matters of a task; attempts are independent.

Identified by
-------------
Human minutes are data; h is where success has even odds, whatever the shape.

Not to be confused with
-----------------------
horizon_logistic, whose curve is symmetric about the horizon on log time: here very short tasks
fail more often than there and very long ones less gradually. Nor with a hazard per step of the
agent's own: the time is a person's.

References
----------
1. Ord, T. (2025). Is there a half-life for the success rates of AI agents? arXiv:2505.05115.
   doi:10.48550/arXiv.2505.05115
2. Weibull, W. (1951). A statistical distribution function of wide applicability. Journal of
   Applied Mechanics, 18, 293-297. doi:10.1115/1.4010337
"""

PRIORS = {
    "log2_horizon_mean": 5.0,  # doublings, standard deviation of a normal around 4 (16 minutes)
    "log2_horizon_sd": 4.0,  # doublings, scale of a half-normal
    "log_shape_mean": 0.5,  # natural logarithms, sd of a normal around 0 (constant hazard)
    "log_shape_sd": 0.5,  # natural logarithms, scale of a half-normal
}
OPTIONS = {
    "shape": ("constant", "common", "agent"),  # hazard constant, of one shape, of one each agent
}
LOG_2 = 0.6931471805599453
LOG_LOG_2 = -0.36651292058166435


def model(pp, data, priors=PRIORS, shape="constant"):
    mean = pp.normal("log2_horizon_mean", 4.0, priors["log2_horizon_mean"])
    spread = pp.half_normal("log2_horizon_sd", priors["log2_horizon_sd"])
    log2_horizon = pp.normal("log2_horizon", mean, spread, dims="agent")

    power = 1.0
    if shape == "common":
        power = pp.log_normal("shape", 0.0, priors["log_shape_mean"])
    if shape == "agent":
        typical = pp.normal("log_shape_mean", 0.0, priors["log_shape_mean"])
        log_shape_sd = pp.half_normal("log_shape_sd", priors["log_shape_sd"])
        power = pp.log_normal("shape", typical, log_shape_sd, dims="agent")

    doublings = pp.cell(pp.log2_minutes()) - pp.cell(log2_horizon)
    log_hazard = LOG_LOG_2 + LOG_2 * pp.cell(power) * doublings
    pp.observe_successes(pp.survival_log_odds(log_hazard))
