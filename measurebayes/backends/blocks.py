"""How much is computed at once: sizes of memory in words, and blocks of draws that keep to them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import xarray as xr

from measurebayes.errors import InputError, shown

USUAL = 128 * 2**20  # bytes that temporary arrays take together where nothing else is said
_UNITS = {"": 1, "b": 1} | {
    f"{letter}{end}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for end, base in (("b", 1000), ("ib", 1024))
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)


def in_bytes(memory: int | str | None, usual: int = USUAL) -> int:
    """Return a size of memory in bytes.

    Parameters
    ----------
    memory
        A whole number of bytes, or a text: "2GiB", "500 MB" (GiB, MiB, kiB are powers of 1,024; GB,
        MB, kB of 1,000). None for what is usual.
    usual
        Bytes.

    Raises
    ------
    InputError
        It is no size, or less than a byte.
    """
    if memory is None:
        return usual
    size = 0.0
    if isinstance(memory, str) and (found := _SIZE.fullmatch(memory)):
        size = float(found[1]) * _UNITS.get(found[2].lower(), 0)
    elif hasattr(memory, "__index__") and not isinstance(memory, bool):
        size = float(memory)
    if not 1 <= size < 2**63:
        raise InputError(
            f"memory={shown(memory)}",
            where="memory",
            expected="a size: a number with B, kB, MB, GB or kiB, MiB, GiB, or a number of bytes",
            remedy="memory='2GiB'",
        )
    return int(size)


def blocks_of_draws(posterior: xr.Dataset, cells: int, budget: int) -> Iterator[xr.Dataset]:
    """Cut a posterior (chain, draw, ...) into blocks of draws of all chains.

    Parameters
    ----------
    posterior
        Group of a fit.
    cells
        Number of cells that each draw will be evaluated at.
    budget
        Bytes that one float64 array of chains x draws x cells may take.
    """
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    step = max(1, budget // max(1, 8 * chains * cells))
    for start in range(0, draws, step):
        yield posterior.isel(draw=slice(start, start + step))
