"""Newton's method for concave log likelihoods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from measurebayes.errors import MeasureBayesError

# Of the gain still to be had, relative to the log likelihood: where the climb ends, and where it
# may end because rounding hides what a step gains.
TOLERANCE, ROUNDING = 1e-12, 1e-8
SUFFICIENT = 1e-4  # share of the gain promised by the gradient that a step must deliver
MAX_STEPS = 500
SHORTEST = 2.0**-20  # share of a step

Evaluation = tuple[float, np.ndarray, float]


def maximise(evaluate: Callable[[np.ndarray], Evaluation], start: np.ndarray) -> np.ndarray:
    """Climb to the maximum of a strictly concave function.

    A step that gains too little is halved, so that the climb ends at the maximum from any start.

    Parameters
    ----------
    evaluate
        Returns the value at a point, Newton's step from there, and the gain that the gradient
        promises for it (gradient times step).
    start
        Where to begin.

    Returns
    -------
    numpy.ndarray
        The maximum, shape of `start`.

    Raises
    ------
    MeasureBayesError
        There is still something to gain after `MAX_STEPS` steps.
    """
    place = start
    value, step, gain = evaluate(place)
    for _ in range(MAX_STEPS):
        if gain <= TOLERANCE * (1.0 + abs(value)):
            return place
        size = 1.0
        found = evaluate(place + step)
        while found[0] < value + SUFFICIENT * size * gain and size > SHORTEST:
            size /= 2.0
            found = evaluate(place + size * step)
        if size <= SHORTEST and gain <= ROUNDING * (1.0 + abs(value)):
            return place
        place = place + size * step
        value, step, gain = found
    raise MeasureBayesError(
        f"the maximum of the likelihood was not reached in {MAX_STEPS} steps",
        where="measurebayes.classical",
        remedy="please report this with the data: it should not happen",
    )
