"""Two-parameter logistic model with a hierarchical population of agents and of tasks.

Equation
--------
    logit P(success of agent i on task j) = discrimination[j] (ability[i] - difficulty[j])
    ability        ~ Normal(0, ability_sd), summing to zero over the agents
    difficulty     ~ Normal(difficulty_mean, difficulty_sd)
    discrimination ~ LogNormal(0, log_discrimination_sd)

Assumes
-------
One ability decides all tasks; success never falls with ability; given the parameters, attempts are
independent. Abilities and difficulties are in logits of a task of discrimination 1.

Identified by
-------------
Abilities sum to zero, which fixes the level. Discriminations have median 1 in the population of
tasks, which fixes the unit. They are positive, which fixes the direction.

Not to be confused with
-----------------------
The form with ability SD 1 and free mean discrimination: multiply discriminations and divide
abilities and difficulties by ability_sd to compare. Nor with the intercept form a * theta + d,
whose d is the easiness -discrimination * difficulty.

References
----------
1. Birnbaum, A. (1968). Some latent trait models and their use in inferring an examinee's ability.
   In F. M. Lord & M. R. Novick, Statistical theories of mental test scores. Addison-Wesley.
2. Patz, R. J., & Junker, B. W. (1999). A straightforward approach to Markov chain Monte Carlo
   methods for item response models. Journal of Educational and Behavioral Statistics, 24, 146-178.
   doi:10.3102/10769986024002146
"""

PRIORS = {
    "ability_sd": 2.5,  # logits, scale of a half-normal
    "difficulty_mean": 5.0,  # logits, standard deviation of a normal around 0
    "difficulty_sd": 5.0,  # logits, scale of a half-normal
    "log_discrimination_sd": 0.5,  # natural logarithms, scale of a half-normal
}


def model(pp, data, priors=PRIORS):
    ability_sd = pp.half_normal("ability_sd", priors["ability_sd"])
    ability = pp.zero_sum_normal("ability", ability_sd, dims="agent")

    difficulty_mean = pp.normal("difficulty_mean", 0.0, priors["difficulty_mean"])
    difficulty_sd = pp.half_normal("difficulty_sd", priors["difficulty_sd"])
    difficulty = pp.normal("difficulty", difficulty_mean, difficulty_sd, dims="task")

    log_spread = pp.half_normal("log_discrimination_sd", priors["log_discrimination_sd"])
    discrimination = pp.log_normal("discrimination", 0.0, log_spread, dims="task")

    pp.observe_successes(pp.cell(discrimination) * (pp.cell(ability) - pp.cell(difficulty)))
