"""What to cite for a result: data, toolkit, sampler, diagnostics, model."""

from __future__ import annotations

from collections.abc import Iterable

import xarray as xr

from measurebayes.report.summary import data_of, json_attribute, model_words, named_fits

BACKENDS = {
    "numpyro": "Phan, D., Pradhan, N., & Jankowiak, M. (2019). Composable effects for flexible and "
    "accelerated probabilistic programming in NumPyro. arXiv:1912.11554. "
    "doi:10.48550/arXiv.1912.11554",
    "pymc": "Abril-Pla, O., Andreani, V., Carroll, C., et al. (2023). PyMC: a modern and "
    "comprehensive probabilistic programming framework in Python. PeerJ Computer Science, 9, "
    "e1516. doi:10.7717/peerj-cs.1516",
}
NUTS = (
    "Hoffman, M. D., & Gelman, A. (2014). The No-U-Turn Sampler: adaptively setting path lengths "
    "in Hamiltonian Monte Carlo. Journal of Machine Learning Research, 15, 1593-1623."
)
ARVIZ = (
    "Martin, O. A., Abril-Pla, O., Deklerk, J., Axen, S. D., Carroll, C., Hartikainen, A., & "
    "Vehtari, A. (2026). ArviZ: a modular and flexible library for exploratory analysis of "
    "Bayesian models. Journal of Open Source Software, 11(119), 9889. doi:10.21105/joss.09889"
)
RHAT = (
    "Vehtari, A., Gelman, A., Simpson, D., Carpenter, B., & Bürkner, P.-C. (2021). "
    "Rank-normalization, folding, and localization: an improved R-hat for assessing convergence of "
    "MCMC. Bayesian Analysis, 16(2), 667-718. doi:10.1214/20-BA1221"
)
LOO = (
    "Vehtari, A., Gelman, A., & Gabry, J. (2017). Practical Bayesian model evaluation using "
    "leave-one-out cross-validation and WAIC. Statistics and Computing, 27, 1413-1432. "
    "doi:10.1007/s11222-016-9696-4"
)


def citations(fits: Iterable[xr.DataTree], compared: bool = False) -> list[str]:
    """Return references for fits, each once: data, toolkit, libraries, methods, models.

    Parameters
    ----------
    fits : iterable of DataTree
    compared : bool
        Whether the fits were compared by leave-one-out cross-validation.
    """
    fits = list(fits)
    items = [_data(fit) for fit in fits]
    items += [_toolkit(fit) for fit in fits]
    items += [_backend(fit) for fit in fits]
    if any(str(fit.attrs.get("method", "")) == "nuts" for fit in fits):
        items.append(NUTS)
    items += [ARVIZ, RHAT]
    if compared:
        items.append(LOO)
    for fit in fits:
        items += _model(fit)
    return list(dict.fromkeys(item for item in items if item))


def _data(fit: xr.DataTree) -> str:
    attributes = data_of(fit).attrs
    name = str(attributes.get("title") or attributes.get("name") or "")
    parts = [str(attributes.get("citation") or name)]
    for label, key in (("Source", "source"), ("Licence", "licence")):
        # A citation often holds the source already.
        if attributes.get(key) and str(attributes[key]) not in parts[0]:
            parts.append(f"{label}: {attributes[key]}")
    text = ". ".join(part.strip().rstrip(".") for part in parts if part.strip())
    return f"Data: {text.removeprefix('Data: ')}." if text else ""


def _toolkit(fit: xr.DataTree) -> str:
    version = fit.attrs.get("measurebayes_version", "")
    return (
        f"measurebayes{f' {version}' if version else ''}: hierarchical Bayesian measurement models "
        "for AI-agent evaluations. Python package."
    )


def _backend(fit: xr.DataTree) -> str:
    name = str(fit.attrs.get("backend", ""))
    version = json_attribute(fit.attrs, "versions").get(name)
    text = BACKENDS.get(name, "")
    return f"{text} (version {version})" if text and version else text


def _model(fit: xr.DataTree) -> list[str]:
    model = model_words(fit)
    return [f"Model {model.label}: {reference}" for reference in model.references]


def cite_text(fit: xr.DataTree) -> str:
    """Return the references of one fit, numbered, one a line."""
    (only,) = named_fits(fit).values()
    return "\n".join(f"{n}. {item}" for n, item in enumerate(citations([only]), 1))
