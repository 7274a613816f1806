"""Tensors kept for backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..record.grad_mode import recording
from ..record.node import Node, anomaly, running
from ..record.tape import Value
from .kinds import TensorKinds
from .storage import Storage, storage_numbers

if TYPE_CHECKING:
    from .tensor import Tensor

#: why hooks of what is saved are refused, the innermost last
disabled: list[str] = []


class SavedTensor:
    """An input kept for backward, which notices later in-place changes."""

    __slots__ = ("computed", "packed", "tensor", "version")

    def __init__(self, tensor: Any) -> None:
        storage = tensor._storage
        if storage.inference and recording.enabled:
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
                "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use "
                "it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
            )
        self.version = storage.version
        self.computed = tensor._grad_fn is not None
        self.tensor: Any = tensor
        self.packed: Any = None
        if recording.saved_hooks:
            self.packed = Packed(tensor.detach(), tensor._gradient_edge())
            self.tensor = None

    def register_hooks(self, *hooks: Callable[..., object]) -> None:
        """Keep what the first of two hooks makes of the tensor from now on, of which the second one makes the tensor again.

        Raises:
            TypeError: these are not two functions.
            RuntimeError: the tensor has hooks, or the first one changes it.
        """
        _require_hooks(self.packed, hooks)
        self.packed = Packed(self.tensor.detach(), self.tensor._gradient_edge(), hooks)
        self.tensor = None

    def unpack(self) -> Any:
        """Return the tensor.

        Raises:
            RuntimeError: it was modified in place since it was saved.
        """
        tensor = self.tensor
        if tensor is None:
            return self.packed.unpack()
        if tensor._storage.version != self.version:
            raise _modified(tensor, _output_of(tensor._gradient_edge()), tensor._storage.version, self.version)
        if self.computed and tensor._grad_fn is None:
            raise RuntimeError(
                "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not supported, please "
                "use out-of-place `.detach()` instead"
            )
        if running.unpacked is not None:
            running.unpacked.append(tensor)
        return tensor


class SavedNothing:
    """What is kept where None was to be saved."""

    __slots__ = ()

    def register_hooks(self, *hooks: Callable[..., object]) -> None:
        """Refuse hooks.

        Raises:
            TypeError: these are not two functions.
            RuntimeError: always.
        """
        _require_hooks(None, hooks)
        raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")

    def unpack(self) -> None:
        """Return None."""


def _require_hooks(packed: object, hooks: Sequence[object]) -> None:
    if len(hooks) != 2 or not all(map(callable, hooks)):
        raise TypeError("register_hooks(): incompatible function arguments: two functions are expected")
    if packed is not None:
        raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set")


class SavedResult:
    """A result kept for the backward of the very node that makes it: it must not keep that node alive."""

    __slots__ = ("number", "packed", "tensor", "title", "version")

    def __init__(self, tensor: Any, number: int = 0, title: str = "") -> None:
        self.tensor: Any = tensor.detach()
        self.version = tensor._storage.version
        self.number = number
        self.title = title
        self.packed: Any = None
        if recording.saved_hooks:
            self.packed = Packed(self.tensor, None)
            self.tensor = None

    def unpack(self, node: Node | None = None) -> Any:
        """Return the result with its gradient; ``node`` is the one being visited unless given.

        Raises:
            RuntimeError: it was modified in place since it was saved.
        """
        node = running.nodes[-1] if node is None else node
        if self.tensor is None:
            tensor = self.packed.unpack()
        elif self.tensor._storage.version != self.version:
            raise _modified(self.tensor, _output_of((node, self.number)), self.tensor._storage.version, self.version)
        else:
            tensor = self.tensor.detach()
        if running.unpacked is not None:
            running.unpacked.append(tensor)
        tensor._grad_fn, tensor._output_number = node, self.number
        return tensor


class Packed:
    """What the innermost pair of hooks made of a tensor."""

    __slots__ = ("edge", "unpack_hook", "value")

    def __init__(
        self, tensor: Any, edge: tuple[Node, int] | None, hooks: Sequence[Callable[..., Any]] | None = None
    ) -> None:
        pack_hook, self.unpack_hook = hooks or recording.saved_hooks[-1]
        self.edge = edge
        version = tensor._storage.version
        saved, recording.enabled = recording.enabled, False
        try:
            self.value = pack_hook(tensor)
        finally:
            recording.enabled = saved
        if tensor._storage.version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
                "modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you "
                "need to perform in-place operations on the input to a pack hook."
            )

    def unpack(self) -> Any:
        """Return what the hook gives back, with the saved tensor's gradient.

        Raises:
            TypeError: that is no tensor.
        """
        result = self.unpack_hook(self.value)
        kind = type(result)
        if not issubclass(kind, TensorKinds):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {kind.__name__}"
            )
        result = result.detach()
        if self.edge is not None:
            result._grad_fn, result._output_number = self.edge
        return result


class SavedOperand:
    """An operand whose gradient PyTorch writes with the *result*: later writes into the operand do no harm (the old
    value is kept), writes into the result are the error.
    """

    __slots__ = (
        "device",
        "dtype",
        "edge",
        "layout",
        "packed",
        "result",
        "result_layout",
        "result_version",
        "shown",
        "storage",
        "title",
        "value",
    )

    def __init__(self, tensor: Any, edge: tuple[Node, int] | None, result: Any, title: str) -> None:
        self.storage, self.layout, self.dtype, self.device = (
            tensor._storage,
            tensor._layout,
            tensor.dtype,
            tensor.device,
        )
        self.edge, self.title = edge, title
        # Weak: the result's memory must not live on for the sake of its version number.
        self.result = weakref.ref(result._storage)
        self.result_version = result._storage.version
        self.result_layout = result._layout, result.dtype
        self.shown: ShownResult | None = None
        self.packed: Any = None
        if recording.saved_hooks:
            self.packed = Packed(tensor.detach(), edge)
            self.storage = self.value = None
            return
        value = tensor._storage.value
        if value.__class__ is Value:
            if value.outside and value.shared:
                # Writes from outside would reach what backward needs: it gets a copy.
                value = tensor.detach().as_strided((value.numel,), (1,), 0).clone()._storage.value
            value.saved = True
        self.value = value

    def require_result(self) -> Storage | None:
        """Return the storage of the result, None if nobody has it any more.

        Raises:
            RuntimeError: the result was modified in place since.
        """
        result = self.result()
        if result is not None and result.version != self.result_version:
            where = f", which is output 0 of {short_name(self.title)},"
            raise _modified(self, where, result.version, self.result_version)
        return result

    def of_result(self) -> Tensor:
        """Return a tensor of the shape and in the memory of the result, which somebody has."""
        layout, kind = self.result_layout
        return _tensor(self.result(), layout, kind, self.device)

    def unpack(self) -> Any:
        """Return the operand as it was.

        Raises:
            RuntimeError: the result was modified in place since.
        """
        # What hooks have packed is theirs: as in PyTorch, no version says whether it is still the same.
        if self.packed is not None:
            return self.packed.unpack()
        self.require_result()
        storage: Any = self.storage
        if storage.value is not self.value:
            storage = Storage()
            storage.value, storage.version, storage.number = self.value, 0, next(storage_numbers)
            storage.inference = False
        tensor = _tensor(storage, self.layout, self.dtype, self.device)
        if self.edge is not None:
            tensor._grad_fn, tensor._output_number = self.edge
        return tensor


class ShownResult:
    """The result that PyTorch's node would have kept in the place of an operand: taken from who has it, or computed again.

    Args:
        kept: the operand.
        operation: what computes the result of it.
    """

    __slots__ = ("kept", "operation", "packed")

    def __init__(self, kept: SavedOperand, operation: Callable[[Tensor], Tensor]) -> None:
        self.kept, self.operation = kept, operation
        self.packed: Any = None

    def _result(self) -> Tensor:
        kept = self.kept
        if kept.require_result() is not None and kept.packed is None:
            return kept.of_result()
        saved, recording.enabled = recording.enabled, False
        try:
            return self.operation(kept.unpack().detach())
        finally:
            recording.enabled = saved

    def register_hooks(self, *hooks: Callable[..., object]) -> None:
        """Show what the second of two hooks makes of what the first one makes of the result, from now on.

        Raises:
            TypeError: these are not two functions.
            RuntimeError: the tensor has hooks, or the first one changes it.
        """
        _require_hooks(self.packed, hooks)
        self.packed = Packed(self._result(), None, hooks)

    def unpack(self, node: Node | None = None) -> Tensor:
        """Return the result, of any shape, of a node.

        Raises:
            RuntimeError: it was modified in place since it was saved.
        """
        tensor = self._result() if self.packed is None else self.packed.unpack()
        if node is not None:
            tensor._grad_fn, tensor._output_number = node, 0
        return tensor


def _tensor(*parts: Any) -> Any:
    # A circle: that module imports this one.
    from .tensor import Tensor

    return Tensor._from_storage(*parts)


#: views by the names of their nodes
_VIEWS = frozenset(
    "Alias Diagonal Expand Permute ReshapeAlias Select Slice Squeeze T Transpose Unfold Unsqueeze View".split()
)


def _output_of(edge: tuple[Node, int] | None) -> str:
    """Return the words that say which node made a tensor; nothing for leaves."""
    if edge is None or not edge[0].edges:
        return ""
    name = short_name(edge[0].name())
    # A view's node is made anew, as a view of the base, where the memory was written to since.
    return f", which is output {edge[1]} of {'AsStrided' if name in _VIEWS else name},"


def short_name(title: str) -> str:
    """Return a node's name as PyTorch's messages have it: ``Mul`` for ``MulBackward0``."""
    return title.rstrip("0123456789").removesuffix("Backward")


def _modified(tensor: Any, where: str, version: int, expected: int) -> RuntimeError:
    place = "" if tensor.device.type == "cpu" else f"{tensor.device.type}."
    kind = f"{place}{tensor.dtype.title}Tensor"
    shape = tensor.layout.shape if isinstance(tensor, SavedOperand) else tensor.shape
    hint = (
        "the backtrace further above shows the operation that failed to compute its gradient. The variable in question was "
        "changed in there or anywhere later. Good luck!"
        if anomaly.enabled
        else "enable anomaly detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[torch.{kind} {list(shape)}]{where} is at version {version}; expected version {expected} instead. Hint: {hint}"
    )


def type_name(tensor: Any) -> str:
    """Return a tensor's type as :meth:`torch.Tensor.type` spells it: ``torch.FloatTensor``."""
    place = "" if tensor.device.type == "cpu" else f"{tensor.device.type}."
    return f"torch.{place}{tensor.dtype.title}Tensor"
