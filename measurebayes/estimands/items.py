"""Parameters of tasks in the forms in use."""

from __future__ import annotations

import xarray as xr

from measurebayes.errors import InputError
from measurebayes.inference.results import check_fit

PARAMETRISATIONS = ("difficulty", "easiness")
UNITS = ("logit", "ability_sd")


def item_parameters(
    fit: xr.DataTree, parametrisation: str = "difficulty", unit: str = "logit"
) -> xr.Dataset:
    """Return the posterior of the tasks' parameters in one of the forms in use.

    Parameters
    ----------
    fit
        Fit of a model with difficulties.
    parametrisation
        ``"difficulty"``: logit P = discrimination (ability - difficulty). ``"easiness"``:
        logit P = discrimination ability + easiness, so that easiness = -discrimination difficulty.
    unit
        ``"logit"``: the model's own. ``"ability_sd"``: abilities are divided by ability_sd, as in
        programs that fix the population's standard deviation at 1.

    Returns
    -------
    xarray.Dataset
        ``discrimination`` (chain, draw, task; 1 in logits for a Rasch model) and ``difficulty`` or
        ``easiness`` (chain, draw, task). Easiness is in logits in either unit.

    Raises
    ------
    InputError
        The fit has no difficulties, or an argument is unknown.
    """
    for name, value, known in (
        ("parametrisation", parametrisation, PARAMETRISATIONS),
        ("unit", unit, UNITS),
    ):
        if value not in known:
            raise InputError(
                f"{name} {value!r}",
                where="item_parameters",
                expected="one of " + ", ".join(known),
                remedy=f"leave {name} out to get {known[0]!r}",
            )
    check_fit(fit)
    posterior = fit["posterior"].to_dataset()
    if "difficulty" not in posterior:
        raise InputError(
            f"model {fit.attrs.get('model')} has no variable difficulty",
            where="the posterior of the fit",
            expected="a model of abilities and difficulties",
            remedy="fit rasch or two_pl",
        )
    difficulty = posterior["difficulty"]
    discrimination = posterior.get("discrimination", xr.ones_like(difficulty))
    if unit == "ability_sd":
        discrimination = discrimination * posterior["ability_sd"]
        difficulty = difficulty / posterior["ability_sd"]
    dims = ("chain", "draw", "task")
    result = {"discrimination": discrimination.transpose(*dims)}
    if parametrisation == "difficulty":
        result["difficulty"] = difficulty.transpose(*dims)
    else:
        result["easiness"] = (-discrimination * difficulty).transpose(*dims)
    return xr.Dataset(result, attrs={"parametrisation": parametrisation, "unit": unit})
