"""The command `measurebayes` as a whole: exit statuses, and what is said when something ends it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from measurebayes import __version__
from measurebayes.cli.output import say
from measurebayes.errors import MeasureBayesError

DONE, CHECK_FAILED, WRONG_INPUT = 0, 1, 2
INTERRUPTED, BROKEN_PIPE = 130, 141  # 128 + the signal's number, as shells have it

# Packages that only an extra brings: import name -> extra.
EXTRAS = {
    "pymc": "pymc",
    "pytensor": "pymc",
    "nutpie": "pymc",
    "jinja2": "report",
    "matplotlib": "report",
}


class Cli(click.Group):
    """A group whose commands end with 0 (done), 1 (a check failed) or 2 (wrong input).

    Errors that measurebayes or the file system raise become one message on stderr. Anything else
    is a mistake in the program, and keeps its traceback.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line `args` (default: the process's own) and exit with its status."""
        extra["complete_var"] = complete_var
        if not standalone_mode:
            return super().main(args, prog_name, standalone_mode=False, **extra)
        words = sys.argv[1:] if args is None else list(args)
        extra.setdefault("obj", words)  # so that a command can say how to run it again
        sys.exit(self._status(words, prog_name or "measurebayes", extra))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; click itself would end with 1 when the reader of a pipe has gone."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return reader_gone()

    def _status(self, words: list[str], prog_name: str, extra: dict[str, Any]) -> int:
        try:
            with warnings_as_messages():
                status = super().main(words, prog_name, standalone_mode=False, **extra)
            if sys.stdout is not None:  # closed by the caller
                sys.stdout.flush()  # a reader that has gone away must show here, not at exit
        except MeasureBayesError as error:
            say(f"error: {error}")
        except click.ClickException as error:
            error.show()
        except (click.Abort, KeyboardInterrupt):
            say("interrupted")
            return INTERRUPTED
        except BrokenPipeError:
            return reader_gone()
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in EXTRAS:
                raise
            say(
                f"error: the package {package} is not installed\n"
                f"  remedy:   pip install 'measurebayes[{EXTRAS[package]}]'"
            )
        except OSError as error:
            say(f"error: {error.strerror or error}\n  where:    {error.filename or 'unknown'}")
        else:
            return status if isinstance(status, int) else DONE
        return WRONG_INPUT


def reader_gone() -> int:
    """Stop writing to stdout, and return the status for it."""
    # Python would complain once more when it flushes stdout at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


@contextmanager
def warnings_as_messages() -> Iterator[None]:
    """Print warnings meant for users as one message each, without a place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        yield


@click.group(
    "measurebayes",
    cls=Cli,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 done, 1 a check failed, 2 the input or the command line is wrong, "
    "130 interrupted.",
)
@click.version_option(__version__, prog_name="measurebayes")
def main() -> None:
    """Hierarchical Bayesian measurement models for AI-agent evaluations.

    DATA is a bundled name (metr-th1.1) or a file: CSV, Parquet, JSON lines, or a .nc file written
    by `measurebayes load`. MODEL is a name that `measurebayes models` lists, or a .py file.

    \b
    The whole chain in one command:
      measurebayes analyse metr-th1.1 --models rasch two_pl -o out/
    """  # noqa: D301 - \b is click's mark for "do not wrap"
