"""Uses every verb of a program once, so that the interpreters are compared on all of them.

Equation
--------
    logit P = softplus(a) (trait[i] - easy[j]) + effect[family] + logit-like terms
    with a survival probability, terms on an axis of its own, and an option

Assumes
-------
Nothing sensible.

Identified by
-------------
Its priors.

Not to be confused with
-----------------------
A model.

References
----------
1. None.
"""

PRIORS = {"scale": 1.5, "shape": 2.0}
OPTIONS = {
    "bends": ("with", "without"),  # whether the log odds bend
}


def model(pp, data, priors=PRIORS, bends="with"):
    spread = pp.half_normal("spread", priors["scale"])
    rate = pp.exponential("rate", 0.7)
    share = pp.beta("share", priors["shape"], 3.0)
    trait = pp.zero_sum_normal("trait", spread, dims="agent")
    easy = pp.normal("easy", 0.3, 1.0 + rate, dims="task")
    slope = pp.log_normal("slope", -0.2, 0.5, dims="task")
    effect = pp.normal("effect", 0.0, rate, dims=("agent", "family"))
    by_family = pp.beta("by_family", 2.0, 2.0, dims="family")

    total = pp.deterministic("total", pp.sum(effect, "family") / 3.0)
    steep = pp.softplus(slope) - pp.log(1.0 + share) ** 2
    bend = pp.logistic(pp.cell(by_family)) * pp.exp(-pp.cell(total) / 10.0)

    place = pp.axis("term", 2)
    term = pp.normal("term_effect", 0.0, spread, dims=("agent", "term"))
    weight = pp.log_normal("term_weight", 0.1 * place, share, dims="term")
    survives = pp.survival_log_odds(pp.sum(term * weight, "term") - pp.log2_minutes())
    if bends == "without":
        bend = 0.0

    years = 0.1 * pp.release_years() + pp.release_span()
    usual = pp.task(pp.normal("usual", pp.mean(trait), 1.0, dims="family"))
    error = pp.log_normal("error", 0.0, 0.3, dims=pp.suites().dims)
    errors = {
        kind: (0.2, pp.timed(kind, error) * pp.averaged(kind) ** -0.5)
        for kind in ("timed", "recorded", "failed")
        if pp.times(kind)
    }
    errors["estimated"] = share, 1.0 + rate
    length, hard = pp.measured_lengths(usual, spread, errors, share, 0.5 + rate, 0.3)

    minutes = data["human_minutes"]
    pp.observe_normal("log_minutes", pp.log(1.0 + slope), 2.0 * spread + 1.0, minutes)
    pp.observe_successes(
        pp.cell(steep) * (pp.cell(trait) - pp.cell(easy))
        + pp.cell(effect)
        + bend
        + pp.cell(survives) / 5.0
        + pp.cell(share * years)
        - pp.cell(hard)
        - pp.cell(length) / 5.0,
        pp.family_weights() if bends == "with" else None,
    )
