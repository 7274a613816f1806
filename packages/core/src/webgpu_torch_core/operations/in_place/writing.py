"""Writing into tensors: whole storages are re-pointed, views are written as regions, gradients follow."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...ir import expression as ir
from ...ir.dtypes import FLOAT8, bool_, dtype
from ...ir.kernels import Operand, Output, Pointwise, Store
from ...ir.layouts import Layout, broadcast_strides, is_dense, real_layout, repeats, storage_extent
from ...notices import warn, warn_of_resizing
from ...record.grad_mode import no_grad, recording
from ...record.node import Node, lead_past_hooks
from ...tensors.saved_tensors import short_name
from ...tensors.tensor import MetaValue, Tensor, new_storage
from ..common import check_apart, require_castable
from ..complex.interleaving import part_alias, real_alias
from ..elements import at_start, is_taken, putting, taken
from ..float8.bits import bits_alias
from ..movement.views import spread


def mismatch(target: Tensor, result: Tensor) -> RuntimeError:
    """Return the error for a result of another shape than what it is written into, which was read for it: ``[sizes ...]`` of both."""
    return RuntimeError(
        f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(result.shape)}"
    )


#: operations whose results PyTorch describes before it computes them, and that do not broadcast
_STRUCTURED = frozenset(("addmm_", "addmv_", "cumprod_", "cumsum_"))


def _bad_call(what: str, have: object, need: object) -> RuntimeError:
    return RuntimeError(f"Bad in-place call: input tensor {what} {have} and output tensor {what} {need} should match")


def make_in_place(
    function: Callable[..., Any], name: str, first: Callable[..., object] | None = None, apart: bool | None = False
) -> Callable[..., Any]:
    """Return the in-place method of an operation.

    Elements that are shown twice are refused; ``first`` looks at the arguments, and refuses what is wrong with them, before.
    And so are other tensors that lie partly in the same memory, which would be read while it is written; with ``apart`` all that lie in
    it, with None none.
    """

    structured = name in _STRUCTURED

    def in_place(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        tracked = recording.enabled and (
            self.requires_grad or any(getattr(each, "requires_grad", False) for each in args)
        )
        check_leaf(self, tracked)
        if _shows_twice(self):
            _refuse_repeated(first, self, *args, **kwargs)
        if apart is not None:
            check_apart(self, *args, *kwargs.values(), but_same=not apart)
        result = function(snapshot(self) if tracked else self, *args, **kwargs)
        check_inference(self)
        if result._layout.shape != self._layout.shape:
            raise _bad_call("size", list(self.shape), list(result.shape)) if structured else mismatch(self, result)
        if result.dtype is not self.dtype:
            if structured and kwargs.get("dtype") is not None:
                raise _bad_call("dtype", self.dtype.word, result.dtype.word)
            if self.dtype.is_complex and result.dtype.is_floating_point:
                raise RuntimeError(f"In-place {name[:-1]} is not supported for complex tensors.")
            require_castable(result.dtype, self.dtype)
        return assign(self, result, fresh=True)

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = f"In-place version of :func:`{name[:-1]}`."
    in_place.takes_arguments_of = function  # type: ignore[attr-defined]
    return in_place


def snapshot(tensor: Tensor) -> Tensor:
    """Return the tensor as it is now, for what an in-place operation saves: the write that follows does not reach it."""
    value = tensor._storage.value
    if value.__class__ is not MetaValue and value.outside and value.shared:
        # Somebody outside sees this memory and the write will land in it: only a copy keeps the old elements.
        return tensor.clone()
    owner = value.owner
    alias = Tensor._from_storage(new_storage(value), tensor._layout, tensor.dtype, tensor.device)
    value.owner = owner
    edge = tensor._gradient_edge()
    if edge is not None:
        alias._grad_fn, alias._output_number = edge
    return alias


def check_leaf(target: Tensor, tracked: bool = False) -> None:
    """Raise where what is written is a leaf that requires a gradient, or a view that may not be written into.

    ``tracked`` says that what is written has a gradient.
    """
    if recording.enabled:
        base = target._base
        if base is not None and (tracked or base.requires_grad or target.requires_grad):
            if len(target._base_state) > 1:
                raise RuntimeError(_forbidden_view(target, "is being modified"))
            # The base of a leaf may be a plain tensor: then the leaf is itself a view.
            if base._requires_grad or (target.requires_grad and base.is_leaf):
                raise RuntimeError(
                    "a view of a leaf Variable that requires grad is being used in an in-place operation."
                )
        if target._requires_grad:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def check_writable(target: Tensor, tracked: bool = False) -> None:
    """Raise where an in-place operation would break gradients or elements repeat, with PyTorch's messages.

    ``tracked``: as for :func:`check_leaf`.
    """
    check_leaf(target, tracked)
    check_inference(target)
    check_distinct(target)


def check_inference(target: Tensor) -> None:
    """Raise where a tensor of inference mode is to be changed outside of it."""
    if target._storage.inference and not recording.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal "
            "tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
        )


#: by what a view was made in what the message says of it, of the time of writing, and of the region
_REGIONS = {
    "no_grad": ("no_grad mode", "with grad mode enabled", "no_grad"),
    "inference": ("inference mode", "in normal mode", "inference_mode"),
}


def _forbidden_view(view: Tensor, written: str) -> str:
    """Return why a view of this origin may not be ``written``, which is what was done and to what, in PyTorch's words."""
    origin, node = view._base_state[1], view._grad_fn
    name = "a function" if node is None else short_name(node.name())
    number = view._base_state[2] if len(view._base_state) > 2 else view._output_number
    if origin in _REGIONS:
        mode, normal, block = _REGIONS[origin]
        # A view that gradients flow into was made outside of the block, of one that was made inside.
        which = "A view was" if node is None else f"Output {number} of {name} is a view of a view which was"
        return (
            f"{which} created in {mode} and {written} inplace {normal}. Given that this use case is ambiguous and "
            "error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both "
            f"inside the {block} block (if you don't want the inplace to be tracked) or both outside (if you want the inplace "
            "to be tracked)."
        )
    start = f"Output {number} of {name} is a view and {written} inplace. "
    if node is None:
        start = f"A view was created in no_grad mode and {written} inplace with grad mode enabled. "
    if origin == "several":
        return start + (
            "This view is the output of a function that returns multiple views. Such functions do not allow the output views "
            "to be modified inplace. You should replace the inplace operation by an out-of-place one."
        )
    return start + (
        "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to "
        "handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect "
        "gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
    )


