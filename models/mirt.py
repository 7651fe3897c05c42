"""Multidimensional model: agents differ in several traits, on which tasks load differently.

Equation
--------
    logit P(success of agent i on task j) = easiness[j] + sum over k of loading[j, k] trait[i, k]
    trait    ~ Normal(0, 1), K = dimensions of them
    easiness ~ Normal(easiness_mean, easiness_sd)
    loading  ~ Normal(loading_mean[k], loading_sd[k])
    loading_sd ~ HalfNormal(priors[loading_sd]), one a dimension
    loading_mean[0] ~ HalfNormal(priors[loading_mean]), the others 0      loadings = explored
    loading_mean[k] ~ HalfNormal(priors[loading_mean]), each              loadings = allowed,
        and loading[j, k] is 0 unless the variable allowed_loading of the data says otherwise

Assumes
-------
Traits have nothing to do with each other, and add up: little of one can be made up for by much of
another. A dimension that the data don't need has a loading_sd near 0, so that K may be generous.

Identified by
-------------
Standard normal traits fix level and unit of each dimension. loadings = explored: the first points
to where tasks load on average; the others are told apart by the spread of loadings alone, hence
badly where spreads are alike, and not in sign. Draws are therefore rotated to one orientation
(ROTATED) before they are kept. Easiness is the log odds of an agent whose traits are all 0.
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
    "loading_mean": 3.0,  # logits, scale of a half-normal
    "loading_sd": 1.5,  # logits, scale of a half-normal
}
OPTIONS = {
    "dimensions": 2,  # how many traits there are
    "loadings": ("explored", "allowed"),  # any task on any trait, or as allowed_loading says
}
ROTATED = ("loading", "trait")  # their products are what the data tell


def model(pp, data, priors=PRIORS, dimensions=2, loadings="explored"):
    easiness_mean = pp.normal("easiness_mean", 0.0, priors["easiness_mean"])
    easiness_sd = pp.half_normal("easiness_sd", priors["easiness_sd"])
    easiness = pp.normal("easiness", easiness_mean, easiness_sd, dims="task")

    if loadings == "allowed":
        allowed = pp.allowed_loadings()
        mean = pp.half_normal("loading_mean", priors["loading_mean"], dims="dimension")
    else:
        dimension = pp.axis("dimension", dimensions)
        mean = pp.half_normal("loading_mean", priors["loading_mean"]) * ((dimension == 0) * 1.0)
    trait = pp.normal("trait", 0.0, 1.0, dims=("agent", "dimension"))
    sd = pp.half_normal("loading_sd", priors["loading_sd"], dims="dimension")
    if loadings == "allowed":
        free_loading = pp.normal("free_loading", mean, sd, dims=("task", "dimension"))
        loading = pp.deterministic("loading", free_loading * allowed, ("task", "dimension"))
    else:
        loading = pp.normal("loading", mean, sd, dims=("task", "dimension"))
    pp.observe_successes(pp.cell(easiness) + pp.cell_products(loading, trait, "dimension"))
