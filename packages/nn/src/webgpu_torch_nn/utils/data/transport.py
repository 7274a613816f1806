"""Objects between processes as a short pickle and the large buffers of their tensors and arrays, which are not copied."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Sequence
from typing import Any

from webgpu_torch_core import Tensor, contiguous_format
from webgpu_torch_core.operations.creation.factories import from_bytes


class _Pickler(pickle.Pickler):
    """Puts the elements of plain tensors into buffers beside the pickle."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is not Tensor or obj.requires_grad or obj.is_meta or obj.is_complex() or vars(obj):
            return NotImplemented
        # A copy, so that the storage holds these elements and no others.
        host = obj.cpu().clone(memory_format=contiguous_format)
        data = host._engine.read(host._storage.value)
        return _rebuild, (pickle.PickleBuffer(data), tuple(obj.shape), obj.dtype, str(obj.device))


def _rebuild(data: Any, shape: tuple[int, ...], dtype: Any, place: str) -> Tensor:
    return from_bytes(memoryview(data), shape, dtype, place)


def dump(value: Any) -> list[Any]:
    """Return what to send for a value: the sizes of the buffers, a pickle, the buffers."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(value)
    parts = [buffer.raw() for buffer in buffers]
    return [pickle.dumps([part.nbytes for part in parts]), stream.getbuffer(), *parts]


def send(channel: Any, parts: Sequence[Any]) -> None:
    """Send what :func:`dump` returned through a connection."""
    sizes, head, *buffers = parts
    channel.send_bytes(sizes)
    channel.send_bytes(head)
    for buffer in buffers:
        _write(channel, buffer)


def receive(channel: Any) -> Any:
    """Return the next value that was sent.

    Raises:
        EOFError: the other end was closed in the middle.
    """
    sizes = pickle.loads(channel.recv_bytes())
    head = channel.recv_bytes()
    # Not bytes, which would make read-only arrays.
    buffers = [bytearray(size) for size in sizes]
    for buffer in buffers:
        _read(channel, memoryview(buffer))
    return pickle.loads(head, buffers=buffers)


def _write(channel: Any, data: memoryview) -> None:
    if sys.platform == "win32":
        channel.send_bytes(data)
        return
    while data:
        data = data[os.write(channel.fileno(), data) :]


def _read(channel: Any, into: memoryview) -> None:
    if sys.platform == "win32":
        channel.recv_bytes_into(into)
        return
    # Straight into its place: the connection's own method collects the parts first.
    while into:
        count = os.readv(channel.fileno(), [into])
        if count == 0:
            raise EOFError
        into = into[count:]
