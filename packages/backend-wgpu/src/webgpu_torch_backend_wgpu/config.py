"""The environment variables that this backend reads."""

from __future__ import annotations

from webgpu_torch_core.config import Variable

ADAPTER = Variable(
    "WEBGPU_TORCH_ADAPTER", "part of the name of the adapters that count: vendor, device, driver or kind"
)
DAWN_LIBRARY = Variable("DAWN_LIB", "the file of a Dawn library, in place of the installed one")
NATIVE_LIBRARY = Variable("WGPU_LIB_PATH", "the file of a wgpu-native library, in place of the one that wgpu-py brings")
RUNTIME = Variable(
    "WEBGPU_TORCH_RUNTIME", "the WebGPU implementation: wgpu (wgpu-native), or dawn; the faster one otherwise"
)
CHECKED = Variable("WEBGPU_TORCH_CHECKED", "1: WebGPU modules with bounds checks, and Dawn checks what is recorded")
PAIRS = Variable("WEBGPU_TORCH_PAIRS", "0: products and attention of float32 and bfloat16 without matrix units")
