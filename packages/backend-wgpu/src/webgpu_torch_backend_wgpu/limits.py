"""What we ask an adapter for, and what it grants."""

from __future__ import annotations

from typing import Any

from .program import Capabilities

#: features asked for wherever the adapter has them
WANTED_FEATURES = (
    "shader-f16",
    "shader-int64",
    "subgroup",
    "subgroup-barrier",
    "timestamp-query",
    "timestamp-query-inside-encoders",
    "timestamp-query-inside-passes",
)

#: operands plus outputs one kernel may bind, however many more the adapter allows: fusing further gains nothing
MOST_BINDINGS = 16


def wanted_features(adapter: Any) -> list[str]:
    """Return the features to request of an adapter."""
    return [each for each in WANTED_FEATURES if each in adapter.features]


def capabilities(adapter: Any, features: list[str]) -> Capabilities:
    """Return what generated code may use on an adapter."""
    limits = adapter.limits
    return Capabilities(
        adapter=f"{adapter.info['vendor']} {adapter.info['device']}".lower(),
        workgroups_per_dimension=limits["max-compute-workgroups-per-dimension"],
        invocations=limits["max-compute-invocations-per-workgroup"],
        workgroup_bytes=limits["max-compute-workgroup-storage-size"],
        storage_buffers=limits["max-storage-buffers-per-shader-stage"],
        binding_bytes=limits["max-storage-buffer-binding-size"] & ~15,
        half="shader-f16" in features,
        int64="shader-int64" in features,
        subgroups="subgroup" in features,
    )


def maximum_bindings(given: Capabilities) -> int:
    """Return how many operands and outputs a kernel may have: one storage buffer stays free for scratch."""
    return min(given.storage_buffers, MOST_BINDINGS) - 1