def refresh_view(view: Tensor, base: Tensor) -> None:
    """Re-derive the gradient of a view whose base was written since the view was made.

    Raises:
        RuntimeError: the view is one whose base may not be written into where gradients are recorded.
    """
    origin = view._base_state[1:]
    if origin and recording.enabled:
        raise RuntimeError(_forbidden_view(view, "its base or another view of its base has been modified"))
    before = None if view._grad_fn is None else (view._grad_fn, view._output_number)
    view_gradient(view, base)
    view._base_state = (base._storage.version, *origin)
    if view._retains_grad and before is not None:
        _retain_again(view, before)


def rebase_gradient(target: Tensor, node: Node, number: int) -> None:
    """Make a node the last writer of a tensor, and of what it is a view of."""
    source = Tensor._from_storage(target._storage, target._layout, target.dtype, target.device)
    source._grad_fn, source._output_number = node, number
    before = None if target._grad_fn is None else (target._grad_fn, target._output_number)
    _track_write(target, source, written=before)
    if target._retains_grad and before is not None:
        _retain_again(target, before)


def summed(first: Tensor, second: Tensor) -> Tensor:
    """Return the sum of two gradients of one shape, of which either may be sparse."""
    # As in PyTorch: of sparse ones the later is first, and a dense one before a sparse one.
    return second + first if first.is_sparse else first + second


def _refuse_repeated(first: Callable[..., object] | None, *args: Any, **kwargs: Any) -> None:
    """Raise for a write into elements that are shown twice; ``first`` gets arguments without elements, and records nothing."""
    if first is not None:
        with no_grad():
            first(*map(_without_elements, args), **{name: _without_elements(each) for name, each in kwargs.items()})
    check_distinct(args[0])


