"""The fit: one self-contained DataTree, and its file."""

from __future__ import annotations

import ast
import json
import platform
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.backends.blocks import blocks_of_draws
from measurebayes.backends.evaluate import log_likelihood
from measurebayes.backends.simulate import variables
from measurebayes.data.provenance import fingerprint, seal, seal_holds
from measurebayes.data.store import as_made, replaced
from measurebayes.errors import InputError, ModelError
from measurebayes.inference.rotation import align, as_sampled
from measurebayes.inference.trust import trusted
from measurebayes.program.registry import (
    ModelFile,
    get_model,
    loaded_models,
    model_names,
    priors_from_json,
)

# A log likelihood of all draws and cells that is larger is left out of the fit; comparisons then
# compute it in blocks. Stored in float32: its rounding is far below its Monte Carlo error.
LOG_LIKELIHOOD_BYTES = 512 * 2**20
_ATTRIBUTES, _GROUPS = ("model", "model_source", "priors"), ("posterior", "data")
_BLOCK_BYTES = 64 * 2**20
_LOWEST = float(np.finfo(np.float32).min)
_DISTRIBUTIONS = ("measurebayes", "numpyro", "jax", "pymc", "nutpie", "arviz", "xarray", "numpy")


def assemble(
    model: ModelFile,
    data: xr.Dataset,
    posterior: xr.Dataset,
    sample_stats: xr.Dataset,
    attrs: Mapping[str, Any],
) -> xr.DataTree:
    """Return a fit from its parts; see `fit` for the groups.

    Draws of dimensions that only a rotation tells apart are turned to one orientation.
    """
    latent = {variable.name for variable in variables(model, data)} if model.rotated else set()
    if model.rotated and latent >= set(model.rotated):
        posterior = align(posterior, model.rotated)
    groups = {
        "/": xr.Dataset(attrs={**_provenance(model, data), **attrs}),
        "posterior": posterior,
        "sample_stats": sample_stats,
        "observed_data": xr.Dataset({"successes": ("cell", data["successes"].values)}),
        "data": data,
    }
    pointwise = _pointwise(model, data, posterior)
    if pointwise is not None:
        groups["log_likelihood"] = pointwise
    return xr.DataTree.from_dict(groups)


def labelled_draws(
    arrays: Mapping[str, np.ndarray], like: Mapping[str, xr.DataArray], runs: xr.Dataset
) -> xr.Dataset:
    """Return arrays (chain, draw, ...) as a Dataset.

    Parameters
    ----------
    arrays
        By variable.
    like
        Arrays with the axes of each variable behind (chain, draw); it has none where absent. Axes
        of the model's own have their labels from here.
    runs
        The data, from which agents, tasks and families have theirs.
    """
    own = {name: tuple(map(str, like[name].dims if name in like else ())) for name in arrays}
    labels = {str(d): c.values for x in like.values() for d, c in x.coords.items()}
    used = {d for several in own.values() for d in several}
    first = next(iter(arrays.values()))
    coords: dict[str, Any] = {
        "chain": np.arange(first.shape[0]),
        "draw": np.arange(first.shape[1]),
    } | {d: runs[d].values if d in runs.coords else labels[d] for d in sorted(used)}
    return xr.Dataset({n: (("chain", "draw", *own[n]), v) for n, v in arrays.items()}, coords)


def _provenance(model: ModelFile, data: xr.Dataset) -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "model": model.name,
        "model_source": model.source,
        "model_sha256": model.sha256,
        "options": json.dumps(dict(model.options)),
        "data_name": str(data.attrs.get("name", "")),
        "data_fingerprint": fingerprint(data),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": json.dumps(versions),
        "measurebayes_version": versions.get("measurebayes", "unknown"),
    }


def _pointwise(model: ModelFile, data: xr.Dataset, posterior: xr.Dataset) -> xr.Dataset | None:
    sizes = (posterior.sizes["chain"], posterior.sizes["draw"], data.sizes["cell"])
    if 4 * np.prod(sizes, dtype=float) > LOG_LIKELIHOOD_BYTES:
        return None
    terms = np.empty(sizes, dtype=np.float32)
    start = 0
    for block in blocks_of_draws(posterior, sizes[2], _BLOCK_BYTES):
        stop = start + block.sizes["draw"]
        values = {str(name): block[name] for name in block.data_vars}
        # what happens once in exp(10^38) attempts is as good as impossible, but stays finite
        terms[:, start:stop] = np.clip(log_likelihood(model, data, values).values, _LOWEST, None)
        start = stop
    coords = {name: posterior[name].values for name in ("chain", "draw")}
    return xr.Dataset({"successes": (("chain", "draw", "cell"), terms)}, coords)


def model_of(fit: xr.DataTree) -> ModelFile:
    """Return the model of a fit, with the priors and options that it was fitted with.

    A model is code, and code is never run from a fit, nor from a place that the fit names: its text
    only says which model it was, a bundled one or one that the user has loaded in this process.

    Raises
    ------
    InputError
        This is no fit, or there is no such model here, or its code has changed, or the fit's
        options are not those that its variables were drawn with.
    """
    _whole(fit)
    name, source = str(fit.attrs["model"]), str(fit.attrs["model_source"])
    bundled = [get_model(name)] if name in model_names() else []
    # The same text may be loaded under several names: the fit's own comes first.
    loaded = sorted(loaded_models(), key=lambda model: model.name != name)
    for model in (*bundled, *loaded):
        if same_code(model.source, source):
            model = _with_options_of(fit, model)
            model = replace(model, priors=priors_from_json(fit.attrs["priors"]))
            _same_variables(fit, model)
            return model
    raise InputError(
        f"the fit was made with the model {name!r}, which is none of the bundled ones of today",
        where="the fit",
        expected="to be told the file of the model: its code is not run from the fit",
        remedy=f"add --model {name}.py (in Python: mb.get_model('{name}.py') first), or fit again",
    )


