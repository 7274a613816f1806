"""What an exported graph's inputs and outputs are: parameters, buffers, constants, and what users give and get."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

__all__ = [
    "ConstantArgument", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind", "OutputSpec", "SymIntArgument",
    "TensorArgument",
]  # fmt: skip


@dataclass
class TensorArgument:
    """A tensor: the value of the node of a name."""

    name: str


@dataclass
class SymIntArgument:
    """A size that changes: the value of the node of a name."""

    name: str


@dataclass
class ConstantArgument:
    """A value that is the same in every call; ``name`` is the node's, empty for outputs."""

    name: str
    value: int | float | bool | str | None


Argument: TypeAlias = TensorArgument | SymIntArgument | ConstantArgument


class InputKind(enum.Enum):
    """What an input is."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """What an output is."""

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


@dataclass
class InputSpec:
    """One input: its kind, its node, the path of the parameter, buffer or constant, and whether a buffer is saved."""

    kind: InputKind
    arg: Argument
    target: str | None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    """One output: its kind, its node, and the path of what is written, if it is that."""

    kind: OutputKind
    arg: Argument
    target: str | None

    def __str__(self) -> str:
        return f"{self.arg.name}: {self.kind.name}" + ("" if self.target is None else f" target={self.target!r}")


def _given(arg: Argument) -> object:
    return arg.value if isinstance(arg, ConstantArgument) else arg.name


@dataclass
class ExportGraphSignature:
    """The inputs of a graph, in their order, and its outputs."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> Mapping[str, str]:
        return MappingProxyType({each.arg.name: str(each.target) for each in self.input_specs if each.kind is kind})

    def _written(self, kind: OutputKind) -> Mapping[str, str]:
        return MappingProxyType({each.arg.name: str(each.target) for each in self.output_specs if each.kind is kind})

    @property
    def parameters(self) -> tuple[str, ...]:
        """Paths of parameters."""
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """Paths of buffers."""
        return tuple(self.inputs_to_buffers.values())

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Paths of buffers that no state dictionary has."""
        return tuple(str(each.target) for each in self.input_specs if each.persistent is False)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Paths of tensors that are neither."""
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def user_inputs(self) -> tuple[object, ...]:
        """Names of the nodes that users give values for; the value itself of what is always the same."""
        return tuple(_given(each.arg) for each in self.input_specs if each.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[object, ...]:
        """Names of the nodes that users get."""
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        return tuple(_given(each.arg) for each in self.output_specs if each.kind in kinds)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """Paths of parameters by the names of their nodes."""
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """Paths of buffers by the names of their nodes."""
        return self._targets(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """Paths of other tensors by the names of their nodes."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Paths of buffers by the names of the outputs that are written into them."""
        return self._written(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """Paths of parameters by the names of the outputs that are written into them."""
        return self._written(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """Names of inputs by the names of the outputs that are written into them."""
        return self._written(OutputKind.USER_INPUT_MUTATION)

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
