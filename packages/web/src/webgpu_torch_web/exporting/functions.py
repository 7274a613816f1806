"""The functions that users call to export."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from webgpu_torch_backend_wgpu.gpu.interface import DEFAULT_LIMITS, Limits
from webgpu_torch_core.tensors.tensor import Tensor

from .capture import Session
from .errors import ExportError
from .folder import Json, write_folder
from .lengths import DynamicShapes, capture_lengths
from .storing import WEIGHTS

#: what every folder has besides its plan
SCRIPTS = ("runner.js", "runner.d.ts", "elements.js", "index.html")
#: features of adapters that kernels can make use of
FEATURES = ("shader-f16", "subgroups")


def export(
    function: Callable[..., object],
    example_inputs: object,
    folder: str | os.PathLike[str],
    *,
    dynamic_shapes: DynamicShapes | None = None,
    weights: str = "float32",
    limits: Mapping[str, int] | None = None,
    features: Sequence[str] = (),
) -> Path:
    """Write a module or function to a folder of static files that run in browsers and in Node, without Python.

    The function is called once for graphics cards and once for adapters whose work the host does, on devices that compute
    nothing: what the folder does again are the operations of such a call, with the example's shapes and Python values. A module's parameters and buffers go along; buffers that it
    writes keep their values between calls.

    Args:
        function: a module or function; its results are tensors, and lists, tuples and dictionaries of them.
        example_inputs: a tensor, a tuple of positional arguments, or a dictionary of named ones. Their elements do not
            matter.
        folder: where to; it is made if need be.
        dynamic_shapes: for names of inputs the dimensions whose length differs from call to call, and the lengths that are
            exported: ``{"tokens": {1: [16, 64, 256]}}``. A call takes the shortest that holds its inputs, which are filled up
            with zeros, and its outputs are cut to their length; so nothing that comes behind an element may change its
            result. All dimensions that are named have the same length in one call.
        weights: ``"float32"`` leaves weights as they are, ``"float16"`` stores float32 weights in half the bytes, ``"int4"``
            those of parameters that are matrices in five bits each, with a factor and an offset for every 32.
        limits: what adapters must allow beyond WebGPU's defaults, named as in :class:`.interface.Limits`.
        features: what they must have, of ``shader-f16`` and ``subgroups``.

    Returns:
        Path: the folder.

    Raises:
        ExportError: the function reads elements while it runs, draws random numbers, computes on the host or takes or
            returns what is no tensor; the message names the operation. Or an output has another length than the inputs.
        ValueError: an option is none of those above.
    """
    if dynamic_shapes is None:
        functions = {"run": (function, example_inputs)}
        return export_functions(functions, folder, weights=weights, limits=limits, features=features)
    session = opened(limits, features, weights)
    lengths: Json = {"run": capture_lengths(session, "run", function, *arguments(example_inputs), dynamic_shapes)}
    target = Path(folder)
    write_folder(session, target, weights, {"lengths": lengths}, SCRIPTS)
    return target


def export_functions(
    functions: Mapping[str, tuple[Callable[..., object], object]],
    folder: str | os.PathLike[str],
    *,
    weights: str = "float32",
    limits: Mapping[str, int] | None = None,
    features: Sequence[str] = (),
) -> Path:
    """Write several functions that share their parameters and buffers to one folder; see :func:`export`.

    Args:
        functions: names and (function, example inputs).
        folder, weights, limits, features: as for :func:`export`.

    Returns:
        Path: the folder.

    Raises:
        ExportError, ValueError: as :func:`export`.
    """
    session = opened(limits, features, weights)
    for name, (function, example_inputs) in functions.items():
        session.capture(name, function, *arguments(example_inputs))
    target = Path(folder)
    write_folder(session, target, weights, {}, SCRIPTS)
    return target


def opened(limits: Mapping[str, int] | None, features: Sequence[str], weights: str) -> Session:
    """Return a session for adapters with these limits and features.

    Raises:
        ValueError: there is no such limit, feature or way to store weights.
    """
    if weights not in WEIGHTS:
        raise ValueError(f"weights must be one of {', '.join(WEIGHTS)}, got {weights!r}")
    strange = [each for each in features if each not in FEATURES]
    if strange:
        raise ValueError(f"features must be of {', '.join(FEATURES)}, got {strange[0]!r}")
    strange = [each for each in limits or {} if each not in Limits.fields]
    if strange:
        raise ValueError(f"limits must be of {', '.join(Limits.fields)}, got {strange[0]!r}")
    return Session(DEFAULT_LIMITS.replace(**(limits or {})), features)


def arguments(example_inputs: object) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return positional and named arguments.

    Raises:
        ExportError: the examples are none of a tensor, a tuple, a list and a dictionary.
    """
    if isinstance(example_inputs, Tensor):
        return (example_inputs,), {}
    if isinstance(example_inputs, dict):
        return (), dict(example_inputs)
    if isinstance(example_inputs, tuple | list):
        return tuple(example_inputs), {}
    raise ExportError(
        f"example_inputs must be a tensor, a tuple or a dictionary of arguments, got a {type(example_inputs).__name__}"
    )
