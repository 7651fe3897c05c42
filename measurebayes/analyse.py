"""The whole chain: fit several models to one data set, check, compare and report them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import measurebayes as mb
from measurebayes.errors import InputError, MeasureBayesError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from measurebayes.checks.cancellation import Cancellation
    from measurebayes.program.registry import ModelFile

Say = Callable[[str], None]
Show = Callable[["pd.DataFrame", str], None]


@dataclass(eq=False)
class Analysis:
    """What `analyse` found, and the files that hold it.

    Attributes
    ----------
    summary
        What the data hold (`measurebayes.data.summarise`).
    fits
        The fit of every model.
    checks
        The table of checks of every model: name, passed, value, text.
    comparison
        Table of the models, best first; None for a single model.
    cancellation
        Whether success rates obey double cancellation, against all fits; None where the data don't
        allow the check.
    converged
        For every model, whether its sampling converged.
    reused
        Models whose fit was found in the folder.
    files
        What was written, by content.
    """

    summary: dict[str, Any]
    fits: dict[str, xr.DataTree] = field(default_factory=dict)
    checks: dict[str, pd.DataFrame] = field(default_factory=dict)
    comparison: pd.DataFrame | None = None
    cancellation: Cancellation | None = None
    converged: dict[str, bool] = field(default_factory=dict)
    reused: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def all_converged(self) -> bool:
        """Whether the sampling of every model converged."""
        return all(self.converged.values())

    def as_dict(self) -> dict[str, Any]:
        """Return all but the draws, for JSON."""
        return {
            "data": self.summary,
            "converged": self.converged,
            "reused": self.reused,
            "checks": self.checks,
            "comparison": self.comparison,
            "cancellation": None if self.cancellation is None else self.cancellation.table,
            "files": self.files,
        }


def analyse(
    runs: xr.Dataset,
    models: Sequence[str],
    folder: str | Path,
    *,
    priors: Mapping[str, float] | None = None,
    say: Say = print,
    show: Show | None = None,
    **settings: Any,
) -> Analysis:
    """Fit every model to the data, check each fit, compare them and write a report.

    Writes ``MODEL.nc`` and ``checks_MODEL.csv`` for every model, ``comparison.csv`` where there
    are two or more, ``cancellation.csv`` where the data allow that check, and ``report.html``. A
    fit found in the folder with the same data, model and settings is used again; one that was
    interrupted goes on from its checkpoint.

    Parameters
    ----------
    runs
        Data, as `measurebayes.load` returns them.
    models
        Names of bundled models, or paths of model files; options may follow, as in
        ``"horizon_logistic:slopes=common"``.
    folder
        Where to write; it is made if its parent exists.
    priors
        Numbers to replace in the models' priors; each must belong to at least one of them.
    say
        Is given messages about what happens.
    show
        Is given each table and its title as soon as it is there.
    **settings
        Passed on to `measurebayes.fit`: backend, method, draws, tune, chains, seed, progress.

    Returns
    -------
    Analysis

    Raises
    ------
    InputError
        Models, data or folder can't be used; nothing is written then.
    """
    from measurebayes.data import summarise, validate_for_fit
    from measurebayes.inference.fitting import check_scale

    folder = Path(folder)
    chosen = _models(models)
    changes = {name: _own_priors(model, priors) for name, model in chosen.items()}
    _all_used(priors, changes)
    validate_for_fit(runs)
    for model in chosen.values():
        check_scale(model, runs, settings.get("unconnected", "error"))
    folder = _made(folder)

    result = Analysis(summarise(runs))
    _show_summary(result.summary, show)
    for name, model in chosen.items():
        _fit_and_check(result, folder, model, runs, changes[name], say, show, settings)
    if len(result.fits) > 1:
        say("comparing")
        result.comparison = mb.compare(result.fits)
        _write(result, "comparison", folder / "comparison.csv", result.comparison.reset_index())
        if show is not None:
            show(result.comparison, "Leave-one-out comparison, best first (higher elpd is better)")
    _check_quantity(result, folder, say, show)
    page = folder / "report.html"
    say("writing the report")
    mb.report(
        result.fits,
        path=page,
        comparison=result.comparison,
        checks=result.checks,
        cancellation=result.cancellation,
    )
    result.files["report"] = str(page)
    say("wrote " + ", ".join(result.files.values()))
    return result


def _fit_and_check(
    result: Analysis,
    folder: Path,
    model: ModelFile,
    runs: xr.Dataset,
    priors: Mapping[str, float],
    say: Say,
    show: Show | None,
    settings: Mapping[str, Any],
) -> None:
    from measurebayes.checks import converged

    # A colon can't be part of a file's name everywhere.
    name, stem = model.label, model.label.replace(":", "-")
    file = folder / f"{stem}.nc"
    fit = _found(file, model, runs, priors, settings)
    if fit is None:
        fit = _fitted(file, model, runs, priors, say, settings)
    else:
        say(f"{name}: used the fit in {file}: same data, model and settings")
        result.reused.append(name)
    say(f"{name}: checking")
    result.files[f"fit {name}"] = str(file)
    result.fits[name] = fit
    result.converged[name] = converged(fit)
    result.checks[name] = mb.check(fit)
    _write(result, f"checks {name}", folder / f"checks_{stem}.csv", result.checks[name])
    if show is not None:
        show(result.checks[name], f"Checks of {name}")


def _check_quantity(result: Analysis, folder: Path, say: Say, show: Show | None) -> None:
    """Check double cancellation against the fits; data that don't allow it are no error."""
    from measurebayes.report.quantity import finding, usual_check

    say("checking the order of success rates (double cancellation)")
    try:
        result.cancellation = usual_check(result.fits)
    except MeasureBayesError as error:
        say(f"that can't be checked in these data: {error.found}")
        return
    if result.cancellation.expected and math.isfinite(result.cancellation.observed["rate"]):
        table = result.cancellation.table.reset_index()
        _write(result, "cancellation", folder / "cancellation.csv", table)
        if show is not None:
            show(table, "Violations of double cancellation, share of cases")
    # Narrow spaces, which the page has within numbers, are escapes on a terminal.
    say(finding(result.cancellation).replace("\u202f%", " %").replace("\u202f", ","))


