"""Finds model files: the folder models/ is the registry, a path to a .py file is a user's model."""

from __future__ import annotations

import ast
import difflib
import hashlib
import inspect
import json
import math
import re
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from measurebayes.errors import MeasureBayesError, ModelError
from measurebayes.program import options as option_words

_TEMPLATE_HINT = "`measurebayes copy rasch my_model.py` writes a file to start from"


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A model: one Python file with a docstring, PRIORS and model(pp, data, priors, ...).

    Attributes
    ----------
    name
        File name without ``.py``.
    path
        Where it was read.
    source
        The text of the file.
    docstring
        Its module docstring.
    priors
        ``PRIORS``: named numbers.
    function
        ``model(pp, data, priors)``, with an argument for each option.
    numpyro, pymc
        Functions ``(data, priors)`` written by hand for one library, with an argument for each
        option, or None: the escape hatch.
    offered
        ``OPTIONS``: for each option the words to choose from, or the default of a whole number.
    options
        What was chosen, defaults included.
    given
        Names of options that the user chose, defaults among them.
    rotated
        ``ROTATED``: loadings and traits whose products alone matter. Draws are brought to the same
        axes.
    """

    name: str
    path: str
    source: str
    docstring: str
    priors: dict[str, float]
    function: Callable[..., None]
    numpyro: Callable[..., None] | None = None
    pymc: Callable[..., None] | None = None
    offered: Mapping[str, tuple[str, ...] | int] = field(default_factory=dict)
    options: Mapping[str, str | int] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    rotated: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name, and options that are not the default: ``horizon_logistic:slopes=common``."""
        return self.name + option_words.suffix(self.offered, self.options)

    @property
    def reference(self) -> str:
        """Text from which `get_model` finds the model again, with its options."""
        known = self.name if self.name in model_names() else self.path
        return known + option_words.suffix(self.offered, self.options, self.given)

    @property
    def sha256(self) -> str:
        """Hash of the text."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def reads_data(self) -> bool:
        """Whether the text may look at the data themselves, and not only through the verbs."""
        nodes = list(ast.walk(ast.parse(self.source)))
        return any(
            (isinstance(node, ast.Name) and node.id == "data")
            or (isinstance(node, ast.Attribute) and node.attr in ("data", "cells"))
            or isinstance(node, ast.Import)
            or (isinstance(node, ast.ImportFrom) and not _sees_no_data(node.module))
            for node in nodes
        )

    @property
    def title(self) -> str:
        """First line of the docstring."""
        return self.docstring.strip().splitlines()[0] if self.docstring.strip() else self.name

    @property
    def sections(self) -> dict[str, str]:
        """The docstring's underlined parts: Equation, Assumes, Identified by, ..."""
        parts = re.split(r"^(\S[^\n]*)\n-{3,}\n", self.docstring, flags=re.MULTILINE)
        return {
            head: inspect.cleandoc("\n" + body).strip("\n")
            for head, body in zip(parts[1::2], parts[2::2], strict=True)
        }

    @property
    def equations(self) -> str:
        """The Equation section."""
        return self.sections.get("Equation", "")

    @property
    def references(self) -> list[str]:
        """The numbered references, each on one line."""
        text = self.sections.get("References", "")
        items = re.split(r"^\d+\.\s+", text, flags=re.MULTILINE)[1:]
        return [" ".join(item.split()) for item in items]

    def run(self, pp: Any, data: Any, priors: Mapping[str, float]) -> None:
        """Run the model text on a program.

        Raises
        ------
        ModelError
            The text fails; the message gives its line. Or the user chose another number for an
            option than the data give.
        """
        self._guarded(self.function, pp, data, priors, **self.options)
        for name, (number, source) in getattr(pp, "set_by_data", {}).items():
            if name in self.given and self.options.get(name) != number:
                raise ModelError(
                    f"{name}={self.options.get(name)}, but {source} has {number}",
                    where=f"options of model {self.name}",
                    expected=f"{name}={number}, or none: the data say how many there are",
                    remedy=f"leave {name} out",
                )

    def run_by_hand(
        self, function: Callable[..., None], data: Any, priors: Mapping[str, float]
    ) -> None:
        """Run the file's own ``numpyro`` or ``pymc`` function; raises what `run` does."""
        self._guarded(function, data, priors, **self.options)

    def _guarded(self, function: Callable[..., None], *arguments: Any, **options: Any) -> None:
        try:
            function(*arguments, **options)
        except (MeasureBayesError, KeyboardInterrupt, MemoryError):
            raise
        # A user's text may raise anything, and may try to leave; its line must be named.
        except BaseException as error:
            lines = [
                frame.lineno
                for frame in traceback.extract_tb(error.__traceback__)
                if frame.filename == self.path
            ]
            what = f"{type(error).__name__}: {error}"
            if isinstance(error, KeyError) and arguments:
                what = f"no entry {error} (in priors, data or values)"
            raise ModelError(
                what,
                where=f"{self.path}, line {lines[-1]}" if lines else self.path,
                expected="a text that uses the verbs of pp; axes agent, task, family; priors "
                + ", ".join(self.priors),
                remedy="mend the line, then run `measurebayes verify` on the file again",
            ) from error

    def with_priors(self, changes: Mapping[str, float] | None) -> dict[str, float]:
        """Return PRIORS with some numbers replaced.

        Raises
        ------
        ModelError
            A name is not a prior of the model, or a value is not a positive number.
        """
        changes = dict(changes or {})
        for name, value in changes.items():
            if name not in self.priors:
                near = difflib.get_close_matches(name, self.priors, 1)
                raise ModelError(
                    f"prior {name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""),
                    where=f"priors for model {self.name}",
                    expected="one of " + ", ".join(self.priors),
                    remedy=f"`measurebayes describe {self.name} DATA` lists the priors",
                )
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 < value < math.inf
            ):
                raise ModelError(
                    f"{name}={value!r}",
                    where=f"priors for model {self.name}",
                    expected="a positive number",
                    remedy=f"the default is {self.priors[name]}",
                )
        return {**self.priors, **{name: float(value) for name, value in changes.items()}}

    def with_options(self, /, **changes: Any) -> ModelFile:
        """Return the model with other options.

        Raises
        ------
        ModelError
            It has no such option, or the option no such value.
        """
        new = option_words.chosen(self.name, self.offered, changes)
        return replace(self, options={**self.options, **new}) if new else self

    def variants(self) -> list[ModelFile]:
        """Return the model with combinations of its options, that of the defaults first.

        All of them, up to a number: see `measurebayes.program.options.combinations`.
        """
        every = option_words.combinations(self.offered)
        usual = replace(self, given=frozenset())
        return [replace(usual, options=one) for one in every] if self.offered else [self]


