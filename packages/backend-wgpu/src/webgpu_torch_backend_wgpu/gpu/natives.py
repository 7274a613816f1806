"""Which of the WebGPU implementations that are libraries computes: outside of pages."""

from __future__ import annotations

from .. import config
from ..backend import adapters
from . import choosing, dawn, dawn_library
from .interface import Runtime
from .native import NativeRuntime


def chosen_native() -> tuple[Runtime, str]:
    """Return the WebGPU implementation that ``WEBGPU_TORCH_RUNTIME`` names, or Dawn where it is installed and faster than
    wgpu-native, and why.

    Raises:
        RuntimeError: another name, or no Dawn library works here.
    """
    name = config.RUNTIME.text()
    if name:
        return runtime_named(name), "asked for by WEBGPU_TORCH_RUNTIME"
    path = dawn_library.library()
    if path is None:
        return runtime_named("wgpu"), "the default"
    choices = choosing.Choices(path)
    if choices.any():
        # Taken before on some adapter: where it is this one, wgpu-native need not even be loaded.
        taken = dawn.DawnRuntime()
        known = next((why for each in adapters(taken)[:1] if (why := choices.why(each)) is not None), None)
        if known is not None:
            return taken, known
    native = runtime_named("wgpu")
    found = adapters(native)
    if not found:
        return native, "the default"
    faster, why = choosing.faster_runtime(found[0], path)
    if faster != "dawn":
        return native, why
    taken = dawn.DawnRuntime()
    for each in adapters(taken)[:1]:
        choices.take(each, why)
    return taken, why


def runtime_named(name: str) -> Runtime:
    """Return the WebGPU implementation of a name: ``wgpu`` or ``dawn``.

    Raises:
        RuntimeError: another name, or no Dawn library works here.
    """
    if name == "dawn":
        able, reason = dawn_library.works()
        if not able:
            raise RuntimeError(f"WEBGPU_TORCH_RUNTIME=dawn, but Dawn cannot be used: {reason}")
        return dawn.DawnRuntime()
    if name != "wgpu":
        raise RuntimeError(f"WEBGPU_TORCH_RUNTIME={name} names no runtime; there are wgpu and dawn")
    return NativeRuntime()
