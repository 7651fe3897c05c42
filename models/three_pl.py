"""Logistic model with a lower asymptote (guessing), and slopes that may be negative if wanted.

Equation
--------
    P(success of agent i on task j) = g + (1 - g) logistic(x),   g = guessing or guessing[j]
    x = discrimination[j] (ability[i] - difficulty[j])         discrimination = positive
    x = discrimination[j] ability[i] + easiness[j]             discrimination = signed
    ability        ~ Normal(0, ability_sd), summing to zero over the agents
    difficulty     ~ Normal(difficulty_mean, difficulty_sd); easiness likewise, the sign turned
    discrimination ~ LogNormal(0, log_discrimination_sd)       discrimination = positive
    discrimination ~ Normal(1, discrimination_sd)              discrimination = signed
    guessing       ~ Beta(1, priors[guessing]), one for all    guessing = common
                   or one for each task                        guessing = task
                   g = 0                                       guessing = none

Assumes
-------
One ability decides all tasks. Agents without any of it succeed at a rate of g all the same. With
signed slopes a task may be failed the more, the more able an agent is, as one with a wrong key is.

Identified by
-------------
Abilities sum to zero. Slopes have median or mean 1 in the population of tasks, which fixes the unit
and, as most tasks must be solved by the abler agents, the direction. A lower asymptote is told by
agents of low ability who still succeed; where there are none, its prior remains.

Not to be confused with
-----------------------
two_pl, the limit for g = 0. With positive slopes a wrong key can't show: a slope near 0 and a high
asymptote are the nearest thing.

References
----------
1. Birnbaum, A. (1968). Some latent trait models and their use in inferring an examinee's ability.
   In F. M. Lord & M. R. Novick, Statistical theories of mental test scores. Addison-Wesley.
2. San Martin, E., Gonzalez, J., & Tuerlinckx, F. (2015). On the unidentifiability of the
   fixed-effects 3PL model. Psychometrika, 80, 450-467. doi:10.1007/s11336-014-9404-2
"""

from measurebayes.models.testlet import difficulties, discriminations

PRIORS = {
    "ability_sd": 2.5,  # logits, scale of a half-normal
    "difficulty_mean": 5.0,  # logits, standard deviation of a normal around 0
    "difficulty_sd": 5.0,  # logits, scale of a half-normal
    "log_discrimination_sd": 0.5,  # natural logarithms, scale of a half-normal
    "discrimination_sd": 1.0,  # scale of a half-normal
    "guessing": 9.0,  # second parameter of a beta; 9 means a rate of 10 %, a priori
}
OPTIONS = {
    "guessing": ("common", "task", "none"),  # one lower asymptote, one for each task, or none
    "discrimination": ("positive", "signed"),  # whether slopes may be negative
}


def model(pp, data, priors=PRIORS, guessing="common", discrimination="positive"):
    ability_sd = pp.half_normal("ability_sd", priors["ability_sd"])
    ability = pp.zero_sum_normal("ability", ability_sd, dims="agent")

    if discrimination == "signed":
        spread = pp.half_normal("discrimination_sd", priors["discrimination_sd"])
        slope = pp.normal("discrimination", 1.0, spread, dims="task")
        mean = pp.normal("easiness_mean", 0.0, priors["difficulty_mean"])
        sd = pp.half_normal("easiness_sd", priors["difficulty_sd"])
        easiness = pp.normal("easiness", mean, sd, dims="task")
        log_odds = pp.cell(slope) * pp.cell(ability) + pp.cell(easiness)
    else:
        difficulty, slope = difficulties(pp, priors), discriminations(pp, priors)
        log_odds = pp.cell(slope) * (pp.cell(ability) - pp.cell(difficulty))

    if guessing != "none":
        dims = "task" if guessing == "task" else ()
        rate = pp.beta("guessing", 1.0, priors["guessing"], dims=dims)
        # odds of g + (1 - g) logistic(x) are (g + exp(x)) / (1 - g)
        log_rate = pp.cell(pp.log(rate))
        log_odds = log_rate + pp.softplus(log_odds - log_rate) - pp.cell(pp.log(1.0 - rate))
    pp.observe_successes(log_odds)
