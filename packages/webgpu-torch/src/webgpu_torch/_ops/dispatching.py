"""What a call of the public API is in terms of PyTorch's operations, and who answers it."""

from __future__ import annotations

from collections.abc import Callable

from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.overrides import PATHS
from webgpu_torch_core.dispatch.torch_dispatch import UNANSWERED, Dispatching, Value, ask, dispatch_modes, holders
from webgpu_torch_core.operations import return_types
from webgpu_torch_core.record.grad_mode import recording
from webgpu_torch_core.tensors.pytree import tree_leaves

from . import correspondences, overloads
from .decompositions import DECOMPOSITIONS, PROPERTIES
from .gradients import recorder
from .implementations import operation, own_operation
from .overloads import OpOverload

#: what tensors are asked that is no operation on their elements
READS = frozenset((
    "size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "is_contiguous", "is_floating_point",
    "is_complex", "is_signed", "storage_offset", "is_inference", "data_ptr", "const_data_ptr", "requires_grad_",
    "retain_grad", "register_hook", "register_post_accumulate_grad_hook", "backward", "get_device", "dense_dim",
    "sparse_dim", "is_coalesced", "is_shared", "is_pinned", "dim_order", "__repr__", "__format__", "__deepcopy__",
    "__reduce_ex__", "is_same_size", "is_set_to", "untyped_storage", "storage", "storage_type", "is_distributed", "share_memory_",
    "pin_memory", "module_load", "is_tensor", "is_storage", "result_type", "can_cast", "promote_types", "broadcast_shapes",
    "detach_", "as_subclass", "__contains__", "__dlpack_device__", "layout_of", "is_conj", "is_neg", "type", "set_",
    "is_grad_enabled", "set_grad_enabled", "is_nonzero",
))  # fmt: skip
_OPERATORS = {
    "__eq__": "eq", "__ne__": "ne", "__rsub__": "rsub", "__floordiv__": "floor_divide", "item": "_local_scalar_dense",
    "conj": "_conj",
}  # fmt: skip
_PREFIXED = ("special", "linalg", "fft")


def _plain_only(name: str) -> Callable[..., Value]:
    def refuse(*_: Value, **__: Value) -> Value:
        raise RuntimeError(f".{name}() is not supported for tensor subclasses.")

    return refuse


def _answer_property(call: Value, args: tuple[Value, ...]) -> Value:
    reader = getattr(call, "__self__", None)
    compose = PROPERTIES.get(getattr(getattr(reader, "fget", None), "__name__", ""))
    return UNANSWERED if compose is None or not holders(args[:1]) else compose(args[0])


def answer(call: Value, function: Callable[..., Value], args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    """Return the answer to a call of the public API by a mode or a class; :data:`UNANSWERED` if nobody is to be asked."""
    path = PATHS.get(call)
    if path is None:
        return (
            _answer_property(call, args)
            if getattr(call, "__name__", "") == "__get__" and len(args) == 1
            else UNANSWERED
        )
    name = path.rpartition(".")[2]
    if name in READS or path.startswith(("torch.autograd", "torch.func")):
        return UNANSWERED
    found = holders(tree_leaves((args, kwargs)))
    if not found and not dispatch_modes():
        return UNANSWERED
    if found and name in ("numpy", "tolist", "__array__", "__dlpack__"):
        return _plain_only(name)()
    compose = DECOMPOSITIONS.get(name) if path.count(".") < 3 or "Tensor" in path or "functional" in path else None
    if compose is not None and "out" not in kwargs:
        return compose(*args, **kwargs)
    matched = meaning(path, args, kwargs)
    if matched is None:
        if not found and not _has_tensors(args, kwargs):
            return UNANSWERED
        matched = own_operation(path, call).default, args, kwargs
    result = run(*matched)
    if "out" in kwargs and kwargs["out"] is not None:
        return kwargs["out"]
    return _named(name, result) if type(result) in (tuple, list) else result


#: functions of any number of tensors, which are one list of the operation's
_OF_ANY_TENSORS = ("einsum", "block_diag", "broadcast_tensors", "cartesian_prod")


def meaning(
    path: str, args: tuple[Value, ...], kwargs: dict[str, Value]
) -> tuple[OpOverload, tuple[Value, ...], dict[str, Value]] | None:
    """Return the overload that a call of a public function means, with its arguments; None if it is none of PyTorch's."""
    space, _, name = path.removeprefix("torch.").rpartition(".")
    called = correspondences.called(name, args, kwargs) if space == "nn.functional" else None
    if called is not None:
        name, args, kwargs = called[0], (), called[1]
    if name in _OF_ANY_TENSORS and args and isinstance(args[-1], Tensor):
        first = int(name == "einsum")
        args = (*args[:first], list(args[first:]))
    packet = operation(f"{space}_{name}" if space in _PREFIXED else _OPERATORS.get(name, name))
    return None if packet is None else packet.find(args, kwargs)


def _has_tensors(args: Value, kwargs: Value) -> bool:
    return any(isinstance(each, Tensor) for each in tree_leaves((args, kwargs)))


def _named(name: str, result: Value) -> Value:
    """Return several results as the function of a name does."""
    kind = getattr(return_types, name, None)
    return result if kind is None or any(each is None for each in result) else kind(result)


def _lost_gradients(result: Value) -> bool:
    return any(
        isinstance(each, Tensor) and not each.requires_grad and (each.is_floating_point() or each.is_complex())
        for each in tree_leaves(result)
    )


def run(overload: OpOverload, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    """Return the result of an overload: a mode's or a class's answer, else what it computes."""
    found = holders(tree_leaves((args, kwargs)))
    if not found and not dispatch_modes():
        return overload.compute(args, kwargs)
    record = recorder(overload, args, kwargs) if found and recording.enabled else None
    result = ask(overload, found, args, kwargs)
    schema = overload._known_schema
    writes = schema is not None and schema.is_mutable
    if not found and not writes and recording.enabled and _lost_gradients(result):
        # A mode answered with other tensors than the operation's: the gradients are still the operation's.
        record = recorder(overload, args, kwargs)
    if schema is not None and writes and args and schema.arguments[0].is_write:
        if holders(args[:1]):
            args[0]._storage.version += 1
        result = args[0]
    return result if record is None else record(result)


def install() -> None:
    """Let classes and modes be asked; called when the library is imported."""
    Dispatching.answer = staticmethod(answer)  # type: ignore[method-assign,assignment]
    overloads.run[:] = [run]