def _write(result: Analysis, content: str, file: Path, table: pd.DataFrame) -> None:
    from measurebayes.data.store import write_csv

    write_csv(table, file)
    result.files[content] = str(file)


def _models(models: Sequence[str]) -> dict[str, ModelFile]:
    from measurebayes.program.registry import get_model

    chosen: dict[str, ModelFile] = {}
    for text in [models] if isinstance(models, str) else models:
        model = get_model(text)
        if model.label in chosen:
            raise InputError(
                f"two models are called {model.label!r}",
                where="models",
                expected="different names: a model's name is the name of its file",
                remedy="name each model once, or copy the file under another name",
            )
        chosen[model.label] = model
    if not chosen:
        raise InputError("no model", where="models", remedy="name at least one, such as rasch")
    return chosen


def _own_priors(model: ModelFile, priors: Mapping[str, float] | None) -> dict[str, float]:
    own = {name: value for name, value in (priors or {}).items() if name in model.priors}
    model.with_priors(own)  # refuses values that can't be
    return own


def _all_used(
    priors: Mapping[str, float] | None, changes: Mapping[str, Mapping[str, float]]
) -> None:
    unused = [n for n in priors or {} if not any(n in own for own in changes.values())]
    if unused:
        raise InputError(
            f"prior {unused[0]!r}",
            where="priors",
            expected=f"a prior of one of the models {', '.join(changes)}",
            remedy=f"`measurebayes describe {next(iter(changes))} DATA` lists its priors",
        )


def _made(folder: Path) -> Path:
    if not folder.parent.is_dir() or (folder.exists() and not folder.is_dir()):
        raise InputError(
            f"{str(folder)!r} "
            + ("is not a folder" if folder.exists() else "has a parent folder that does not exist"),
            where="the folder to write into",
            expected="a folder, or a new name in a folder that exists",
            remedy=f"mkdir -p {folder.parent}" if not folder.exists() else "name another folder",
        )
    folder.mkdir(exist_ok=True)
    return folder


def _show_summary(summary: Mapping[str, Any], show: Show | None) -> None:
    if show is None:
        return
    import pandas as pd

    keys = (
        "agents tasks families cells holes attempts successes always_solved never_solved "
        "unattempted_tasks"
    ).split()
    known = {key: summary[key] for key in keys if summary.get(key) is not None}
    title = "Data: " + (str(summary.get("title") or summary.get("name") or "") or "no name")
    show(pd.DataFrame([known]), title)


def _found(
    file: Path,
    model: ModelFile,
    runs: xr.Dataset,
    priors: Mapping[str, float],
    settings: Mapping[str, Any],
) -> xr.DataTree | None:
    """Return the fit in `file` if it is the one that would be made."""
    from measurebayes.data import fingerprint

    if not file.exists():
        return None
    try:
        fit = mb.open(str(file))
    except MeasureBayesError:
        return None  # half written by another program, or no fit at all: it is made anew
    wanted = {
        "model_sha256": model.sha256,
        "data_fingerprint": fingerprint(runs),
        "measurebayes_version": mb.__version__,
        **{key: settings[key] for key in _SETTINGS if key in settings},
    }
    same = all(fit.attrs.get(key) == value for key, value in wanted.items())
    same = same and json.loads(fit.attrs.get("options", "{}")) == dict(model.options)
    if not same or json.loads(fit.attrs["priors"]) != model.with_priors(priors):
        return None
    return fit


_SETTINGS = ("backend", "method", "draws", "tune", "chains", "seed")


def _fitted(
    file: Path,
    model: ModelFile,
    runs: xr.Dataset,
    priors: Mapping[str, float],
    say: Say,
    settings: Mapping[str, Any],
) -> xr.DataTree:
    from measurebayes.inference.fitting import APPROXIMATE

    checkpoint = Path(f"{file}.part")
    if file.exists():
        say(f"{model.label}: the fit in {file} has other data, model or settings; fitting anew")
    else:
        say(
            f"{model.label}: "
            + ("going on from the checkpoint" if checkpoint.exists() else "fitting")
        )
    sampled = settings.get("method", "nuts") not in APPROXIMATE  # others keep no checkpoint
    keeping: dict[str, Any] = {"checkpoint": checkpoint, "resume": True} if sampled else {}
    fit = mb.fit(model, runs, priors=priors or None, **keeping, **settings)
    mb.save(fit, file)
    checkpoint.unlink(missing_ok=True)
    return fit
