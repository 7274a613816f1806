"""ONNX files of one operation each, written without the ``onnx`` package."""

from __future__ import annotations

from collections.abc import Sequence

#: the element type float32, ONNX's operator set, and the version of its files
_FLOAT, _OPERATORS, _VERSION = 1, 17, 8
#: an attribute that is a list of integers
_INTEGERS = 7


def _number(value: int) -> bytes:
    """Return a number as protocol buffers have it: seven bits a byte."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def _field(number: int, value: int | str | bytes) -> bytes:
    """Return a field of a message: a number, or text or a message with its length."""
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    data = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(data)) + data


def _port(name: str, shape: Sequence[int]) -> bytes:
    dimensions = b"".join(_field(1, _field(1, each)) for each in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, _FLOAT) + _field(2, dimensions)))


def model_of(
    operation: str, shapes: Sequence[Sequence[int]], result: Sequence[int], **integers: Sequence[int]
) -> bytes:
    """Return a model of one operation of inputs x, y with output z; ``integers``: its attributes.

    Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
    """
    names = "xy"[: len(shapes)]
    attributes = b"".join(
        _field(5, _field(1, name) + b"".join(_field(8, each) for each in values) + _field(20, _INTEGERS))
        for name, values in integers.items()
    )
    node = b"".join(_field(1, each) for each in names) + _field(2, "z") + _field(4, operation) + attributes
    inputs = b"".join(_field(11, _port(name, shape)) for name, shape in zip(names, shapes, strict=True))
    graph = _field(1, node) + _field(2, operation) + inputs + _field(12, _port("z", result))
    return _field(1, _VERSION) + _field(7, graph) + _field(8, _field(2, _OPERATORS))
