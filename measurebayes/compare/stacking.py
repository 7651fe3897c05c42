"""Weights of models whose mixture predicts best.

References
----------
.. [1] Yao, Vehtari, Simpson, Gelman (2018). Using stacking to average Bayesian predictive
   distributions. Bayesian Analysis 13(3). doi:10.1214/17-BA1091
"""

import numpy as np


def stacking_weights(elpd: np.ndarray) -> np.ndarray:
    """Weights that maximise sum_i log sum_m w_m exp(elpd_im), w >= 0, sum w = 1 [1]_.

    Parameters
    ----------
    elpd : np.ndarray
        Pointwise log predictive densities, shape (cell, model).

    Returns
    -------
    np.ndarray
        Shape (model,). Where models predict alike, the weights nearest to equal ones.
    """
    from scipy.optimize import Bounds, LinearConstraint, minimize

    models = elpd.shape[1]
    if models == 1:
        return np.ones(1)
    density = np.exp(elpd - elpd.max(axis=1, keepdims=True))

    def loss(weights: np.ndarray) -> float:
        return float(-np.log(density @ weights).mean())

    def gradient(weights: np.ndarray) -> np.ndarray:
        return -(density / (density @ weights)[:, None]).mean(axis=0)

    found = minimize(
        loss,
        np.full(models, 1 / models),
        jac=gradient,
        method="SLSQP",
        bounds=Bounds(np.full(models, 1e-12), np.ones(models)),
        constraints=LinearConstraint(np.ones(models), 1, 1),
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    weights = np.clip(found.x, 0, None)
    return weights / weights.sum()
