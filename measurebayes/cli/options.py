"""Options that several commands share, and options that take several values."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from measurebayes.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

AnyCommand = Callable[..., Any]
Decorator = Callable[[AnyCommand], AnyCommand]


class Several(click.Option):
    """An option that takes one or more values: ``--models rasch two_pl``.

    It ends at the next option, or at ``--``. May also be repeated. Needs `Command`.
    """

    def __init__(self, param_decls: Sequence[str], **kwargs: Any) -> None:
        super().__init__(param_decls, **{**kwargs, "multiple": True})


class Command(click.Command):
    """A command whose `Several` options take values up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse after repeating the option's name before each of its values."""
        names = {n for p in self.params if isinstance(p, Several) for n in p.opts}
        read = any(p.name == "reader" for p in self.params)  # the command reads records
        try:
            return super().parse_args(ctx, repeat_names(args, names))
        except click.NoSuchOption as error:
            word = error.option_name.lstrip("-").replace("-", "_")
            if read and word in _options_of_readers():
                raise click.UsageError(
                    f"No such option {error.option_name!r}; options of readers are written "
                    f"--option {word}=VALUE; some have a name of their own: --policy, --column, "
                    "--join.",
                    ctx,
                ) from None
            raise
        except click.MissingParameter as error:
            used = sorted(names.intersection(args))
            if isinstance(error.param, click.Argument) and used:
                raise click.MissingParameter(
                    f"{', '.join(used)} takes all values after it: write the others before it.",
                    error.ctx,
                    error.param,
                ) from None
            raise
        except click.UsageError as error:
            if read and error.message.startswith("Got unexpected extra argument"):
                raise click.UsageError(
                    "More than one path is given. Put a pattern in quotes ('logs/*.eval'), or name "
                    "the folder; names with blanks need quotes too (--option 'suite=Two words').",
                    ctx,
                ) from None
            raise


def _options_of_readers() -> set[str]:
    from measurebayes.data import READERS

    return set(_JOINS).union(
        option.name for reader in READERS.values() for option in reader.options
    )


def repeat_names(args: Sequence[str], names: Iterable[str]) -> list[str]:
    """Write ``--name a b`` as ``--name a --name b`` for every option in `names`."""
    names = set(names)
    result: list[str] = []
    name, first = "", False
    for place, word in enumerate(args):
        if word == "--":
            return [*result, *args[place:]]
        if word in names:
            name, first = word, True
        elif word.startswith("-") and not _is_number(word):
            name = ""
        elif name and not first:
            result.append(name)
        else:
            first = False
        result.append(word)
    return result


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def all_of(*options: Decorator) -> Decorator:
    """Return a decorator that adds options in the order in which they stand in the help."""

    def decorate(command: AnyCommand) -> AnyCommand:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


json_option: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead of a table."
)


def level_option(default: float, text: str = "Probability of the intervals.") -> Decorator:
    """Add --level with its default and its help text."""
    between = click.FloatRange(0.0, 1.0, min_open=True, max_open=True)
    return click.option("--level", type=between, default=default, show_default=True, help=text)


def model_option(command: AnyCommand) -> AnyCommand:
    """Add --model, for fits made with model files of the user's own."""
    return click.option(
        "--model",
        "own_models",
        multiple=True,
        metavar="FILE",
        callback=_load_models,
        expose_value=False,
        help="Model file of your own that a FIT was made with; it is run as code.",
    )(command)


def _load_models(_: click.Context, __: click.Parameter, files: tuple[str, ...]) -> None:
    if files:
        from measurebayes.program.registry import get_model

        for file in files:
            get_model(file)


