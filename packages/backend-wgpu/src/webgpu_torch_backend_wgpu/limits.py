"""What we ask an adapter for, and what it grants."""

from __future__ import annotations

from .facts import Facts
from .gpu.interface import MATRIX_FEATURE, Adapter, Gpu
from .program import Capabilities

#: features asked for wherever the adapter has them
WANTED_FEATURES = (
    "shader-f16",
    "shader-int64",
    "subgroups",
    "subgroup-barrier",
    MATRIX_FEATURE,
    "timestamp-query",
    "timestamp-query-inside-encoders",
    "timestamp-query-inside-passes",
)

#: operands plus outputs one kernel may bind, however many more the adapter allows: fusing further gains nothing
MOST_BINDINGS = 16


def wanted_features(adapter: Adapter) -> list[str]:
    """Return the features to request of an adapter."""
    return [each for each in WANTED_FEATURES if each in adapter.features]


def capabilities(adapter: Adapter, gpu: Gpu, facts: Facts) -> Capabilities:
    """Return what generated code may use on an opened adapter, given what its self-test found out."""
    limits, features = gpu.limits, gpu.features
    return Capabilities(
        software=adapter.kind == "cpu",
        facts=facts,
        workgroups_per_dimension=limits.max_compute_workgroups_per_dimension,
        invocations=limits.max_compute_invocations_per_workgroup,
        workgroup_bytes=limits.max_compute_workgroup_storage_size,
        storage_buffers=limits.max_storage_buffers_per_shader_stage,
        binding_bytes=limits.max_storage_buffer_binding_size & ~15,
        half="shader-f16" in features,
        int64="shader-int64" in features,
        subgroups="subgroups" in features,
        enables_subgroups=gpu.enables_subgroups,
        matrix_units=adapter.matrix_units if MATRIX_FEATURE in features else (),
        subgroup_size=adapter.subgroup_size if "subgroups" in features and facts.orders_subgroups else 0,
    )


def maximum_bindings(given: Capabilities) -> int:
    """Return how many operands and outputs a kernel may have: one storage buffer stays free for scratch."""
    return min(given.storage_buffers, MOST_BINDINGS) - 1
