"""Bifactor model: each task hangs on a general ability and on an effect of its family, by loadings.

Equation
--------
    logit P(success of agent i on task j) = discrimination[j] (ability[i] - difficulty[j])
                                          + family_loading[j] testlet_effect[i, family of j]
    ability        ~ Normal(0, ability_sd), summing to zero over the agents
    testlet_effect ~ Normal(0, testlet_sd[family]),  testlet_sd ~ HalfNormal(testlet_scale)
    difficulty     ~ Normal(difficulty_mean, difficulty_sd)
    discrimination ~ LogNormal(0, log_discrimination_sd)
    family_loading ~ LogNormal(0, log_family_loading_sd)

Assumes
-------
One general ability concerns all tasks, and one further dimension each family; all are independent.
A task that separates agents well in general need not hang on its family much, and the reverse.

Identified by
-------------
Abilities sum to zero; discriminations and family loadings have median 1, which fixes the units, and
are positive, which fixes the directions. The spread of a family's dimension is its testlet_sd.

Not to be confused with
-----------------------
testlet with discriminations, whose two loadings have one ratio in all tasks of a family; nor with
mirt, whose further dimensions need not follow families. In the form with standard normal factors
the loadings are ability_sd discrimination[j] and testlet_sd[family of j] family_loading[j].

References
----------
1. Gibbons, R. D., & Hedeker, D. R. (1992). Full-information item bi-factor analysis. Psychometrika,
   57, 423-436. doi:10.1007/BF02295430
2. Rijmen, F. (2010). Formal relations and an empirical comparison among the bi-factor, the testlet,
   and a second-order multidimensional IRT model. Journal of Educational Measurement, 47, 361-372.
   doi:10.1111/j.1745-3984.2010.00118.x
"""

from measurebayes.models.testlet import difficulties, discriminations, effects_of_families

PRIORS = {
    "ability_sd": 2.5,  # logits, scale of a half-normal
    "testlet_scale": 1.5,  # logits, scale of a half-normal
    "difficulty_mean": 5.0,  # logits, standard deviation of a normal around 0
    "difficulty_sd": 5.0,  # logits, scale of a half-normal
    "log_discrimination_sd": 0.5,  # natural logarithms, scale of a half-normal
    "log_family_loading_sd": 0.5,  # natural logarithms, scale of a half-normal
}


def model(pp, data, priors=PRIORS):
    ability_sd = pp.half_normal("ability_sd", priors["ability_sd"])
    ability = pp.zero_sum_normal("ability", ability_sd, dims="agent")
    testlet_effect = effects_of_families(pp, priors)
    difficulty, discrimination = difficulties(pp, priors), discriminations(pp, priors)

    log_spread = pp.half_normal("log_family_loading_sd", priors["log_family_loading_sd"])
    family_loading = pp.log_normal("family_loading", 0.0, log_spread, dims="task")

    general = pp.cell(discrimination) * (pp.cell(ability) - pp.cell(difficulty))
    pp.observe_successes(general + pp.cell(family_loading) * pp.cell(testlet_effect))
