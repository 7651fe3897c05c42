"""One row for each set of three broken order relations, which the table lists up to three times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

AGENTS, BANDS = ("agent_a", "agent_b", "agent_c"), ("band_x", "band_y", "band_z")


def distinct(violations: pd.DataFrame, bands: Sequence[str]) -> pd.DataFrame:
    """Keep one row of those that say the same.

    P[a, y] > P[b, x], P[b, z] > P[c, y] and P[c, x] > P[a, z] contradict each other in a circle:
    any two of them are premises, and the third breaks the conclusion. So (b, c, a; y, z, x) and
    (c, a, b; z, x, y) are violations too. Kept is the row that begins with the lowest band.

    Parameters
    ----------
    violations : pd.DataFrame
        Of `measurebayes.checks.cancellation.Cancellation`.
    bands : sequence of str
        Labels of all bands, the lowest first.

    Returns
    -------
    pd.DataFrame
        Rows of `violations` in their order, with their index there.
    """
    if violations.empty:
        return violations
    place = {band: i for i, band in enumerate(bands)}
    agents = violations[list(AGENTS)].to_numpy(dtype=object)
    numbers = violations[list(BANDS)].map(place.__getitem__).to_numpy()
    lowest = numbers.argmin(axis=1)
    keys = [
        (*np.roll(who, -first), *np.roll(where, -first))
        for who, where, first in zip(agents, numbers, lowest, strict=True)
    ]
    # Rows that begin with the lowest band come first in their group; a tie may have no such row.
    order = np.argsort(lowest != 0, kind="stable")
    seen: set[tuple[object, ...]] = set()
    kept = []
    for row in order:
        if keys[row] not in seen:
            seen.add(keys[row])
            kept.append(row)
    return violations.iloc[sorted(kept)]
