"""Adapters for which kernels are generated without having them: what WebGPU promises, less, and more."""

from __future__ import annotations

from webgpu_torch_backend_wgpu.program import Capabilities

PROFILES = {
    # WebGPU's default limits (https://www.w3.org/TR/webgpu/#limits), none of the optional features.
    "default": Capabilities(
        adapter="integrated",
        workgroups_per_dimension=65535,
        invocations=256,
        workgroup_bytes=16384,
        storage_buffers=8,
        binding_bytes=1 << 27,
        half=False,
        int64=False,
        subgroups=False,
    ),
    # What Mesa's software renderer grants.
    "llvmpipe": Capabilities(
        adapter="llvmpipe llvmpipe (llvm 15.0.6, 256 bits)",
        workgroups_per_dimension=65535,
        invocations=1024,
        workgroup_bytes=32768,
        storage_buffers=32,
        binding_bytes=1 << 27,
        half=True,
        int64=True,
        subgroups=True,
    ),
    # A large discrete adapter.
    "discrete": Capabilities(
        adapter="nvidia nvidia h200",
        workgroups_per_dimension=65535,
        invocations=1024,
        workgroup_bytes=49152,
        storage_buffers=1024,
        binding_bytes=(1 << 31) - 16,
        half=True,
        int64=True,
        subgroups=True,
    ),
}
