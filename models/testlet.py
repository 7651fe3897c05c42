"""Tasks of one family succeed and fail together: testlet model with an effect of each agent there.

Equation
--------
    logit P(success of agent i on task j)
        = discrimination[j] (ability[i] + testlet_effect[i, family of j] - difficulty[j])
    ability        ~ Normal(0, ability_sd), summing to zero over the agents
    testlet_effect ~ Normal(0, testlet_sd[family])
    testlet_sd     ~ HalfNormal(testlet_scale)
    difficulty     ~ Normal(difficulty_mean, difficulty_sd)
    discrimination ~ LogNormal(0, log_discrimination_sd)     discrimination = task, else 1

Assumes
-------
Agents differ in one ability, and each is better or worse at each family as a whole than its ability
says. Such effects have nothing to do with each other, nor with ability. A family of one task has
effects too: they are what attempts at that task have in common beyond ability and difficulty.

Identified by
-------------
Abilities sum to zero, which fixes the level; effects have mean 0 in their population. An effect is
told from ability by other families, and a family's testlet_sd from the noise of attempts by several
tasks of the family, or several attempts at one.

Not to be confused with
-----------------------
family effects of horizon_task, which are the same for all agents: a family that is hard for all is
no local dependence. Nor with bifactor, where tasks of a family hang on its effect more or less.

References
----------
1. Bradlow, E. T., Wainer, H., & Wang, X. (1999). A Bayesian random effects model for testlets.
   Psychometrika, 64, 153-168. doi:10.1007/BF02294533
2. Wang, W.-C., & Wilson, M. (2005). The Rasch testlet model. Applied Psychological Measurement,
   29, 126-149. doi:10.1177/0146621604271053
"""

PRIORS = {
    "ability_sd": 2.5,  # logits, scale of a half-normal
    "testlet_scale": 1.5,  # logits, scale of a half-normal
    "difficulty_mean": 5.0,  # logits, standard deviation of a normal around 0
    "difficulty_sd": 5.0,  # logits, scale of a half-normal
    "log_discrimination_sd": 0.5,  # natural logarithms, scale of a half-normal
}
OPTIONS = {
    "discrimination": ("one", "task"),  # tasks separate agents equally well, or each in its way
}


def effects_of_families(pp, priors):
    testlet_scale = pp.half_normal("testlet_scale", priors["testlet_scale"])
    testlet_sd = pp.half_normal("testlet_sd", testlet_scale, dims="family")
    return pp.normal("testlet_effect", 0.0, testlet_sd, dims=("agent", "family"))


def difficulties(pp, priors):
    difficulty_mean = pp.normal("difficulty_mean", 0.0, priors["difficulty_mean"])
    difficulty_sd = pp.half_normal("difficulty_sd", priors["difficulty_sd"])
    return pp.normal("difficulty", difficulty_mean, difficulty_sd, dims="task")


def discriminations(pp, priors):
    log_spread = pp.half_normal("log_discrimination_sd", priors["log_discrimination_sd"])
    return pp.log_normal("discrimination", 0.0, log_spread, dims="task")


def model(pp, data, priors=PRIORS, discrimination="one"):
    ability_sd = pp.half_normal("ability_sd", priors["ability_sd"])
    ability = pp.zero_sum_normal("ability", ability_sd, dims="agent")
    testlet_effect = effects_of_families(pp, priors)
    difficulty = difficulties(pp, priors)

    log_odds = pp.cell(ability) + pp.cell(testlet_effect) - pp.cell(difficulty)
    if discrimination == "task":
        log_odds = pp.cell(discriminations(pp, priors)) * log_odds
    pp.observe_successes(log_odds)
