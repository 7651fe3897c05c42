"""Multidimensional model: agents differ in several traits, on which tasks load differently.

Equation
--------
    logit P(success of agent i on task j) = easiness[j] + sum over k of loading[j, k] trait[i, k]
    trait[., k] ~ Normal(0, trait_sd[k]), summing to zero over the agents, K = dimensions of them
    easiness ~ Normal(easiness_mean, easiness_sd)
    loading[., 0] ~ Normal(1, loading_spread), the others Normal(0, 1)    loadings = explored
    loading[., k] ~ Normal(1, loading_spread[k]), but 0 unless the variable allowed_loading of the
        data says otherwise                                               loadings = allowed

Assumes
-------
Traits have nothing to do with each other, and add up: little of one can be made up for by much of
another. A dimension that the data don't need has a trait_sd near 0, so that K may be generous.

Identified by
-------------
Traits sum to zero, which fixes levels; loadings of mean 1, or of mean 0 and variance 1, fix units.
loadings = explored: the first dimension points to where tasks load on average; the others are told
apart by their trait_sd alone, hence badly where these are alike, and not in sign. Draws are
therefore brought to the same axes (ROTATED) before they are kept: traits in standard deviations,
loadings in logits for each. Easiness is the log odds of the average agent.
loadings = allowed: every dimension must have tasks of its own, which load positively on average.

Not to be confused with
-----------------------
two_pl, whose slopes are positive: with one dimension this model lets them be negative. Nor with
bifactor, whose further dimensions are those of families.

References
----------
1. Reckase, M. D. (2009). Multidimensional item response theory. Springer.
   doi:10.1007/978-0-387-89976-3
2. Bafumi, J., Gelman, A., Park, D. K., & Kaplan, N. (2005). Practical issues in implementing and
   understanding Bayesian ideal point estimation. Political Analysis, 13, 171-187.
   doi:10.1093/pan/mpi010
"""

PRIORS = {
    "easiness_mean": 5.0,  # logits, standard deviation of a normal around 0
    "easiness_sd": 5.0,  # logits, scale of a half-normal
    "trait_sd": 2.0,  # logits, scale of a half-normal
    "loading_spread": 0.5,  # scale of a half-normal
}
OPTIONS = {
    "dimensions": 2,  # how many traits there are
    "loadings": ("explored", "allowed"),  # any task on any trait, or as allowed_loading says
}
ROTATED = ("loading", "trait")  # only their products are in the data


def model(pp, data, priors=PRIORS, dimensions=2, loadings="explored"):
    easiness_mean = pp.normal("easiness_mean", 0.0, priors["easiness_mean"])
    easiness_sd = pp.half_normal("easiness_sd", priors["easiness_sd"])
    easiness = pp.normal("easiness", easiness_mean, easiness_sd, dims="task")

    each = ("task", "dimension")
    if loadings == "allowed":
        allowed = pp.allowed_loadings()
        spread = pp.half_normal("loading_spread", priors["loading_spread"], dims="dimension")
        free_loading = pp.normal("free_loading", 1.0, spread, dims=each)
        loading = pp.deterministic("loading", free_loading * allowed, each)
    else:
        first = (pp.axis("dimension", dimensions) == 0) * 1.0
        spread = pp.half_normal("loading_spread", priors["loading_spread"])
        loading = pp.normal("loading", first, spread * first + (1.0 - first), dims=each)
    trait_sd = pp.half_normal("trait_sd", priors["trait_sd"], dims="dimension")
    trait = pp.zero_sum_normal("trait", trait_sd, dims=("dimension", "agent"))
    pp.observe_successes(pp.cell(easiness) + pp.cell_products(loading, trait, "dimension"))