def reader_options(command: AnyCommand) -> AnyCommand:
    """Add the options that say how to read DATA; the command gets them as `reading`."""

    @functools.wraps(command)
    def with_reading(
        *args: Any,
        reader: str | None,
        policy: str | None,
        columns: tuple[str, ...],
        options: tuple[str, ...],
        joins: tuple[str, ...],
        **others: Any,
    ) -> Any:
        reading: dict[str, Any] = dict(named_values(options, "--option", "scorer=exact_match"))
        if reader is not None:
            reading["reader"] = reader
        if policy is not None:
            reading["policy"] = policy
        if columns:
            reading["columns"] = named_values(columns, "--column", "agent=model")
        reading |= named_values(joins, "--join", "tasks=human_times.csv")
        return command(*args, reading=reading, **others)

    return all_of(
        click.option(
            "--reader",
            help="Format of DATA where it can't be told from the content: long, wide, hub, irw, "
            "pyirt, metr, metr_yaml, inspect, lm_eval, helm or every_eval_ever.",
        ),
        click.option(
            "--policy",
            help="What records without a score count as: failure, missing or as_scored, or one for "
            "each status: errored=missing,limit=failure.",
        ),
        click.option(
            "--column",
            "columns",
            multiple=True,
            metavar="NAME=COLUMN",
            help="Column of DATA that holds agent, task, ...: --column agent=model.",
        ),
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="NAME=VALUE",
            help="Any other option of the reader: --option scorer=exact_match. "
            "`measurebayes formats` lists them.",
        ),
        click.option(
            "--join",
            "joins",
            multiple=True,
            metavar="WHAT=FILE",
            help="Table of properties: tasks=FILE, agents=FILE, families=FILE (a column task or "
            "agent, a column each); or the rule family=prefix:/ for families.",
        ),
    )(with_reading)


prior_option: Decorator = click.option(
    "--prior",
    "priors",
    multiple=True,
    metavar="NAME=VALUE",
    help="Replace a number of the model's PRIORS; may be repeated.",
)

# Settings of a fit, with the defaults of measurebayes.fit.
sampling_options = all_of(
    click.option(
        "--backend", type=click.Choice(["numpyro", "pymc"]), default="numpyro", show_default=True
    ),
    click.option(
        "--method",
        type=click.Choice(["nuts", "laplace", "pathfinder", "map"]),
        default="nuts",
        show_default=True,
        help="All but nuts approximate; `measurebayes check` says what their draws are worth.",
    ),
    click.option("--draws", type=click.IntRange(1), default=1000, show_default=True),
    click.option("--tune", type=click.IntRange(1), default=500, show_default=True),
    click.option("--chains", type=click.IntRange(1), default=4, show_default=True),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
    prior_option,
    click.option(
        "--unconnected",
        type=click.Choice(["error", "fit"]),
        default="error",
        show_default=True,
        help="What data in pieces without a common scale are; fit: priors alone relate them.",
    ),
    click.option("--quiet", is_flag=True, help="No progress bar."),
)


def output_option(text: str, required: bool = True) -> Decorator:
    """Add -o/--output with its help text."""
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), required=required, help=text
    )


def load_data(source: str, reading: Mapping[str, Any]) -> xr.Dataset:
    """Load DATA with the reader options that were given.

    Raises
    ------
    InputError
        The data can't be read; the remedy says what to type on the command line.
    """
    from measurebayes.data import load

    with as_options():
        return load(source, **reading)


@contextmanager
def as_options() -> Iterator[None]:
    """Let errors say what to type on the command line, not in Python."""
    try:
        yield
    except InputError as error:
        error.remedy = on_command_line(error.remedy or "")
        error.expected = on_command_line(error.expected or "")
        raise


