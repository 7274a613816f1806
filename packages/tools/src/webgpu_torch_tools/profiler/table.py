"""Events as a table of text, with PyTorch's columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from webgpu_torch_core.backend.plugins import registry

from .events import DeviceType, EventList, format_time

WIDTH = 12
_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


def device_metric(name: str) -> str:
    """Return an attribute of events by the name that programs for one kind of device give it."""
    for kind in ("cuda", "xpu", "privateuse1", *registry.accelerators()):
        name = name.replace(kind, "device")
    return name


def sorted_events(events: EventList, by: str) -> EventList:
    """Return the events with the largest of an attribute first."""
    name = device_metric(by)
    return EventList(sorted(events, key=lambda each: getattr(each, name), reverse=True), **events._options)


def _share(part: float, whole: float) -> str:
    return "NaN" if whole == 0 else f"{part * 100.0 / whole:.2f}%"


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def _cut(text: str, width: int | None) -> str:
    return text if width is None or len(text) < width - 3 else text[: width - 3] + "..."


def _cut_left(text: str, width: int) -> str:
    return text if len(text) <= width else "..." + text[len(text) - width + 3 :]


def _bounded(longest: int, limit: int | None) -> int:
    return longest + 4 if limit is None else min(longest + 4, limit)


class _Columns:
    """The columns of a table: heading, width, and the text of an event's cell."""

    def __init__(self) -> None:
        self.headings: list[str] = []
        self.widths: list[int] = []
        self.cells: list[Callable[[Any], str]] = []
        self.left = False

    def add(self, heading: str, cell: Callable[[Any], str], width: int = WIDTH) -> None:
        self.headings.append(heading)
        self.widths.append(width)
        self.cells.append(cell)

    def line(self, texts: list[str]) -> str:
        # Only the last column, of source lines, stands to the left.
        last = len(texts) - 1
        padded = [
            text.ljust(width) if self.left and number == last else text.rjust(width)
            for number, (text, width) in enumerate(zip(texts, self.widths, strict=True))
        ]
        return "".join(each + "  " for each in padded)

    @property
    def separator(self) -> str:
        return "".join("-" * width + "  " for width in self.widths)


def _totals(events: EventList) -> tuple[float, float]:
    """Return the host's and the device's own time; user's ranges and plans hold no time of kernels of their own."""
    host = sum(each.self_cpu_time_total for each in events)
    on_device = (each for each in events if each.device_type is not DeviceType.CPU and not each.is_user_annotation)
    return host, sum(each.self_device_time_total for each in on_device)


def _time_columns(columns: _Columns, totals: tuple[float, float], device: str | None, shown: Any) -> None:
    host, busy = totals
    columns.add("Self CPU %", lambda each: _share(each.self_cpu_time_total, host))
    columns.add("Self CPU", lambda each: shown(each.self_cpu_time_total))
    columns.add("CPU total %", lambda each: "0" if each.is_async else _share(each.cpu_time_total, host))
    columns.add("CPU total", lambda each: shown(each.cpu_time_total))
    columns.add("CPU time avg", lambda each: shown(each.cpu_time))
    if device is not None:
        columns.add(f"Self {device}", lambda each: shown(each.self_device_time_total))
        columns.add(f"Self {device} %", lambda each: _share(each.self_device_time_total, busy))
        columns.add(f"{device} total", lambda each: shown(each.device_time_total))
        columns.add(f"{device} time avg", lambda each: shown(each.device_time))


def _memory_columns(columns: _Columns, device: str | None) -> None:
    columns.add("CPU Mem", lambda each: _bytes(each.cpu_memory_usage))
    columns.add("Self CPU Mem", lambda each: _bytes(each.self_cpu_memory_usage))
    if device is not None:
        columns.add(f"{device} Mem", lambda each: _bytes(each.device_memory_usage))
        columns.add(f"Self {device} Mem", lambda each: _bytes(each.self_device_memory_usage))


def _flops_column(columns: _Columns, events: EventList) -> None:
    known = [each.flops for each in events if each.flops]
    if not known:
        return
    power = min(max(int(math.log10(min(known)) / 3), 0), len(_FLOPS) - 1)
    scale = 10.0 ** (-3 * power)
    columns.add(f"Total {_FLOPS[power]}", lambda each: f"{each.flops * scale:8.3f}" if each.flops else "--")


def _make_columns(events: EventList, options: dict[str, Any], widths: Any, totals: Any, shown: Any) -> _Columns:
    name_limit, shapes_limit, source_limit = widths
    device = (options["use_device"] or "device").upper()
    columns = _Columns()
    columns.add(
        "Name", lambda each: _cut(each.key, name_limit), _bounded(max(len(each.key) for each in events), name_limit)
    )
    measured = any(each.self_device_time_total > 0 for each in events)
    _time_columns(columns, totals, device if measured else None, shown)
    if options["profile_memory"]:
        held = any(each.self_device_memory_usage > 0 for each in events)
        _memory_columns(columns, device if held and options["use_device"] else None)
    columns.add("# of Calls", lambda each: str(each.count))
    if any(each.input_shapes for each in events):
        width = _bounded(max(len(str(each.input_shapes)) for each in events), shapes_limit)
        columns.add("Input Shapes", lambda each: str(each.input_shapes)[:width], width)
    if options["with_flops"]:
        _flops_column(columns, events)
    lines = [len(line) for each in events for line in each.stack or ()]
    if lines:
        width = _bounded(max(lines), source_limit)
        columns.add("Source Location", lambda each: _cut_left(each.stack[0], width) if each.stack else "", width)
        columns.left = True
    return columns


def build_table(
    events: EventList,
    options: dict[str, Any],
    row_limit: int,
    widths: tuple[int | None, int | None, int | None],
    header: str | None,
    top_level_only: bool,
    time_unit: str | None,
) -> str:
    """Return the text of :meth:`EventList.table`; empty without events."""
    if not events:
        return ""

    def shown(time: float) -> str:
        return f"{time / _UNITS[time_unit]:.3f}{time_unit}" if time_unit in _UNITS else format_time(time)

    totals = _totals(events)
    columns = _make_columns(events, options, widths, totals, shown)
    rule = "=" * (len(columns.separator) - 2)
    lines = [] if header is None else [rule, header]
    lines += [rule, "This report only display top-level ops statistics"] if top_level_only else []
    lines += [columns.separator, columns.line(columns.headings), columns.separator]
    chosen = [each for each in events if not (top_level_only and each.cpu_parent is not None)]
    for each in chosen if row_limit < 0 else chosen[:row_limit]:
        lines.append(columns.line([cell(each) for cell in columns.cells]))
        if columns.left:
            empty = [""] * (len(columns.widths) - 1)
            lines += [columns.line([*empty, _cut_left(line, columns.widths[-1])]) for line in each.stack[1:]]
            lines.append(columns.line([*empty, ""]))
    lines += [columns.separator, f"Self CPU time total: {shown(totals[0])}"]
    if any(each.self_device_time_total > 0 for each in events):
        lines.append(f"Self {(options['use_device'] or 'device').upper()} time total: {shown(totals[1])}")
    return "".join(line + "\n" for line in lines)
