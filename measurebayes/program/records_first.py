"""Measured lengths and their difficulties, taken in the order that suits samplers and integrals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from measurebayes.program.labelled import Labelled, expand, labelled
from measurebayes.program.program import DIFFICULTY, LENGTH, Program

if TYPE_CHECKING:
    Base = Program
else:
    Base = object

LOG_TWO_PI = 1.8378770664093453


class RecordsFirst(Base):
    """Interpreters that state the three densities of `Program.measured_lengths` in another order.

    They are normal, so that records can come first, with log2 minutes integrated out; then
    difficulty given records, which agents' successes pin down; then log2 minutes given both, which
    little else depends on. In the order of the text difficulty and length would chase each other
    along a ridge whose width a sampler would have to find out. The joint density is the same.
    """

    def observed_times(self, kind: str) -> Labelled:
        """Return log2 minutes of the records of a kind."""
        return Labelled(self.records(kind).log2_minutes, (kind,))

    def records_density(self, density: Labelled) -> None:
        """Take note of the log density of the records."""

    def measured_lengths(
        self,
        usual: Any,
        spread: Any,
        errors: Mapping[str, tuple[Any, Any]],
        steepness: Any,
        task_sd: Any = None,
        origin: Any = 4.0,
        effect: Any = 0.0,
    ) -> tuple[Labelled, Labelled | None]:
        """State the same density; see the class."""
        mean, variance = self._given_records(labelled(usual), labelled(spread), errors)
        difficulty = None
        if task_sd is not None:
            steepness, noise = labelled(steepness), labelled(task_sd)
            total = steepness**2.0 * variance + noise**2.0
            location = steepness * (mean - origin) + effect
            difficulty = self.normal(DIFFICULTY, location, total**0.5, dims="task")
            mean = mean + steepness * variance / total * (difficulty - location)
            variance = variance * noise**2.0 / total
        log2_minutes = self.normal(LENGTH, mean, variance**0.5, dims="task")
        if "failed" in errors and self.times("failed"):  # a bound is not normal: it stays
            shift, error = errors["failed"]
            self.observe_times("failed", self.timed("failed", log2_minutes) + shift, error)
        return log2_minutes, difficulty

    def _given_records(
        self, usual: Labelled, spread: Labelled, errors: Mapping[str, tuple[Any, Any]]
    ) -> tuple[Labelled, Labelled]:
        """Mean and variance of log2 minutes given records (task,); their density is noted."""
        zeros = Labelled(np.zeros(self.data.sizes["task"]), ("task",))
        usual, precision, weighted = usual + zeros, spread**-2.0 + zeros, zeros
        density = Labelled(np.zeros(()))
        for kind, (shift, error) in errors.items():
            if kind == "failed" or not self.times(kind):
                continue
            observed = self.observed_times(kind)
            away = observed - shift - self.timed(kind, usual)
            error = labelled(error) + 0.0 * observed
            precision = precision + self._by_task(kind, error**-2.0)
            weighted = weighted + self._by_task(kind, away * error**-2.0)
            terms = (away / error) ** 2.0 + 2.0 * self.log(error) + LOG_TWO_PI
            density = density - 0.5 * self.sum(terms, kind)
        gained = weighted**2.0 / precision - self.log(spread**2.0 * precision)
        self.records_density(density + 0.5 * self.sum(gained, "task"))
        return usual + weighted / precision, 1.0 / precision

    def _by_task(self, kind: str, x: Labelled) -> Labelled:
        """Sum records of a kind by task."""
        others = tuple(d for d in x.dims if d != kind)
        value = expand(x, (*others, kind))
        size = self.data.sizes["task"]
        total = self.functions["total_by"](value, self.records(kind).task, size)
        return Labelled(total, (*others, "task"))
