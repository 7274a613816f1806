"""Adapters that this machine need not have: what WebGPU promises, less, and more."""

from __future__ import annotations

from webgpu_torch_backend_wgpu.gpu.interface import DEFAULT_LIMITS, Adapter, Limits

#: those of the compatibility mode (https://github.com/gpuweb/gpuweb/blob/main/proposals/compatibility-mode.md)
COMPATIBILITY = DEFAULT_LIMITS.replace(
    max_uniform_buffer_binding_size=1 << 14,
    max_storage_buffers_per_shader_stage=4,
    max_compute_invocations_per_workgroup=128,
    max_compute_workgroup_size_x=128,
    max_compute_workgroup_size_y=128,
)
#: what Mesa's software renderer grants
SOFTWARE = DEFAULT_LIMITS.replace(
    max_buffer_size=(1 << 31) - 1,
    max_storage_buffers_per_shader_stage=32,
    max_compute_workgroup_storage_size=1 << 15,
    max_compute_invocations_per_workgroup=1024,
    max_compute_workgroup_size_x=1024,
    max_compute_workgroup_size_y=1024,
    max_compute_workgroup_size_z=1024,
)
#: a large discrete adapter
LARGE = SOFTWARE.replace(
    max_buffer_size=1 << 40,
    max_storage_buffer_binding_size=(1 << 31) - 4,
    max_storage_buffers_per_shader_stage=1024,
    max_compute_workgroup_storage_size=49152,
)
_FEATURES = ("shader-f16", "shader-int64", "subgroups")


def adapter(number: int, name: str, kind: str, limits: Limits, features: tuple[str, ...] = ()) -> Adapter:
    """Return an adapter of these limits and features."""
    return Adapter(
        number,
        name.split()[0],
        name,
        "made up",
        "Vulkan",
        kind,
        number,
        0,
        frozenset(features),
        limits,
        (),
        {"discrete": 32, "cpu": 8}.get(kind, 0),
    )


#: by the names of their profiles, the most capable kind first as a backend lists them
PROFILES = {
    "discrete": adapter(0, "nvidia h200", "discrete", LARGE, _FEATURES),
    "default": adapter(1, "integrated", "integrated", DEFAULT_LIMITS),
    "compatibility": adapter(2, "old phone", "integrated", COMPATIBILITY),
    "llvmpipe": adapter(3, "llvmpipe (LLVM 15.0.6, 256 bits)", "cpu", SOFTWARE, _FEATURES),
}
