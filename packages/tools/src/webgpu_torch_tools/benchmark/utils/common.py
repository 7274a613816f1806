"""Measurements and how they are written."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from webgpu_torch_core import get_num_threads, set_num_threads

MOST_FIGURES = 4
#: seconds below which no difference between two times can be told
SHORTEST_INTERVAL = 25e-9
#: the normal distribution's bounds of 90 %
DEVIATIONS = 1.645
#: interquartile range by median from which a measurement is doubtful, and from which it is very doubtful
DOUBTFUL, VERY_DOUBTFUL = 0.1, 0.25
_UNITS = {"ns": ("nanosecond", 1e-9), "us": ("microsecond", 1e-6), "ms": ("millisecond", 1e-3), "s": ("second", 1)}


@dataclass(repr=False, frozen=True)
class TaskSpec:
    """What was measured: the arguments of a :class:`Timer` but for ``globals``."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, else the statement, with what distinguishes it."""
        below = f": {self.sub_label}" if self.sub_label else ""
        if self.label is not None:
            return self.label + below
        if "\n" not in self.stmt:
            return self.stmt + below
        beside = f" ({self.sub_label})" if self.sub_label else ""
        return f"stmt:{beside}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """Return the setup as it is shown; empty if there is none."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Return the lines that begin a measurement's text."""
        parts = [each for each in (self.title, self.description, self.setup_str()) if each]
        return "\n".join(each + "\n" if "\n" in each else each for each in parts)


_SPECIFIED = frozenset(each.name for each in fields(TaskSpec))


def _quantile(ordered: Sequence[float], part: float) -> float:
    """Return a quantile of sorted numbers, by interpolating between the two next to it."""
    place = part * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(repr=False)
class Measurement:
    """Times of one statement; what the task was can be read from it directly (``label``, ``stmt``, ...).

    Args:
        number_per_run: how often the statement ran for each time.
        raw_times: seconds.
        task_spec: what was measured.
        metadata: whatever its owner wants to keep with it.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _SPECIFIED:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def times(self) -> list[float]:
        """Seconds per execution of the statement."""
        return [each / self.number_per_run for each in self.raw_times]

    def _quantile(self, part: float) -> float:
        return _quantile(sorted(self.times), part) if self.raw_times else -1.0

    @property
    def median(self) -> float:
        """The median of the times."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return statistics.fmean(self.times) if self.raw_times else -1.0

    @property
    def iqr(self) -> float:
        """The interquartile range, from the time that a quarter stays below to the one that a quarter exceeds."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median mean something (1 to 4).

        As many as the confidence interval of 90 % of the middle half's mean leaves.
        """
        ordered = sorted(self.times)
        middle = ordered[len(ordered) // 4 : math.ceil(3 * len(ordered) / 4)]
        spread = DEVIATIONS * statistics.pstdev(middle) / math.sqrt(len(middle))
        figures = math.floor(math.log10(self.median / max(spread, SHORTEST_INTERVAL)))
        return min(max(figures, 1), MOST_FIGURES)

    @property
    def has_warnings(self) -> bool:
        """Whether the times differ suspiciously."""
        return bool(self.raw_times) and not self.meets_confidence()

    def meets_confidence(self, threshold: float = DOUBTFUL) -> bool:
        """Return whether the interquartile range is less than a part of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """The task's title."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What names its row in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def _warning(self) -> list[str]:
        if not self.has_warnings:
            return []
        much = not self.meets_confidence(VERY_DOUBTFUL)
        meaning = "suggests significant environmental influence" if much else "could indicate system fluctuation"
        return [
            f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% of the median measurement.",
            f"           This {meaning}.",
        ]

    def __repr__(self) -> str:
        count, spec = len(self.raw_times), self.task_spec
        unit, scale = select_unit(self.median)
        lines = [object.__repr__(self), spec.summarize()]
        lines.append(f"  {'Median: ' if count > 1 else ''}{self.median / scale:.2f} {unit}")
        if count >= 4:
            low, high = self._quantile(0.25) / scale, self._quantile(0.75) / scale
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        runs = f"{self.number_per_run} runs {'per measurement,' if count > 1 else ','}"
        threads = f"{spec.num_threads} thread{'s' if spec.num_threads > 1 else ''}"
        lines.append(f"  {count} measurement{'s' if count > 1 else ''}, {runs} {threads}")
        return "\n".join(lines + self._warning())

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Return one measurement per task, of all its times, as if the statement had run once for each."""
        times: dict[TaskSpec, list[float]] = {}
        for each in measurements:
            times.setdefault(each.task_spec, []).extend(each.times)
        return [Measurement(1, found, spec) for spec, found in times.items()]


def select_unit(t: float) -> tuple[str, float]:
    """Return the unit that suits a time, and its seconds."""
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(math.floor(math.log10(t) / 3), "s") if t > 0 else "s"
    return unit, _UNITS[unit][1]


def unit_to_english(u: str) -> str:
    """Return the name of a unit."""
    return _UNITS[u][0]


def trim_sigfig(x: float, n: int) -> float:
    """Return a number rounded to so many significant figures.

    Raises:
        AssertionError: not a whole number of figures.
    """
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    scale = 10.0 ** (math.ceil(math.log10(abs(x))) - n)
    return round(x / scale) * scale


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Return what is different, in the order of first appearance."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Set the number of threads for a while."""
    before = get_num_threads()
    try:
        set_num_threads(n)
        yield
    finally:
        set_num_threads(before)