def _without_elements(argument: Any) -> Any:
    return argument.to("meta") if isinstance(argument, Tensor) else argument


def _shows_twice(target: Tensor) -> bool:
    """Return whether a tensor shows elements several times along a dimension, as expanded ones do."""
    layout = target._layout
    if 0 not in layout.strides or not layout.numel:
        return False
    return any(stride == 0 and size > 1 for stride, size in zip(layout.strides, layout.shape, strict=True))


def without_repeats(self: Tensor) -> Tensor:
    """Return a tensor without the repetitions of ``expand``: what is written once is written everywhere."""
    if not _shows_twice(self):
        return self
    shape, strides = self._layout.shape, self._layout.strides
    distinct = tuple(size if stride else 1 for size, stride in zip(shape, strides, strict=True))
    return self.as_strided(distinct, strides, self._layout.offset)


def refuse_gradient(target: Tensor, shown: Tensor) -> None:
    """Let the backward pass through a write refuse where ``target`` shows elements twice that ``shown`` does once, as PyTorch's."""
    base = target._base
    if shown is not target and recording.enabled and base is not None and base.requires_grad:
        base._rebase_history(Node("CopySlices", (base._gradient_edge(),), lambda grad: check_distinct(target)))


def warn_of_repeats(name: str) -> None:
    """Say that an operation wrote into elements that are shown twice, in PyTorch's words."""
    example = "tensor[indices] = tensor" if name == "index_put_" else "tensor[mask] = scalar"
    warn(
        f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This "
        f"also applies to advanced indexing e.g. {example}"
    )


def check_distinct(target: Tensor) -> None:
    """Raise where a tensor that is to be written shows one element several times."""
    if _shows_twice(target):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )


def assign(target: Tensor, source: Tensor, fresh: bool = False, made: bool = False) -> Tensor:
    """Make ``target``'s elements those of ``source`` (same shape; converted to its type), with gradient, and return it.

    ``fresh`` says that nobody else holds ``source``: its value may move over instead of being copied; ``made``, that this is true
    of its memory, too, where it has some already.
    """
    tracked = recording.enabled and (source.requires_grad or target.requires_grad)
    before = target._gradient_edge() if tracked else None
    write(target, source.detach() if source.requires_grad else source, fresh, made)
    if tracked and target.dtype.category >= 2:
        _track_write(target, source, None if fresh and source.requires_grad else before, fresh, before)
        if target._retains_grad and before is not None:
            _retain_again(target, before)
    return target


def resize_as_result(out: Tensor, place: Layout) -> None:
    """Give a tensor the sizes of what is to be written into it, and its order in memory."""
    warn_of_resizing(out._layout.shape, place.shape)
    version = out._storage.version
    out.resize_(place.shape)  # type: ignore[attr-defined]
    if out._layout.strides != place.strides and is_dense(place):
        out.as_strided_(place.shape, place.strides)  # type: ignore[attr-defined]
    # The write that follows is counted, and it alone.
    out._storage.version = version


def replaced(target: Tensor, result: Tensor) -> Tensor:
    """Make a tensor's elements those of what an operation made of it, with its gradient, and return it."""
    check_writable(target, result.requires_grad)
    return assign(target, result, fresh=result._storage.number != target._storage.number)


def _retain_again(target: Tensor, before: tuple[Node, int]) -> None:
    """Let a tensor that keeps its gradient keep that of what was written into it."""
    if before[0].retained is not None:
        before[0].retained.pop(before[1], None)
    target._retains_grad = False
    target.retain_grad()