def _sees_no_data(module: str | None) -> bool:
    """Tell whether a module is known never to look at the data: math, and bundled models."""
    return module == "math" or (module or "").startswith("measurebayes.models.")


# Models of the user's own that this process has loaded: only these may serve fits made with them.
_LOADED: dict[str, ModelFile] = {}


def loaded_models() -> list[ModelFile]:
    """Return the models of the user's own that were loaded in this process."""
    return list(_LOADED.values())


def model_names() -> list[str]:
    """Return the names of the bundled models, sorted."""
    folder = resources.files("measurebayes.models")
    names = (entry.name for entry in folder.iterdir())
    return sorted(n[:-3] for n in names if n.endswith(".py") and not n.startswith("_"))


def get_model(name_or_path: str | Path | ModelFile, /, **options: Any) -> ModelFile:
    """Return a bundled model by name, or the model in a .py file.

    A model file is code: it is run when it is loaded. Load only files that you trust.

    Parameters
    ----------
    name_or_path
        Name or path; options may follow it, as in ``"horizon_logistic:slopes=common"``. A
        `ModelFile` is returned as it is, but for the options.
    **options
        Options of the model that are not to be the default.

    Raises
    ------
    ModelError
        There is no such model, file or option, an option has two values, or the file has no
        docstring, PRIORS or model().
    """
    if isinstance(name_or_path, ModelFile):
        model = name_or_path.with_options(**options)
        return replace(model, given=model.given | options.keys()) if options else model
    text, in_text = option_words.split(str(name_or_path))
    model = _found(text)
    offered, name = model.offered, model.name
    one, other = (option_words.chosen(name, offered, x) for x in (in_text, options))
    option_words.refuse_two(name, one, other)
    return replace(model.with_options(**{**one, **other}), given=frozenset(one | other))


