"""What the data say: the verbs of a model file that read them, apart from what it observes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.errors import ModelError, listed
from measurebayes.program.cells import Cells
from measurebayes.program.human_times import Records, human_times
from measurebayes.program.labelled import Labelled

AXES = ("agent", "task", "family")
DAYS_A_YEAR = 365.25
RELEASES = "trend_releases"  # attribute of data: first and last release that a trend was fitted to
#: Axes and groups of a fit, which neither a variable nor an axis of a model can be named after.
RESERVED = frozenset({"chain", "draw", *AXES, "cell", "successes"})


class DataVerbs:
    """The part of a program that reads the data; see `Program`."""

    def __init__(self, data: xr.Dataset, layout: str = "long") -> None:
        self.data = data
        self.cells = Cells(data, layout)
        self.axes: dict[str, np.ndarray] = {}
        #: Parts of the data whose values the text used, beside what it observes.
        self.reads: set[str] = set()
        #: Options whose number the data give, with the part of them that does.
        self.set_by_data: dict[str, tuple[int, str]] = {}
        self._human_times: dict[str, Records] | None = None

    def axis(self, name: str, labels: Any) -> xr.DataArray:
        """Give the model an axis of its own, and return its labels along it.

        `labels` are numbers or words, or a number n for 0 to n - 1. They are kept in the fit, and
        when the text is evaluated at draws of a fit, the axis has the labels of the fit: what
        depends on the data that were fitted, such as knots at quantiles, then stays where it was.
        """
        stored = self.stored_labels(name)
        if stored is None:
            stored = np.arange(labels) if isinstance(labels, int) else np.asarray(labels)
        if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
            raise ValueError(f"{str(name)[:40]!r} can't be the name of an axis")
        if stored.ndim != 1 or not 0 < len(np.unique(stored)) == len(stored):
            raise ValueError(f"the labels of the axis {name!r} are not different ones in a row")
        self.axes[name] = stored
        return xr.DataArray(stored, {name: stored}, (name,))

    def stored_labels(self, name: str) -> np.ndarray | None:
        """Return the labels that an axis has in the values that the text is evaluated at."""
        return None

    def log2_minutes(self) -> xr.DataArray:
        """Return log2 of the human minutes of every task (task,).

        The median stands for unknown ones of tasks that nobody attempted: nothing depends on it.

        Raises
        ------
        ModelError
            A task with attempts lacks its human minutes.
        """
        self.reads.add("human_minutes")
        minutes = self.data["human_minutes"].values
        tried = np.zeros(minutes.size, dtype=bool)
        tried[self.data["task_index"].values[self.data["attempts"].values > 0]] = True
        lacks = tried & ~(np.isfinite(minutes) & (minutes > 0))
        if lacks.any():
            raise ModelError(
                f"{lacks.sum()} of {tried.sum()} tasks with attempts have no human minutes: "
                + listed(self.data["task"].values[lacks].tolist()),
                where="human_minutes of the data",
                expected="the time that each task takes a person",
                remedy="mb.subset(runs, task=runs.task[runs.human_minutes > 0].values) keeps the "
                "tasks that have it",
            )
        known = np.isfinite(minutes) & (minutes > 0)
        usual = np.median(minutes[known]) if known.any() else 1.0
        return xr.DataArray(np.log2(np.where(known, minutes, usual)), dims="task")

    def times(self, kind: str) -> int:
        """Return how many records of human time of a kind there are.

        Kinds are timed, recorded, estimated and failed: see measurebayes.program.human_times.
        """
        return self.records(kind).size

    def records(self, kind: str) -> Records:
        """Return the records of human time of a kind."""
        if self._human_times is None:
            self._human_times = human_times(self.data)
        return self._human_times[kind]

    def averaged(self, kind: str) -> xr.DataArray:
        """Return how many timed attempts each record of a kind averages (record,)."""
        return xr.DataArray(self.records(kind).number, dims=kind)

    def suites(self) -> xr.DataArray:
        """Return the axis `suite`: the sources that tasks with records of human time come from."""
        kinds = ("timed", "recorded", "failed")
        task = np.concatenate([self.records(kind).task for kind in kinds])
        return self.axis("suite", sorted(set(self.data["source"].values[task].tolist())) or [""])

    def release_years(self) -> xr.DataArray:
        """Return years from the middle of all release dates to that of each agent (agent,).

        The middle lies halfway between the first and the last known release; it stands for unknown
        dates of agents without attempts, on which nothing depends.

        Raises
        ------
        ModelError
            An agent with attempts lacks its release date, or all were released on one day.
        """
        dates = self.data["release_date"].values
        middle = self._release_range()[0] + self._release_range()[1] / 2
        days = (dates - middle) / np.timedelta64(1, "D")
        return xr.DataArray(np.where(np.isnat(dates), 0.0, days / DAYS_A_YEAR), dims="agent")

    def release_span(self) -> float:
        """Return years from the first to the last known release."""
        return float(self._release_range()[1] / np.timedelta64(1, "D") / DAYS_A_YEAR)

    def _release_range(self) -> tuple[Any, Any]:
        """Return the first known release date, and the time from it to the last.

        Data made to look at a trend on other dates tell in an attribute those of the fit.
        """
        dates = self.data["release_date"].values
        tried = np.isin(np.arange(dates.size), self.data["agent_index"].values)
        lacks = self.data["agent"].values[tried & np.isnat(dates)].tolist()
        known = dates[~np.isnat(dates)]
        if lacks or np.unique(known).size < 2:
            raise ModelError(
                f"{len(lacks)} agents with attempts have no release date: {listed(lacks)}"
                if lacks
                else "all agents were released on the same day",
                where="release_date of the data",
                expected="the days on which agents were released, at least two of them",
                remedy="mb.join(runs, agents=TABLE) takes a table with agent and release_date; "
                "mb.subset(runs, agent=[...]) leaves agents out",
            )
        first, last = known.min(), known.max()
        if RELEASES in self.data.attrs:
            first, last = np.array(self.data.attrs[RELEASES].split(), dtype=dates.dtype)
        return first, last - first

    def family_weights(self) -> Labelled:
        """Return the weight of every cell if families shall count less the more tasks they have.

        A cell weighs 1 / (attempts sqrt(n)), n being the number of tasks of its family that its
        agent attempted, times a number that makes the weights of all attempts of an agent sum to
        the effective number of its tasks, (sum w)^2 / sum w^2 (Kish 1965).
        """
        self.reads.add("cells")
        agent, family = self.data["agent_index"].values, self.data["family_index"].values
        pair = agent * self.data.sizes["family"] + family[self.data["task_index"].values]
        _, position, number = np.unique(pair, return_inverse=True, return_counts=True)
        weight = number[position] ** -0.5
        scale = np.bincount(agent, weight) / np.maximum(np.bincount(agent, weight**2), 1e-300)
        weight = weight * scale[agent] / self.data["attempts"].values
        return Labelled(self.cells.place(weight), self.cells.dims)

    def allowed_loadings(self) -> xr.DataArray:
        """Return 1 where a task may load on a dimension, else 0 (task, dimension).

        The data hold it as `allowed_loading`; its dimensions become the axis `dimension`.

        Raises
        ------
        ModelError
            The data have no such table, a dimension has no task, or two have the same label.
        """
        table = self.data.get("allowed_loading")
        problem = _problem_with(table)
        if problem or table is None:
            raise ModelError(
                problem,
                where="allowed_loading of the data",
                expected="a table (task, dimension) of 0 and 1, each dimension with a 1 and with a "
                "label of its own",
                remedy='runs.assign(allowed_loading=(("task", "dimension"), TABLE))',
            )
        labels = table["dimension"].values if "dimension" in table.coords else table.shape[1]
        self.axis("dimension", labels)
        self.set_by_data["dimensions"] = (table.shape[1], "allowed_loading of the data")
        return xr.DataArray(table.values.astype(float), dims=("task", "dimension"))


def _problem_with(table: xr.DataArray | None) -> str:
    """Say what is wrong with a table of allowed loadings, if anything is."""
    if table is None:
        return "the data have no variable allowed_loading"
    if table.dims != ("task", "dimension"):
        return f"allowed_loading has dims {table.dims}"
    if not table.shape[1]:
        return "allowed_loading has no dimension"
    if not np.isin(table.values, (0, 1)).all():
        return "allowed_loading has values other than 0 and 1"
    if not table.any("task").all():
        return "allowed_loading has a dimension without tasks"
    labels = table["dimension"].to_index() if "dimension" in table.coords else pd.RangeIndex(1)
    if labels.hasnans or not labels.is_unique:
        twice = labels[labels.duplicated() | labels.isna()].unique()
        return f"allowed_loading has dimensions without a label of their own: {listed(twice)}"
    return ""
