"""What a device tells of itself: what it has done, and what its adapter can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .facts import Facts

if TYPE_CHECKING:
    from .device import WgpuDevice


def statistics_of(device: WgpuDevice) -> dict[str, int]:
    """Return counts since the device was opened, for tests and profiles."""
    return {
        "dispatches": device.replayer.dispatches,
        "submits": device.replayer.submits,
        "bind_groups": device.replayer.groups.created,
        "bind_group_hits": device.replayer.groups.hits,
        "recording_hits": device.replayer.recording_hits,
        "programs": device.compiler.compiled_pipelines,
    }


def description_of(device: WgpuDevice) -> dict[str, str]:
    """Return what the adapter, its driver and its units are, and what was measured of them."""
    given, adapter = device.capabilities, device.adapter
    names = dict.fromkeys(("half", "int64", "binding_bytes", "subgroup_size"), given) | dict.fromkeys(
        Facts.fields, given.facts
    )
    units = ", ".join(map(str, given.matrix_units)) or "none"
    first = {"adapter": adapter.device, "driver": adapter.description, "api": adapter.api, "matrix units": units}
    return first | {name.replace("_", " "): str(getattr(source, name)) for name, source in names.items()}
