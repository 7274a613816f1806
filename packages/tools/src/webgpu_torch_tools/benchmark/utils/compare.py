"""Measurements side by side."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from typing import Any

from . import common
from .common import Measurement

_BEST, _GOOD, _BAD, _VERY_BAD = "\033[92m\033[1m", "\033[34m\033[1m", "\033[2m\033[91m", "\033[31m\033[1m"
_END = "\033[0m\033[0m"
#: seconds by which a time may exceed the best and still be one of them
NEGLIGIBLE = 100e-9
#: what tables call the environment of measurements without one, beside others with one
UNSPECIFIED = "Unspecified env"


class Colorize(enum.Enum):
    """Among which measurements the best are coloured."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


def _coloured(text: str, value: float, best: float) -> str:
    if value <= best * 1.01 or value <= best + NEGLIGIBLE:
        return _BEST + text + _END
    if value <= best * 1.1:
        return _GOOD + text + _END
    if value >= best * 5:
        return _VERY_BAD + text + _END
    return _BAD + text + _END if value >= best * 2 else text


class _Column:
    """How a column's numbers are written: aligned, and with as many figures as the least certain one has."""

    def __init__(self, found: Sequence[Measurement | None], scale: float, trim: bool, warn: bool) -> None:
        measured = [each for each in found if each is not None]
        self.scale, self.trim = scale, trim
        self.warn = warn and any(each.has_warnings for each in measured)
        leading = [math.ceil(math.log10(each.median / scale)) for each in measured]
        decimals = 1
        if trim:
            pairs = zip(measured, leading, strict=True)
            decimals = min(max(each.significant_figures - digits, 0) for each, digits in pairs)
        length = max(leading) + decimals + (1 if decimals else 0)
        self._number = f"{{:>{length}.{decimals}f}}"

    def text(self, found: Measurement | None) -> str:
        if found is None:
            return " " * len(self._written(common.trim_sigfig(1, 1) if self.trim else 1, ""))
        value = found.median / self.scale
        if self.trim:
            value = common.trim_sigfig(value, found.significant_figures)
        return self._written(value, f" (! {found.iqr / found.median * 100:.0f}%)" if found.has_warnings else "")

    def _written(self, value: float, warning: str) -> str:
        return self._number.format(value) + (warning.rjust(7) if self.warn else "")


class _Table:
    """The measurements of one label: a row per statement, number of threads and environment, a column per description."""

    def __init__(self, results: Sequence[Measurement], colorize: Colorize, trim: bool, warn: bool) -> None:
        self.results, self.colorize, self.warn = results, colorize, warn
        self.label = results[0].label
        self.unit, self.scale = common.select_unit(min(each.median for each in results))
        keys = common.ordered_unique(self._row_key(each) for each in results)
        # Statements stay in their order.
        self.rows = sorted(keys, key=lambda key: key[:2])
        self.headings = common.ordered_unique(each.description for each in results)
        self.cells = {(self._row_key(each), each.description): each for each in results}
        self.columns = [
            _Column([self.cells.get((row, heading)) for row in self.rows], self.scale, trim, warn)
            for heading in self.headings
        ]

    @staticmethod
    def _row_key(found: Measurement) -> tuple[int, str, str]:
        return found.num_threads, found.env or UNSPECIFIED, found.as_row_name

    def _names(self) -> list[str]:
        """Return the rows' names, after their environment where it changes."""
        environments = {each for _, each, _ in self.rows}
        width = max(len(each) for each in environments) if len(environments) > 1 else 0
        names = []
        before: tuple[int, str] | None = None
        for threads, environment, name in self.rows:
            shown = f"({environment})" if len(environments) > 1 and (threads, environment) != before else ""
            names.append("  " + shown.ljust(width + 4) + name)
            before = (threads, environment)
        return names

    def _best(self, row: tuple[int, str, str], heading: str | None) -> float:
        """Return the best time among those that one is compared with."""
        if self.colorize is Colorize.ROWWISE:
            return min(each.median for (key, _), each in self.cells.items() if key == row)
        return min(each.median for (key, of), each in self.cells.items() if of == heading and key[0] == row[0])

    def _line(self, row: tuple[int, str, str], texts: Sequence[str], widths: Sequence[int]) -> str:
        parts = [texts[0].ljust(widths[0])]
        for heading, text, width in zip(self.headings, texts[1:], widths[1:], strict=True):
            found = self.cells.get((row, heading))
            text = text.center(width)
            if found is not None and self.colorize is not Colorize.NONE:
                text = _coloured(text, found.median, self._best(row, heading))
            parts.append(text)
        return "  |  ".join(parts)

    def render(self) -> str:
        rows: list[list[Any]] = [["", *self.headings]]
        for key, name in zip(self.rows, self._names(), strict=True):
            cells = zip(self.columns, self.headings, strict=True)
            rows.append([name, *(column.text(self.cells.get((key, heading))) for column, heading in cells)])
        rows[0] = [each or "" for each in rows[0]]
        widths = [max(len(each) for each in column) for column in zip(*rows, strict=True)]
        lines = ["  |  ".join(each.center(width) for each, width in zip(rows[0], widths, strict=True))]
        overall = len(lines[0])
        threads = None
        for key, texts in zip(self.rows, rows[1:], strict=True):
            if key[0] != threads:
                threads = key[0]
                lines.append(f"{threads} threads: ".ljust(overall, "-"))
            lines.append(self._line(key, texts, widths))
        title = f"[{(' ' + (self.label or '') + ' ').center(overall - 2, '-')}]"
        end = f"Times are in {common.unit_to_english(self.unit)}s ({self.unit}).\n"
        if self.warn and any(each.has_warnings for each in self.results):
            end += "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n"
        return "\n".join([title, *lines, "", end])


class Compare:
    """Measurements as tables: one per ``label``, a row per ``sub_label`` or statement, a column per ``description``.

    Args:
        results: the measurements; those of one task are merged.

    Raises:
        ValueError: something else among them.
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim = self._warn = False
        self._colorize = Colorize.NONE
        self.extend_results(results)

    def __str__(self) -> str:
        tables: dict[str | None, list[Measurement]] = {}
        for each in Measurement.merge(self._results):
            tables.setdefault(each.label, []).append(each)
        return "\n".join(
            _Table(results, self._colorize, self._trim, self._warn).render() for results in tables.values()
        )

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements.

        Raises:
            ValueError: something else among them.
        """
        found = list(results)
        for each in found:
            if not isinstance(each, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(each)} instead.")
        self._results += found

    def trim_significant_figures(self) -> None:
        """Write no more figures than mean something."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the best of each column, or of each row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark measurements whose times differ suspiciously."""
        self._warn = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))