def check_fit(fit: object) -> None:
    """Refuse what has no posterior and no data.

    Raises
    ------
    InputError
    """
    if not isinstance(fit, xr.DataTree):
        raise _no_fit(f"a {type(fit).__name__} is no fit")
    _refuse_absent([f"the group {name}" for name in _GROUPS if name not in fit.children])


def _whole(fit: xr.DataTree) -> None:
    """Refuse a tree that lacks what every fit has."""
    check_fit(fit)
    _refuse_absent([f"the attribute {name}" for name in _ATTRIBUTES if name not in fit.attrs])


def _refuse_absent(absent: list[str]) -> None:
    if absent:
        raise _no_fit(f"a DataTree is no fit: it lacks {', '.join(absent)}")


def _no_fit(found: str) -> InputError:
    return InputError(
        found,
        where="the fit",
        expected="what mb.fit returned, or mb.open read",
        remedy="mb.fit('rasch', runs)",
    )


def of_other_data(fits: Mapping[str, xr.DataTree]) -> str | None:
    """Return the name of a fit whose data are not those of the first one, if there is any."""
    marks = {name: fit.attrs.get("data_fingerprint") for name, fit in fits.items()}
    first = next(iter(marks.values()), None)
    return next((name for name, mark in marks.items() if mark != first), None)


def _with_options_of(fit: xr.DataTree, model: ModelFile) -> ModelFile:
    try:
        return model.with_options(**json.loads(fit.attrs.get("options", "{}")))
    except ModelError as error:
        raise _other_options(
            error.found, f"options of model {model.name}: {error.expected}"
        ) from None


def _same_variables(fit: xr.DataTree, model: ModelFile) -> None:
    """Refuse a fit whose variables are not those of the model with the fit's options."""
    if not model.offered:
        return
    posterior = as_sampled(fit["posterior"].to_dataset(), model.rotated)
    try:
        with np.errstate(all="ignore"):
            stated = variables(model, fit["data"].to_dataset())
    except ModelError:
        return  # a text that can't be run says so, with its line, where it is used
    for x in stated:
        if x.name not in posterior:
            raise _other_options(f"the fit has no variable {x.name!r}", f"one with {model.label}")
        found, sizes = posterior[x.name].dims[2:], posterior[x.name].shape[2:]
        if (found, sizes) != (x.dims, x.shape):
            raise _other_options(
                f"variable {x.name!r} has dims {found} of sizes {sizes}",
                f"dims {x.dims} of sizes {x.shape} with {model.label}",
            )


def _other_options(found: str, expected: str) -> InputError:
    return InputError(
        f"{found}: the options that the fit names are not those that it was made with",
        where="attribute 'options' of the fit",
        expected=expected,
        remedy="open the file that mb.save wrote, unchanged, or fit again",
    )


def same_code(one: str, other: str) -> bool:
    """Tell whether two Python texts differ at most in comments and the module's docstring."""
    try:
        trees = [ast.parse(text) for text in (one, other)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for tree in trees:
        if tree.body and ast.get_docstring(tree, clean=False) is not None:
            del tree.body[0]
    try:
        return ast.dump(trees[0]) == ast.dump(trees[1])
    except RecursionError:
        return False


def save_fit(fit: xr.DataTree, path: str | Path) -> Path:
    """Write a fit to a netCDF file, whole or not at all.

    Parameters
    ----------
    fit
        As `fit` returned it.
    path
        File to write; replaced if it exists.

    Returns
    -------
    pathlib.Path
        The path.

    Raises
    ------
    InputError
        The file can't be written, or this is no fit.
    """
    if not isinstance(fit, xr.DataTree | xr.Dataset):
        raise InputError(
            f"an object of type {type(fit).__name__}",
            where="save",
            expected="a fit, as mb.fit returns it, or data",
            remedy="mb.save(mb.fit('rasch', runs), 'fit.nc')",
        )
    path = Path(path)
    with replaced(path) as partial:
        fit.to_netcdf(partial, engine="netcdf4", format="NETCDF4")
        seal(partial)
    return path


def open_fit(path: str | Path) -> xr.DataTree:
    """Read a fit that `save_fit` wrote.

    Raises
    ------
    InputError
        The file is not there, is damaged, or holds no fit.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(
            f"there is no file {str(path)!r}",
            where="the path of the fit",
            expected="a file that `measurebayes fit` or `mb.save` wrote",
            remedy="measurebayes fit two_pl DATA -o fit.nc",
        )
    damaged = seal_holds(path) is False
    try:
        if damaged:
            raise ValueError("its bytes don't match their checksum")
        with xr.open_datatree(path, engine="netcdf4") as file:
            fit = file.load()
    except (OSError, ValueError, TypeError, RuntimeError, LookupError, AttributeError) as error:
        raise InputError(
            f"{str(path)!r} can't be read as a fit: {str(error)[:120]}",
            where="the file of the fit",
            expected="a file that `measurebayes fit` or `mb.save` wrote",
            remedy="measurebayes fit two_pl DATA -o fit.nc",
        ) from error
    if "model_sha256" not in fit.attrs or "posterior" not in fit:
        raise InputError(
            f"{str(path)!r} holds no fit",
            where="the file of the fit",
            expected="a file that `measurebayes fit` or `mb.save` wrote",
            remedy=f"measurebayes fit two_pl {path} -o fit.nc, if it holds data",
        )
    return trusted(fit.map_over_datasets(as_made), str(path))
