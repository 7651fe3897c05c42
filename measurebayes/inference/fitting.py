"""fit: the posterior of a model given data, by any engine, in one structure."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.backends.simulate import variables
from measurebayes.data import check_connected, fingerprint, validate_for_fit
from measurebayes.errors import CheckpointError, InputError, listed
from measurebayes.inference.checkpoint import Checkpoint
from measurebayes.inference.results import assemble, labelled_draws
from measurebayes.program.human_times import piled_up
from measurebayes.program.program import LENGTH
from measurebayes.program.registry import ModelFile, get_model

BACKENDS = ("numpyro", "pymc")
# Engines that approximate the posterior, each a module here with a function
# draw(model, runs, numbers, settings, progress) -> posterior, sample statistics, attributes.
APPROXIMATE: dict[str, str] = {
    "laplace": "nested",
    "pathfinder": "pathfinder",
    "map": "mode",
}
METHODS = ("nuts", *APPROXIMATE)
UNCONNECTED = ("error", "fit")  # what data in pieces are
_OF_MINUTES = re.compile(
    r"\bpp\.(\w*minutes|observe_times)"
)  # a verb that puts tasks on a scale of their own


def fit(
    model: str | Path | ModelFile,
    runs: xr.Dataset,
    backend: str = "numpyro",
    method: str = "nuts",
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    seed: int = 0,
    priors: Mapping[str, float] | None = None,
    executor: Executor | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    unconnected: str = "error",
    **options: Any,
) -> xr.DataTree:
    """Draw from the posterior of a model.

    Parameters
    ----------
    model
        Name of a bundled model, or path of a model file (which is run: use only what you trust).
        Options may follow it, as in ``"horizon_logistic:slopes=common"``.
    runs
        Data, as `measurebayes.load` returns them (dims cell, agent, task, family).
    backend
        ``"numpyro"``: the engine of this package. ``"pymc"``: the same model text by PyMC with its
        default sampler (nutpie where installed).
    method
        ``"nuts"``: samples the posterior. The others give independent draws of an approximation,
        and how good it is (see docs/fitting.md): ``"laplace"``, parameters by task or agent
        integrated out, the others weighted by importance; ``"pathfinder"``, normal densities along
        paths to the mode (needs blackjax); ``"map"``, for tables too large for the others, a
        normal approximation around the mode.
    draws, tune, chains
        Draws kept and warm-up draws of each chain, number of chains. Engines that approximate
        have no warm-up and no chains: they make draws times chains draws.
    seed
        Makes every draw reproducible on the same machine and versions.
    priors
        Numbers that replace those of the model file's PRIORS.
    executor
        Where the chains run (backend numpyro): any `concurrent.futures.Executor` whose processes
        start afresh (``mp_context=multiprocessing.get_context("spawn")``); by default threads, one
        a core.
    progress
        Show progress bars on standard error.
    checkpoint
        File to save progress in (backend numpyro), every two seconds a chain; it is left in place
        and can be deleted when the fit is saved.
    resume
        Go on from the checkpoint if it is there; the draws are those of an uninterrupted run.
    unconnected
        What data in several pieces without a common scale are (see `measurebayes.pieces`):
        ``"error"``, or ``"fit"``: priors alone relate the pieces. Models of human minutes, which
        are such a scale, fit them anyway.
    **options
        Options of the model, such as ``slopes="common"``; its page in docs/models lists them.

    Returns
    -------
    xarray.DataTree
        Self-contained. Groups: ``posterior`` (chain, draw, and agent or task), in logits;
        ``sample_stats`` (chain, draw) under one set of names for all samplers;
        ``log_likelihood`` (chain, draw, cell) unless it would exceed 512 MiB; ``observed_data``;
        ``data``: the data set. Attributes: model, its text and options, priors, settings,
        seconds, gradients, versions, fingerprint of the data.

    Raises
    ------
    InputError
        The data can't be fitted, or an argument can't be used.
    ModelError
        The model can't be loaded, has no such option, or its density is not finite.
    CheckpointError
        The checkpoint belongs to another run, or is there and `resume` is false.
    """
    model = get_model(model, **options)
    numbers = model.with_priors(priors)
    model = replace(model, priors=numbers)
    validate_for_fit(runs)
    check_scale(model, runs, unconnected)
    warn_of_windows(model, runs)
    settings = _settings(backend, method, draws, tune, chains, seed)
    if backend == "pymc" and method != "nuts":
        raise InputError(
            f"method {method!r} with the backend pymc",
            where="the arguments of fit",
            expected="method nuts: engines that approximate belong to the backend numpyro",
            remedy="leave backend out, or method",
        )
    attrs = {**settings, "priors": json.dumps(numbers)}
    if backend == "pymc":
        if checkpoint is not None and Path(checkpoint).exists():
            raise CheckpointError(
                f"{checkpoint} holds a run of the backend numpyro",
                where="the checkpoint",
                expected="no checkpoint: PyMC's samplers can't be gone on with",
                remedy="name another output, or delete the file if the run in it is not needed",
            )
        from measurebayes.inference.pymc import draw_with_pymc

        posterior, stats, more = draw_with_pymc(model, runs, numbers, settings, progress)
    elif method in APPROXIMATE:
        refuse_checkpoint(method, checkpoint, resume)
        draw = import_module(f"measurebayes.inference.{APPROXIMATE[method]}").draw
        posterior, stats, more = draw(model, runs, numbers, settings, progress)
    else:
        posterior, stats, more = _draw_with_nuts(
            model, runs, numbers, settings, executor, progress, checkpoint, resume
        )
    return assemble(model, runs, posterior, stats, {**attrs, **more})


def check_scale(model: ModelFile, runs: xr.Dataset, unconnected: str = "error") -> None:
    """Refuse data in pieces that neither shared tasks nor human minutes put on one scale.

    Raises
    ------
    InputError
        Naming the pieces.
    """
    if unconnected not in UNCONNECTED:
        raise InputError(
            f"unconnected {str(unconnected)[:40]!r}",
            where="the arguments of fit",
            expected="one of " + ", ".join(UNCONNECTED),
            remedy="leave unconnected out to get 'error'",
        )
    if unconnected == "error" and not _OF_MINUTES.search(model.source):
        check_connected(runs)


def warn_of_windows(model: ModelFile, runs: xr.Dataset) -> None:
    """Warn where a model would take attempts in a window of fixed length for times to completion.

    Warns
    -----
    UserWarning
        Naming the tasks.
    """
    if "timing_minutes" not in runs or LENGTH not in {v.name for v in variables(model, runs)}:
        return
    if tasks := piled_up(runs):
        warnings.warn(
            f"timed attempts at {len(tasks)} task{'s' * (len(tasks) > 1)} pile up at one time: "
            f"{listed(tasks)}. If they "
            "ran in a window of fixed length, they are no times to completion: give these tasks "
            "minutes_kind 'window' (docs/horizons.md, Traps)",
            UserWarning,
            stacklevel=3,
        )


def _settings(
    backend: str, method: str, draws: int, tune: int, chains: int, seed: int
) -> dict[str, Any]:
    for name, word, choices in (("backend", backend, BACKENDS), ("method", method, METHODS)):
        if word not in choices:
            raise InputError(
                f"{name} {word!r}",
                where="the arguments of fit",
                expected="one of " + ", ".join(choices),
                remedy=f"leave {name} out to get {choices[0]!r}",
            )
    whole: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "seed": seed}
    for name, value in whole.items():
        least = 0 if name == "seed" else 1
        whole_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole_number or not least <= value < 2**63:
            raise InputError(
                f"{name}={str(value)[:40]}",
                where="the arguments of fit",
                expected=f"a whole number from {least} to 2**63 - 1",
                remedy=f"leave {name} out to get its default",
            )
    return {"backend": backend, "method": method} | {n: int(v) for n, v in whole.items()}


def refuse_checkpoint(method: str, checkpoint: str | Path | None, resume: bool) -> None:
    """Refuse to go on with a run of an engine that keeps no checkpoint.

    Raises
    ------
    CheckpointError
        `resume` is asked for, or the file is there and holds another run.
    """
    if checkpoint is None and not resume:
        return
    if resume or Path(str(checkpoint)).exists():
        raise CheckpointError(
            f"method {method!r} keeps no checkpoint"
            + (
                ", so that there is nothing to go on with"
                if resume
                else f", and {checkpoint} holds the run of another"
            ),
            where="the checkpoint",
            expected="no checkpoint: this engine makes all its draws at once",
            remedy="leave resume out"
            if resume
            else "name another output, or delete the file if the run in it is not needed",
        )


def _draw_with_nuts(
    model: ModelFile,
    runs: xr.Dataset,
    numbers: Mapping[str, float],
    settings: Mapping[str, Any],
    executor: Executor | None,
    progress: bool,
    checkpoint: str | Path | None,
    resume: bool,
) -> tuple[xr.Dataset, xr.Dataset, dict[str, Any]]:
    from measurebayes.backends.simulate import prior_draw
    from measurebayes.inference.chains import Job, run
    from measurebayes.inference.nuts import MAX_TREE_DEPTH, TARGET_ACCEPT

    identity = {
        **settings,
        "model": model.sha256,
        "options": json.dumps(dict(model.options), sort_keys=True),
        "data": fingerprint(runs),
        "priors": json.dumps(numbers, sort_keys=True),
        "versions": _engine_versions(),
    }
    if checkpoint is not None:
        Checkpoint(checkpoint, identity, resume)
    job = Job(
        model.name,
        model.source,
        model.path,
        dict(model.options),
        runs,
        numbers,
        settings["tune"],
        settings["draws"],
        settings["chains"],
        settings["seed"],
        None if checkpoint is None else str(checkpoint),
        identity,
    )
    drawn = run(job, executor, progress)
    like = prior_draw(model, runs, np.random.default_rng(0))
    ordered = {n: drawn.variables[n] for n in like if n in drawn.variables and n != "successes"}
    stats = labelled_draws(drawn.statistics, {}, runs)
    stats.attrs["max_tree_depth"] = MAX_TREE_DEPTH
    attrs = {
        "sampler": f"NUTS (NumPyro), target acceptance {TARGET_ACCEPT:g}, partial centring and "
        "linear coordinates from a pilot run",
        "compile_seconds": round(drawn.compile_seconds, 3),
        "sampling_seconds": round(drawn.sampling_seconds, 3),
        "gradients": drawn.gradients,
        "layout": "auto",
    }
    return labelled_draws(ordered, like, runs), stats, attrs


def _engine_versions() -> str:
    from importlib.metadata import version

    return " ".join(f"{name} {version(name)}" for name in ("measurebayes", "numpyro", "jax"))
