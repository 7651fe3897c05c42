"""Success rises with ability and falls with human time, which need not add up.

Equation
--------
    logit P(success of agent i on task j) = ability[i] - difficulty[j]
                               - sum over k, l of size[k, l] (I[i, k] - 1/2) (J[j, l] - 1/2)
    ability, difficulty  as in the model additive: difficulty is a broken line of log2 time
    I[i, k]       logistic rise from 0 to 1, of ability around -1, 0 or 1 of its sd
    J[j, l]       straight rise from 0 to 1, of log2 time within piece l
    size[k, l]    = bound[k, l] tanh(interaction[k, l])
    interaction   ~ Normal(0, interaction_sd)

Assumes
-------
Nobody does better at a longer task, nor an abler agent worse than a less able one at any length
(single cancellation); beyond that, length may cost some agents more than others. Human time is
known without error and is all that matters of a task; attempts are independent.

Identified by
-------------
As the model additive; products of centred rises I and J hold nothing that adds up. Interactions
may have either sign: positive ones make length cost able agents more, negative ones less, each for
its own part of ability and time. The bound is a smooth minimum of 2 ability_sd / (number of
pieces) and 2 steepness[l] width[l] / 3, so that the sum over l can't undo the rise with ability,
nor the sum over k the fall with time. So the model has surfaces on all sides of each additive one,
with signs that may differ from place to place, but not every monotone surface.

Not to be confused with
-----------------------
additive, its limit for interaction_sd = 0; horizon_logistic with slopes=agent, whose curves may
cross and so break single cancellation; two_pl, where tasks of one length differ.

References
----------
1. Scheiblechner, H. (1999). Additive conjoint isotonic probabilistic models (ADISOP).
   Psychometrika, 64, 295-316. doi:10.1007/BF02294297
2. Ramsay, J. O. (1988). Monotone regression splines in action. Statistical Science, 3, 425-441.
   doi:10.1214/ss/1177012761
"""

PRIORS = {
    "ability_sd": 2.5,  # logits, scale of a half-normal
    "level": 5.0,  # logits, standard deviation of a normal around 0
    "log_steepness_mean": 1.0,  # natural logarithms, sd of a normal around 0 (1 logit a doubling)
    "log_steepness_sd": 1.0,  # natural logarithms, scale of a half-normal
    "interaction_sd": 0.5,  # 0.2, 0.5, 1 are 20, 46, 76 % of the bound; scale of a half-normal
}
QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)


def model(pp, data, priors=PRIORS):
    log2_minutes = pp.log2_minutes()
    places = set(log2_minutes.quantile(QUANTILES).round(2).values.tolist())
    middle = pp.axis("piece", sorted(places))
    start = (middle.shift(piece=1) + middle) / 2
    end = (middle + middle.shift(piece=-1)) / 2
    inside = {"min": start.fillna(-float("inf")), "max": end.fillna(float("inf"))}
    within = log2_minutes.clip(**inside) - middle.median().clip(**inside)
    # The outer pieces go on for ever, but their interaction is limited to a stretch on both sides.
    start, end = (
        start.fillna((2 * middle - end).fillna(middle - 1)),
        end.fillna((2 * middle - start).fillna(middle + 1)),
    )
    rise = ((log2_minutes - start) / (end - start)).clip(0.0, 1.0) - 0.5

    ability_sd = pp.half_normal("ability_sd", priors["ability_sd"])
    ability = pp.zero_sum_normal("ability", ability_sd, dims="agent")

    level = pp.normal("level", 0.0, priors["level"])
    typical = pp.normal("log_steepness_mean", 0.0, priors["log_steepness_mean"])
    spread = pp.half_normal("log_steepness_sd", priors["log_steepness_sd"])
    steepness = pp.log_normal("steepness", typical, spread, dims="piece")
    difficulty = level + pp.sum(steepness * within, "piece")

    ramp = pp.axis("ramp", [-1.0, 0.0, 1.0])
    able = pp.logistic(2.0 * (ability / ability_sd - ramp)) - 0.5
    interaction_sd = pp.half_normal("interaction_sd", priors["interaction_sd"])
    dims = ("ramp", "piece")
    interaction = pp.normal("interaction", 0.0, interaction_sd, dims=dims)
    share = 2.0 * pp.logistic(2.0 * interaction) - 1.0  # tanh
    by_ability, by_time = ability_sd / len(middle), steepness * (end - start) / len(ramp)
    bound = 2.0 * (by_ability**-4 + by_time**-4) ** -0.25  # a smooth minimum, above neither
    size = pp.deterministic("size", share * bound)

    bent = pp.sum(pp.cell(able) * pp.cell(pp.sum(size * rise, "piece")), "ramp")
    pp.observe_successes(pp.cell(ability) - pp.cell(difficulty) - bent)