# Reader options as messages write them: missing='drop', columns={'agent': 'model'}.
_KEYWORD = re.compile(r"\b([a-z_]+)=(?:'([^']*)'|([0-9.]*[0-9]|True|False)\b)")
_FUNCTIONS = {
    r"\bmeasurebayes\.concat\b": "measurebayes concat",
    r"\bmeasurebayes\.subset\(runs, agent=\[...\]\)": "measurebayes load DATA --subset agent=LABEL "
    "-o PART.nc",
    r"\bmeasurebayes\.score\(runs, fit\)": "measurebayes score DATA FIT",
    r"\bmeasurebayes\.check\(fit\)": "measurebayes check FIT",
    r"\bmeasurebayes\.open\(path\) opens a fit;.*": "give the data themselves; commands "
    "about a fit are check, score, report and cite",
    r"\bmeasurebayes\.join\(runs, \.\.\., (--join [a-z=]+)\)": r"\1",
}
_JOINS = ("tasks", "agents", "families", "family", "conflicts", "unmatched")
_COLUMNS = re.compile(r"\bcolumns=(?:\{([^}]*)\}|\"([^\"]*)\")")


def on_command_line(remedy: str) -> str:
    """Turn arguments of `measurebayes.load` in a message into options of a command."""
    from measurebayes.data import READERS

    known = {option.name for reader in READERS.values() for option in reader.options}

    def option(found: re.Match[str]) -> str:
        name, value = found[1], found[2] if found[2] is not None else found[3].lower()
        if name in _JOINS:
            return f"--join {shlex.quote(f'{name}={value}')}"
        if name in ("policy", "reader", "unconnected", "shared"):
            return f"--{name} {shlex.quote(value)}"
        if name not in known:
            return found[0]
        return f"--option {shlex.quote(f'{name}={value}')}"

    def column(found: re.Match[str]) -> str:
        pairs = re.findall(r"'?(\w+)'?\s*[:=]\s*('[^']*'|[\w.]+)", found[1] or found[2])
        return " ".join("--column " + shlex.quote(f"{n}={v.strip(chr(39))}") for n, v in pairs)

    text = _COLUMNS.sub(column, _KEYWORD.sub(option, remedy))
    for pattern, words in _FUNCTIONS.items():
        text = re.sub(pattern, words, text)
    return text


def named_values(words: Sequence[str], option: str, example: str) -> dict[str, str]:
    """Read NAME=VALUE words.

    Raises
    ------
    InputError
        A word has no ``=`` or names something twice.
    """
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value) or name in values:
            raise InputError(
                f"{option} {word!r}" + (f" gives {name!r} a second time" if name in values else ""),
                where="the command line",
                expected="NAME=VALUE, each name once",
                remedy=f"write for example {option} {example}",
            )
        values[name] = value
    return values


def prior_values(words: Sequence[str]) -> dict[str, float]:
    """Read the numbers of ``--prior NAME=VALUE``.

    Raises
    ------
    InputError
        A value is not a number.
    """
    priors = {}
    for name, value in named_values(words, "--prior", "ability_sd=1.5").items():
        try:
            priors[name] = float(value)
        except ValueError:
            raise InputError(
                f"--prior {name}={value}",
                where="the command line",
                expected="a number after =",
                remedy=f"write for example --prior {name}=1.5",
            ) from None
    return priors


def check_output(path: Path, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a file that can't be written, before any work is done.

    Raises
    ------
    InputError
        The folder doesn't exist, the path is a folder, or the file is one of the inputs.
    """
    if not path.parent.is_dir():
        raise InputError(
            f"the folder {str(path.parent)!r} does not exist",
            where=f"-o {path}",
            expected="a folder that exists",
            remedy=f"mkdir -p {path.parent}",
        )
    if path.is_dir():
        raise InputError(
            f"{str(path)!r} is a folder",
            where=f"-o {path}",
            expected="the name of a file",
            remedy=f"write for example -o {path / 'result.nc'}",
        )
    if path.exists() and not path.is_file():
        raise InputError(
            f"{str(path)!r} is no regular file",
            where=f"-o {path}",
            expected="a new name, or a file to replace",
            remedy="write for example -o result.nc",
        )
    if path.exists() and any(Path(i).exists() and path.samefile(i) for i in inputs):
        raise InputError(
            f"{str(path)!r} is also an input",
            where=f"-o {path}",
            expected="a file that is not read by the same command",
            remedy="write another name after -o",
        )
