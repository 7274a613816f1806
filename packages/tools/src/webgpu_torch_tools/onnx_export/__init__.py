"""Models in the format of ONNX, as ``torch.onnx``: operations of opset 20, written with the ``onnx`` package."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module

from webgpu_torch_tools.export import Dim, ExportedProgram
from webgpu_torch_tools.export import export as _export

try:
    import onnx as _onnx
except ModuleNotFoundError as error:
    raise ImportError(
        "torch.onnx.export needs the package onnx: pip install 'webgpu-torch[onnx]'", name="onnx"
    ) from error

from .exporting import OPSET, model_of
from .writing import UnsupportedOperatorError as UnsupportedOperatorError

__all__ = ["ONNXProgram", "UnsupportedOperatorError", "export"]

Value: TypeAlias = Any
#: bytes above which weights are put into a file of their own
_LIMIT = 1_900_000_000


class ONNXProgram:
    """A model in ONNX's format, beside the program that it was made of.

    Args:
        model_proto: the model.
        exported_program: the program.
    """

    def __init__(self, model_proto: Value, exported_program: ExportedProgram) -> None:
        self.model_proto, self.exported_program = model_proto, exported_program
        self._session: Value = None

    def save(self, destination: Value, *, external_data: bool | None = None, **_: Value) -> None:
        """Write the model.

        Args:
            destination: a path, or a file that is open.
            external_data: whether weights have a file of their own; by default those of large models have.
        """
        apart = self.model_proto.ByteSize() > _LIMIT if external_data is None else external_data
        if not isinstance(destination, str | os.PathLike):
            destination.write(self.model_proto.SerializeToString())
            return
        options: dict[str, Value] = {}
        if apart:
            options = {"save_as_external_data": True, "location": os.path.basename(destination) + ".data"}
        _onnx.save(self.model_proto, os.fspath(destination), **options)

    def __call__(self, *args: Value, **kwargs: Value) -> list[Tensor]:
        """Return the outputs that onnxruntime computes.

        Raises:
            ImportError: onnxruntime is not installed.
        """
        import webgpu_torch as torch

        from webgpu_torch_tools.export.exported_program import flat_inputs

        if self._session is None:
            import onnxruntime

            self._session = onnxruntime.InferenceSession(self.model_proto.SerializeToString())
        flat = flat_inputs(self.exported_program.call_spec.in_spec, args, kwargs)
        given = [each.detach().cpu().numpy() for each in flat if isinstance(each, Tensor)]
        names = [each.name for each in self._session.get_inputs()]
        return [torch.from_numpy(each) for each in self._session.run(None, dict(zip(names, given, strict=True)))]

    def optimize(self) -> None:
        """Do nothing: runtimes fold constants when they load a model."""


def _dynamic(axes: Mapping[str, Value] | None, names: Sequence[str] | None, count: int) -> Value:
    """Return ``dynamic_axes``, which go by names of inputs, as ``dynamic_shapes``, in the order of the inputs."""
    if not axes:
        return None
    known: dict[str, Dim] = {}
    order = list(names or [])[:count] or list(axes)[:count]
    found: list[Value] = []
    for name in order:
        dims = axes.get(name) or {}
        pairs = dims.items() if isinstance(dims, Mapping) else ((each, f"{name}_dim_{each}") for each in dims)
        found.append({place: known.setdefault(label, Dim(label)) for place, label in pairs} or None)
    return found


def export(
    model: Module | ExportedProgram, args: Value = (), f: Value = None, *, kwargs: dict[str, Value] | None = None,
    verbose: bool | None = None, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    opset_version: int | None = None, dynamo: bool = True, external_data: bool | None = None, dynamic_shapes: Value = None,
    dynamic_axes: Mapping[str, Value] | None = None, **options: Value,
) -> ONNXProgram:  # fmt: skip
    """Return a model in ONNX's format, and write it.

    Args:
        model: a module, or an exported program.
        args: example arguments: one, or a tuple of them.
        f: a path, or a file that is open; None writes nothing.
        kwargs: example arguments by name.
        input_names, output_names: names in the model, in their order.
        opset_version: the version of the operations, 20 by default; others are converted by the ``onnx`` package.
        external_data: whether weights have a file of their own; by default those of large models have.
        dynamic_shapes: see :func:`torch.export.export`.
        dynamic_axes: the same in the older form, by names of inputs.

    Raises:
        UnsupportedOperatorError: an operation that is not written.
        RuntimeError: see :func:`torch.export.export`.
    """
    if isinstance(model, ExportedProgram):
        program = model
    else:
        given = args if isinstance(args, tuple) else (args,)
        if given and isinstance(given[-1], dict) and kwargs is None and len(given) > 1:
            given, kwargs = given[:-1], given[-1]
        shapes = dynamic_shapes if dynamic_axes is None else _dynamic(dynamic_axes, input_names, len(given))
        program = _export(model, given, kwargs, dynamic_shapes=shapes)
    proto = model_of(program, list(input_names or []), list(output_names or []))
    if opset_version not in (None, OPSET):
        proto = _onnx.version_converter.convert_version(proto, opset_version)
    made = ONNXProgram(proto, program)
    if f is not None:
        made.save(f, external_data=external_data)
    return made
