"""Algorithms outside the hot path that run on the CPU backend, whatever device their tensors are on: declared and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.dtypes import dtype
from ..notices import warn
from ..record.devices import MetaEngine, canonical_device, engine_for
from ..tensors.memory_formats import contiguous_format
from ..tensors.tensor import Tensor
from .common import no_view
from .creation.factories import from_bytes

_counts: dict[str, int] = {}


class HostFallbackWarning(UserWarning):
    """An operation ran on the CPU although its tensors are on another device; given once per operation."""


def host_fallbacks() -> dict[str, int]:
    """Return how often each operation ran on the CPU for tensors of another device."""
    return dict(_counts)


def has_algorithm(input: Tensor, name: str) -> bool:
    """Return whether a tensor's device runs an algorithm quicker than kernels: not in what is captured, whose replay runs kernels."""
    engine = input._engine
    return not isinstance(engine, MetaEngine) and engine.capture is None and name in engine.device.algorithms


def host_call(
    name: str,
    inputs: Sequence[Tensor],
    shapes: Sequence[Sequence[int]] | None,
    dtypes: Sequence[dtype],
    by_columns: Sequence[int] = (),
    **options: Any,
) -> tuple[Tensor, ...]:
    """Run an algorithm of the CPU backend, without gradient; outputs have the declared shapes and types.

    Without ``shapes`` the data decide them, so that ``meta`` tensors have no result. ``by_columns`` are the numbers of the outputs
    whose matrices lie in memory as LAPACK leaves them.

    Raises:
        RuntimeError: no CPU backend is installed, or tensors of several devices.
        NotImplementedError: shapes that depend on data, asked of ``meta`` tensors.
        LinAlgError: the algorithm did not converge.
    """
    place = inputs[0].device
    for each in inputs[1:]:
        if each.device != place:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {place} and {each.device}!"
            )
    if isinstance(inputs[0]._engine, MetaEngine):
        if shapes is None:
            raise NotImplementedError(f"'{name}' of meta tensors: the shape of its result depends on data")
        return tuple(
            _placed(inputs[0].new_empty(_stored(shape, number in by_columns), dtype=kind), number in by_columns)
            for number, (shape, kind) in enumerate(zip(shapes, dtypes, strict=True))
        )
    travels, copies = place.type != "cpu", inputs
    try:
        host = canonical_device("cpu") if travels else place
        engine = engine_for(host)
    except RuntimeError as error:
        raise RuntimeError(f"'{name}' of tensors on {place} runs on the CPU backend: {error}") from error
    if travels:
        _announce(name, place)
        copies = [each.detach().to("cpu") for each in inputs]
    copies = [_dense(each) for each in copies]
    operands = [(each._storage.value.realize(), each.dtype, each._layout.shape) for each in copies]
    results = engine.device.algorithm(name, operands, options)
    sizes = [each.shape for each in results] if shapes is None else shapes
    outputs: list[Tensor] = []
    for number, (array, shape, kind) in enumerate(zip(results, sizes, dtypes, strict=True)):
        made = _wrapped(array, shape, kind, number in by_columns, host)
        outputs.append(_placed(made.to(place) if travels else made, number in by_columns))
    capture = inputs[0]._engine.capture
    if capture is not None:
        # After the copies, whose reads say something less precise.
        capture.broken = f"'{name}' runs on the CPU while it records"
    return tuple(outputs)


def _dense(tensor: Tensor) -> Tensor:
    """Return a tensor whose elements begin its storage in row-major order: algorithms only read."""
    layout = tensor._layout
    if layout.is_contiguous and not layout.offset:
        return tensor
    return tensor.detach().clone(memory_format=contiguous_format)


def _stored(shape: Sequence[int], by_columns: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if by_columns else tuple(shape)


def _placed(stored: Tensor, by_columns: bool) -> Tensor:
    return no_view(stored.mT) if by_columns else stored


def _wrapped(array: Any, shape: Sequence[int], kind: dtype, by_columns: bool, host: Any) -> Tensor:
    turned = array.swapaxes(-1, -2) if by_columns else array
    dense = turned.astype(kind.name, order="C", copy=False)
    # Whoever made all of this memory made it for this result; what is a part of an operand is read-only.
    kept = dense.size > 0 and (dense.base is None or dense.base.nbytes == dense.nbytes)
    return from_bytes(memoryview(dense.reshape(-1).view("uint8")), _stored(shape, by_columns), kind, host, kept)


def _announce(name: str, place: Any) -> None:
    if name not in _counts:
        warn(
            f"'{name}' has no kernel on {place.type}: it runs on the CPU, and its tensors travel there and back. "
            "torch.host_fallbacks() counts how often.",
            HostFallbackWarning,
        )
    _counts[name] = _counts.get(name, 0) + 1
