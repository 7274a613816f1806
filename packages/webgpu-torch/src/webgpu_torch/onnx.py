"""``torch.onnx``: nothing is exported; models that ask whether they are being exported are told no."""

from __future__ import annotations


def is_in_onnx_export() -> bool:
    """Return False: there is no export to ONNX."""
    return False
