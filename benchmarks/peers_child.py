"""Fits one model by one other program, in the environment that has it; needs nothing of ours.

``PYTHON peers_child.py PROGRAM MODEL IN.npz OUT.npz``: IN holds ``responses`` (agent, task; NaN
where nothing was tried), OUT gets ``a``, ``b``, ``theta`` in units of the population of agents
(mean 0, SD 1), and ``seconds`` of the fit with everything but the import.
"""

from __future__ import annotations

import importlib.util
import sys
import time

import numpy as np

MODELS = {"rasch": "1PL", "two_pl": "2PL"}
MODULES = {"mirt": "mirt", "theta-irt": "theta", "girth": "girth"}
Estimates = tuple[np.ndarray, np.ndarray, np.ndarray]


def with_mirt(responses: np.ndarray, model: str) -> Estimates:
    import mirt

    fit = mirt.fit_mirt(responses, model=MODELS[model])
    items = fit.model.parameters
    theta = mirt.fscores(fit, responses, method="EAP").theta
    return items["discrimination"], items["difficulty"], theta


def with_theta(responses: np.ndarray, model: str) -> Estimates:
    import theta

    fit = theta.fit(responses, MODELS[model])
    abilities, _ = fit.score(responses, method="EAP")
    return fit.a, fit.b, abilities


def with_girth(responses: np.ndarray, model: str) -> Estimates:
    import girth

    numbers = np.where(np.isnan(responses), -1, responses).astype(int).T
    tagged = girth.tag_missing_data(numbers, [0, 1])
    fit = {"rasch": girth.onepl_mml, "two_pl": girth.twopl_mml}[model](tagged)
    a = np.broadcast_to(fit["Discrimination"], len(tagged))
    theta = fit.get("Ability")
    if theta is None:
        theta = girth.ability_eap(tagged, fit["Difficulty"], a)
    return a, fit["Difficulty"], theta


PROGRAMS = {"mirt": with_mirt, "theta-irt": with_theta, "girth": with_girth}


def main() -> None:
    program, model, given, output = sys.argv[1:]
    if importlib.util.find_spec(MODULES[program]) is None:
        raise SystemExit(3)
    importlib.import_module(MODULES[program])
    responses = np.load(given)["responses"]
    started = time.perf_counter()
    a, b, theta = PROGRAMS[program](responses, model)
    seconds = time.perf_counter() - started
    np.savez(output, a=a, b=b, theta=theta, seconds=seconds)


if __name__ == "__main__":
    main()
