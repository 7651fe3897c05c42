"""Optional packages: imported where they are used, and named with their installation if absent."""

from __future__ import annotations

import importlib.util

from measurebayes.errors import MeasureBayesError


def need(*packages: str, why: str) -> None:
    """Raise an error that says what to install, unless all packages can be imported.

    Raises
    ------
    MeasureBayesError
        A package is missing.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise MeasureBayesError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed",
            where=why,
            expected="the extra `report` of measurebayes",
            remedy="pip install 'measurebayes[report]'",
        )