def write(target: Tensor, source: Tensor, fresh: bool = False, made: bool = False) -> None:
    """Store ``source`` (same shape) into ``target``'s elements, without gradient; ``fresh`` and ``made`` as for :func:`assign`."""
    if target.dtype in FLOAT8 or source.dtype in FLOAT8:
        target, source = _bits_write(target, source)
    if target.dtype.is_complex or source.dtype.is_complex:
        target, source = _real_write(target, source)
    storage, layout = target._storage, target._layout
    value = storage.value
    same = source._layout is layout and source.dtype is target.dtype
    if value.__class__ is MetaValue or layout.numel == 0 or (same and source._storage is storage):
        # ``x[3] += 1`` stores what was added to in its own place again.
        storage.version += 1
        return
    given = source._storage.value
    whole = layout.offset == 0 and layout.numel == value.numel and is_dense(layout)
    like = source.dtype is target.dtype and source._layout.strides == layout.strides and source._layout.offset == 0
    moves = given.buffer is None or (made and not given.outside)
    if fresh and whole and like and given.numel == value.numel and moves and source._base is None:
        replacement = given
    else:
        replacement = _record_write(value, target, source, whole)
    if value.outside and value.shared:
        # Somebody outside sees this memory: the new contents must land in it, now.
        storage.version += 1
        value.engine.overwrite(value, replacement)
        return
    storage.rebind(replacement)