def _found(text: str) -> ModelFile:
    if text.endswith(".py"):
        model = _from_file(Path(text).absolute())
        _LOADED[model.sha256] = model
        return model
    if text not in model_names():
        near = difflib.get_close_matches(text, model_names(), 1)
        raise ModelError(
            f"model {text!r}" + (f" (did you mean {near[0]!r}?)" if near else ""),
            where="the name of the model",
            expected="one of " + ", ".join(model_names()) + ", or a path that ends in .py",
            remedy=f"`measurebayes models` lists them; {_TEMPLATE_HINT}",
        )
    file = resources.files("measurebayes.models") / f"{text}.py"
    return model_from_source(text, file.read_text(encoding="utf-8"), str(file))


def _from_file(path: Path) -> ModelFile:
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"{path} can't be read ({type(error).__name__})",
            where="the path of the model",
            expected="a Python file in UTF-8",
            remedy=_TEMPLATE_HINT,
        ) from error
    return model_from_source(path.stem, source, str(path))


def model_from_source(name: str, source: str, path: str) -> ModelFile:
    """Run the text of a model file and return its parts.

    Raises
    ------
    ModelError
        The text doesn't run, or a part is missing.
    """
    module = types.ModuleType(name)
    module.__file__ = path
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except KeyboardInterrupt:
        raise
    # A user's file may raise anything, and may try to leave; the message must name what it was.
    except BaseException as error:
        raise ModelError(
            f"{type(error).__name__}: {error}",
            where=f"running {path}",
            expected="a Python file that runs by itself",
            remedy=f"run `python {path}` to see where it fails",
        ) from error
    function, priors = getattr(module, "model", None), getattr(module, "PRIORS", None)
    offered = getattr(module, "OPTIONS", {})
    problem = _missing_part(module.__doc__, function, priors)
    problem = problem or option_words.problem_with(offered, function)  # type: ignore[arg-type]
    if problem:
        raise ModelError(
            problem,
            where=path,
            expected="a module docstring, PRIORS (named positive numbers), model(pp, data, priors)",
            remedy=_TEMPLATE_HINT,
        )
    return ModelFile(
        name=name,
        path=path,
        source=source,
        docstring=inspect.cleandoc(module.__doc__ or ""),
        priors={str(k): float(v) for k, v in dict(priors).items()},  # type: ignore[arg-type]
        function=function,  # type: ignore[arg-type]
        numpyro=getattr(module, "numpyro", None),
        pymc=getattr(module, "pymc", None),
        offered=dict(offered),
        options=option_words.defaults(offered),
        rotated=tuple(getattr(module, "ROTATED", ())),
    )


def _missing_part(doc: Any, function: Any, priors: Any) -> str | None:
    if not isinstance(doc, str) or not doc.strip():
        return "no module docstring"
    if not isinstance(priors, Mapping):
        return "no mapping PRIORS"
    wrong = [k for k, v in priors.items() if isinstance(v, bool) or not isinstance(v, int | float)]
    wrong += [k for k, v in priors.items() if k not in wrong and not 0 < v < sys.float_info.max]
    if wrong:
        return f"PRIORS[{wrong[0]!r}] = {str(priors[wrong[0]])[:40]} is not a positive number"
    if not callable(function):
        return "no function model"
    if list(inspect.signature(function).parameters)[:3] != ["pp", "data", "priors"]:
        return f"model has the parameters {inspect.signature(function)}"
    return None


def priors_from_json(text: str) -> dict[str, float]:
    """Return the priors that a fit was made with from its attribute."""
    return {str(k): float(v) for k, v in json.loads(text).items()}
