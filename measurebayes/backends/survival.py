"""Log odds of a survival probability, in the functions of any array library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Beyond e to this power the hazard is taken as constant: its derivative would overflow.
LARGEST_LOG_HAZARD = 500.0
# Below, log(expm1(H) / H) = H / 2 is nothing beside log H.
SMALLEST_LOG_HAZARD = -30.0


def survival_log_odds(numpy: Any) -> Callable[[Any], Any]:
    """Return the function x -> logit(exp(-exp(x))) in the functions of a library like NumPy.

    With H = exp(x) it is -log(exp(H) - 1), which is written as -(x + log(expm1(H) / H)) below
    x = 0 and as -(H + log(1 - exp(-H))) above: neither loses digits, and neither branch overflows
    where the other is used, so that derivatives are finite.
    """

    def function(log_hazard: Any) -> Any:
        below = numpy.minimum(log_hazard, 0.0)
        small = numpy.exp(numpy.maximum(below, SMALLEST_LOG_HAZARD))
        large = numpy.exp(numpy.clip(log_hazard, 0.0, LARGEST_LOG_HAZARD))
        return numpy.where(
            log_hazard < 0.0,
            -(below + numpy.log(numpy.expm1(small) / small)),
            -(large + numpy.log1p(-numpy.exp(-large))),
        )

    return function
