"""R-hat and effective sample size of many scalars at once.

`measurebayes.checks.convergence` judges fits with arviz_stats, which takes scalars one by one. For
the thousands of small tables of `measurebayes.checks.conjoint` that would take longer than the
sampler.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021). Rank-normalization, folding, and
   localization: an improved R-hat. Bayesian Analysis 16(2). doi:10.1214/20-BA1221
.. [2] Geyer (1992). Practical Markov chain Monte Carlo. Statistical Science 7(4).
   doi:10.1214/ss/1177011137
"""

import numpy as np


def mixing(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split R-hat and effective sample size, as `arviz_stats` has them without rank transformation.

    Written out here because thousands of scalars are judged at once, for which a function that
    takes them one by one needs longer than the sampler.

    Parameters
    ----------
    draws : np.ndarray
        Shape (..., chain, draw); at least 4 draws.

    Returns
    -------
    rhat, ess : np.ndarray
        Shape (...). With a single chain its two halves are compared.
    """
    half = draws.shape[-1] // 2
    halves = np.concatenate([draws[..., :half], draws[..., -half:]], axis=-2)
    count = halves.shape[-2] * half
    centred = halves - halves.mean(axis=-1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * half)) ** 2
    covariance = np.fft.irfft(spectrum.mean(axis=-2), 2 * half)[..., :half] / half
    within = covariance[..., 0] * half / (half - 1)
    between = halves.mean(axis=-1).var(axis=-1, ddof=1)
    total = covariance[..., 0] + between
    correlation = 1 - (within[..., None] - covariance * half / (half - 1)) / total[..., None]
    correlation[..., 0] = 1
    # Geyer's initial monotone sequence: sums of neighbours, until one is negative
    even = half - half % 2
    sums = correlation[..., :even:2] + correlation[..., 1:even:2]
    sums = np.where(np.logical_and.accumulate(sums > 0, axis=-1), sums, 0)
    time = 2 * np.minimum.accumulate(sums, axis=-1).sum(axis=-1) - 1
    ess = count / np.maximum(time, 1 / np.log10(count))
    return np.sqrt(total / within), ess
