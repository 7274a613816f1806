"""``torch.onnx``: models in the format of ONNX; a part of webgpu-torch-tools that needs the package ``onnx``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._parts import part

__all__ = ["ONNXProgram", "export", "is_in_onnx_export"]

if TYPE_CHECKING:
    from webgpu_torch_tools.onnx_export import ONNXProgram as ONNXProgram
    from webgpu_torch_tools.onnx_export import export as export
else:

    def __getattr__(name: str) -> object:
        if name in ("ONNXProgram", "export", "UnsupportedOperatorError"):
            return getattr(part("webgpu_torch_tools.onnx_export", "onnx"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_in_onnx_export() -> bool:
    """Return whether a module is being called to export it."""
    from .compiler import is_exporting

    return is_exporting()