def _real_write(target: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Return the real tensors of a write in which complex numbers take part."""
    if target.dtype.is_complex:
        return real_alias(target), real_alias(source if source.dtype.is_complex else source.to(target.dtype))
    # What has an imaginary part is true, too.
    return target, source.to(bool_) if target.dtype is bool_ else part_alias(source, 0)


def _bits_write(target: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tensors of a write in which 8-bit floats take part, of types that kernels see."""
    given = source.to(target.dtype)
    return (bits_alias(target), bits_alias(given)) if target.dtype in FLOAT8 else (target, given)


def _record_write(value: Any, target: Tensor, source: Tensor, whole: bool) -> Any:
    origin, place = source._storage.value, source._layout
    if is_taken(source):
        origin, place = taken(origin, place, source.dtype), at_start(place)
    if origin.numel == 1 and is_taken(target):
        kernel = putting(source.dtype, value.numel, target.dtype)
        return value.engine.record(kernel, [value, origin], (target._layout.offset,))[0]
    kernel = write_kernel(place, origin.numel, source.dtype, target._layout, value.numel, target.dtype, whole)
    return value.engine.record(kernel, [origin] if whole else [origin, value])[0]


@lru_cache(maxsize=4096)
def write_kernel(
    source: Layout, source_numel: int, kind: dtype, target: Layout, target_numel: int, result: dtype, whole: bool
) -> Pointwise:
    """Return the kernel that stores a strided operand at a layout's places; ``whole`` leaves no other elements."""
    leaf = ir.load(0, source.offset, broadcast_strides(source, target.shape), kind)
    operands = (Operand(kind, source_numel),) if whole else (Operand(kind, source_numel), Operand(result, target_numel))
    return Pointwise(
        operands, (Output(result, target_numel, None if whole else 1),), (), "copy", target.shape,
        (Store(0, target.offset, target.strides, ir.cast(leaf, result)),),
    )  # fmt: skip


def _track_write(
    target: Tensor, source: Tensor, before: tuple[Node, int] | None = None, fresh: bool = True,
    written: tuple[Node, int] | None = None,
) -> None:  # fmt: skip
    """Give the target (and its base, where it is a view) the gradient of the write.

    ``before``: what made the elements that are gone, where ``source`` was not computed from them. Their gradient is zero.
    ``fresh``: nobody else has the source's node. ``written``: what made the elements that are gone, in any case.
    """
    edge = source._gradient_edge() if source.requires_grad else None
    base = target._base
    own = source.dtype
    if base is None:

        def overwritten(grad: Tensor) -> tuple[Any, Any]:
            part = None if edge is None else converted(grad, own)
            return part, None if before is None else grad.new_zeros(grad.shape)

        node = Node("CopyBackwards", (edge, before), overwritten)
        if fresh and edge is not None and before is None and source.dtype is target.dtype:
            # The result's own node is the target's node: in-place forms show their operation's name.
            target._rebase_history(*edge)
        else:
            target._rebase_history(node)
        return
    base_edge = base._gradient_edge()
    if fresh and edge is not None and written is not None and base_edge is not None:
        lead_past_hooks(edge[0], written, base_edge[0])
    base_kind = base.dtype
    layout, whole = _common_units(target, base)
    target_kind = target.dtype
    mixed = target_kind.is_complex or base_kind.is_complex

    def run_backward(grad: Tensor) -> tuple[Any, Any]:
        part = None
        if edge is not None:
            region = _laid_out(_floats(grad, mixed), whole).as_strided(layout.shape, layout.strides, layout.offset)
            part = converted(_numbers(region.clone(), target_kind), own)
        rest = _laid_out(_floats(grad.clone(), mixed), whole)
        rest.as_strided(layout.shape, layout.strides, layout.offset).zero_()
        return _numbers(rest.as_strided(whole.shape, whole.strides, whole.offset), base_kind), part

    base._rebase_history(Node("CopySlices", (base_edge, edge), run_backward))
    if base._retains_grad and base_edge is not None:
        _retain_again(base, base_edge)
    view_gradient(target, base)
    target._base_state = (base._storage.version, *target._base_state[1:])


def converted(grad: Tensor, kind: dtype) -> Tensor:
    """Return a gradient in an operand's type; a real operand takes the real part of a complex one."""
    if grad.dtype is kind:
        return grad
    if grad.dtype.is_complex and not kind.is_complex:
        # A circle: that module imports this one.
        from ..complex.views import part

        grad = part(grad, 0)
    return grad.to(kind)


def _common_units(view: Tensor, base: Tensor) -> tuple[Layout, Layout]:
    """Return both layouts counted alike: in floats where one of the two is complex."""
    mixed = view.dtype.is_complex or base.dtype.is_complex
    first, second = (real_layout(each._layout) if each.dtype.is_complex else each._layout for each in (view, base))
    return (first, second) if mixed else (view._layout, base._layout)


def _floats(grad: Tensor, mixed: bool) -> Tensor:
    if not mixed or not grad.dtype.is_complex:
        return grad
    # A circle: that module imports this one.
    from ..complex.views import view_as_real

    return view_as_real(grad)


def _numbers(grad: Tensor, kind: dtype) -> Tensor:
    if not kind.is_complex or grad.dtype.is_complex:
        return grad
    # A circle: that module imports this one.
    from ..complex.views import view_as_complex

    return view_as_complex(grad)


def _laid_out(grad: Tensor, layout: Layout) -> Tensor:
    """Return a tensor whose storage holds the gradient's elements at a layout's places (0 in gaps)."""
    if layout.is_contiguous and not layout.offset:
        # What arrives may be a part of another gradient, which begins elsewhere in its storage.
        grad = grad.contiguous()
        return grad.clone() if grad._layout.offset else grad
    # A circle: that module imports this one.
    from ..creation.factories import zeros

    flat = zeros((storage_extent(layout),), dtype=grad.dtype, device=grad.device)
    flat.as_strided(layout.shape, layout.strides, layout.offset).copy_(grad)
    return flat


def view_gradient(view: Tensor, base: Tensor) -> None:
    """Make a view's gradient flow to its base's current node."""
    layout, whole = _common_units(view, base)
    mixed = view.dtype.is_complex or base.dtype.is_complex
    base_kind = base.dtype
    base_edge = base._gradient_edge()

    def run_backward(grad: Tensor) -> tuple[Any]:
        # A circle: that module imports this one.
        from ..creation.factories import zeros

        grad = _floats(grad, mixed)
        if repeats(layout):
            flat = spread(grad, layout, storage_extent(whole))
            return (_numbers(flat.as_strided(whole.shape, whole.strides, whole.offset), base_kind),)
        flat = zeros((storage_extent(whole),), dtype=grad.dtype, device=grad.device)
        flat.as_strided(layout.shape, layout.strides, layout.offset).copy_(grad)
        return (_numbers(flat.as_strided(whole.shape, whole.strides, whole.offset), base_kind),)

    view._rebase_history(Node("AsStridedBackward0", (base_edge,), run_backward))
