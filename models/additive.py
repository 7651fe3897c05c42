"""Ability less a difficulty that rises with log human time along any broken line.

Equation
--------
    logit P(success of agent i on task j) = ability[i] - difficulty[j]
    difficulty[j] = level + steepness summed over log2 time from the middle of all tasks to t[j]
    t          human minutes of the task; steepness is constant within each of about five pieces
    ability    ~ Normal(0, ability_sd), summing to zero over the agents
    steepness  ~ LogNormal(log_steepness_mean, log_steepness_sd) for each piece

Assumes
-------
Ability and length add up in logits: no agent loses more than another by a longer task. Difficulty
rises with human time; human time is known without error and is all that matters of a task; given
the parameters, attempts are independent. Steepness is in logits per doubling of time.

Identified by
-------------
Abilities sum to zero. Pieces lie around the 10, 30, 50, 70 and 90 % quantiles of the tasks' log2
minutes, which label them, and break halfway between; the outer two go on for ever. The level is
the difficulty at the median. Pieces with few tasks take after the others.

Not to be confused with
-----------------------
horizon_logistic with slopes=common, whose difficulty is a straight line: the limit of this model
for log_steepness_sd = 0. Nor with rasch, where a task's length doesn't tell its difficulty.

References
----------
1. Luce, R. D., & Tukey, J. W. (1964). Simultaneous conjoint measurement: a new type of fundamental
   measurement. Journal of Mathematical Psychology, 1, 1-27. doi:10.1016/0022-2496(64)90015-X
2. Fischer, G. H. (1973). The linear logistic test model as an instrument in educational research.
   Acta Psychologica, 37, 359-374. doi:10.1016/0001-6918(73)90003-6
"""

PRIORS = {
    "ability_sd": 2.5,  # logits, scale of a half-normal
    "level": 5.0,  # logits, standard deviation of a normal around 0
    "log_steepness_mean": 1.0,  # natural logarithms, sd of a normal around 0 (1 logit a doubling)
    "log_steepness_sd": 1.0,  # natural logarithms, scale of a half-normal
}
QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)


def model(pp, data, priors=PRIORS):
    log2_minutes = pp.log2_minutes()
    places = set(log2_minutes.quantile(QUANTILES).round(2).values.tolist())
    middle = pp.axis("piece", sorted(places))
    start = ((middle.shift(piece=1) + middle) / 2).fillna(-float("inf"))
    end = ((middle + middle.shift(piece=-1)) / 2).fillna(float("inf"))
    within = log2_minutes.clip(start, end) - middle.median().clip(start, end)

    ability_sd = pp.half_normal("ability_sd", priors["ability_sd"])
    ability = pp.zero_sum_normal("ability", ability_sd, dims="agent")

    level = pp.normal("level", 0.0, priors["level"])
    typical = pp.normal("log_steepness_mean", 0.0, priors["log_steepness_mean"])
    spread = pp.half_normal("log_steepness_sd", priors["log_steepness_sd"])
    steepness = pp.log_normal("steepness", typical, spread, dims="piece")
    difficulty = pp.deterministic("difficulty", level + pp.sum(steepness * within, "piece"))

    pp.observe_successes(pp.cell(ability) - pp.cell(difficulty))
