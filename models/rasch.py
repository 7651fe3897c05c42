"""Rasch model with a hierarchical population of agents and of tasks.

Equation
--------
    logit P(success of agent i on task j) = ability[i] - difficulty[j]
    ability    ~ Normal(0, ability_sd), summing to zero over the agents
    difficulty ~ Normal(difficulty_mean, difficulty_sd)

Assumes
-------
One ability decides all tasks; every task separates agents equally well; given ability and
difficulty, attempts are independent. Abilities and difficulties are in logits.

Identified by
-------------
Abilities sum to zero, so that only their differences and the mean difficulty carry the level.
A task that was always or never solved keeps a proper posterior from the population of tasks.

Not to be confused with
-----------------------
Conditional or joint maximum likelihood Rasch estimation, which gives such a task an infinite
difficulty; nor with a logistic regression on human time, which has no difficulty of its own.

References
----------
1. Rasch, G. (1960). Probabilistic models for some intelligence and attainment tests.
   Copenhagen: Danish Institute for Educational Research.
2. De Boeck, P. (2008). Random item IRT models. Psychometrika, 73, 533-559.
   doi:10.1007/s11336-008-9092-x
"""

PRIORS = {
    "ability_sd": 2.5,  # logits, scale of a half-normal
    "difficulty_mean": 5.0,  # logits, standard deviation of a normal around 0
    "difficulty_sd": 5.0,  # logits, scale of a half-normal
}


def model(pp, data, priors=PRIORS):
    ability_sd = pp.half_normal("ability_sd", priors["ability_sd"])
    ability = pp.zero_sum_normal("ability", ability_sd, dims="agent")

    difficulty_mean = pp.normal("difficulty_mean", 0.0, priors["difficulty_mean"])
    difficulty_sd = pp.half_normal("difficulty_sd", priors["difficulty_sd"])
    difficulty = pp.normal("difficulty", difficulty_mean, difficulty_sd, dims="task")

    pp.observe_successes(pp.cell(ability) - pp.cell(difficulty))
