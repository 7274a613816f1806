"""Counting floating-point operations, as ``torch.utils.flop_counter``: products and convolutions, by module and operation.

A multiplication and an addition count two. A backward pass counts one product of the same size for each operand that needs a
gradient; it belongs to the modules in which the operation was called.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeAlias

from webgpu_torch._ops import OpOverloadPacket
from webgpu_torch.library import ops
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.overrides import PATHS, TorchFunctionMode, close_mode

from .module_tracker import ModuleTracker

__all__ = [
    "FlopCounterMode", "bmm_flop", "conv_flop_count", "mm_flop", "register_flop_formula", "sdpa_flop_count",
]  # fmt: skip

Shape: TypeAlias = Sequence[int]
Formula: TypeAlias = Callable[..., int]
Counts: TypeAlias = dict[OpOverloadPacket, int]
Arguments: TypeAlias = tuple[Any, ...]
Named: TypeAlias = dict[str, Any]
Result: TypeAlias = Any


def mm_flop(a_shape: Shape, b_shape: Shape, *_: object, **__: object) -> int:
    """Return the operations of a product ``[m, k] @ [k, n]``: ``2 m k n``."""
    return 2 * a_shape[0] * a_shape[1] * b_shape[1]


def bmm_flop(a_shape: Shape, b_shape: Shape, *_: object, **__: object) -> int:
    """Return the operations of products ``[b, m, k] @ [b, k, n]``: ``2 b m k n``."""
    return a_shape[0] * mm_flop(a_shape[1:], b_shape[1:])


def conv_flop_count(x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False) -> int:
    """Return the operations of a convolution: two for each position of the output (of the input, if transposed) and weight."""
    return 2 * x_shape[0] * math.prod((x_shape if transposed else out_shape)[2:]) * math.prod(w_shape)


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """Return the operations of attention's two products, for shapes ``[..., heads, length, features]``."""
    batches, width = math.prod(query_shape[:-2]), query_shape[-2] * key_shape[-2]
    return 2 * batches * width * (query_shape[-1] + value_shape[-1])


#: formulas that :func:`register_flop_formula` added, by operation
flop_registry: dict[OpOverloadPacket, Formula] = {}


def register_flop_formula(targets: OpOverloadPacket | Sequence[OpOverloadPacket]) -> Callable[[Formula], Formula]:
    """Return a decorator: a function of the arguments, shapes in the place of tensors, and of ``out_shape`` counts operations.

    Args:
        targets: operations of ``torch.ops.aten``, or one.
    """

    def register(formula: Formula) -> Formula:
        for each in [targets] if isinstance(targets, OpOverloadPacket) else targets:
            flop_registry[each] = formula
        return formula

    return register


@functools.cache
def _operation(name: str) -> OpOverloadPacket:
    """Return what counts are kept by; PyTorch's name serves, too, where the operation is not one of its own here."""
    return getattr(ops.aten, name, None) or OpOverloadPacket(name, _not_callable)


def _not_callable(*_: object, **__: object) -> None:
    raise NotImplementedError("this name of an operation only tells what was counted: call the public function")


class _Count:
    """What one call computes: its operation's name and count, and those of the gradient of each of its operands."""

    def __init__(self, name: str, count: int, backward: str, gradients: Sequence[tuple[Tensor, int]]) -> None:
        self.name, self.count, self.backward = name, count, backward
        self.gradients = sum(each for operand, each in gradients if operand.requires_grad)


def _product(a: Tensor, b: Tensor, *_: object, **__: object) -> _Count | None:
    # PyTorch counts no products with vectors.
    if a.dim() < 2 or b.dim() < 2:
        return None
    batches = math.prod(map(max, zip(*(_filled(each.shape[:-2], max(a.dim(), b.dim()) - 2) for each in (a, b)))))
    count = 2 * batches * a.shape[-2] * a.shape[-1] * b.shape[-1]
    name = "mm" if b.dim() == 2 else "bmm"
    return _Count(name, count, name, ((a, count), (b, count)))


def _filled(shape: Shape, length: int) -> list[int]:
    return [1] * (length - len(shape)) + list(shape)


def _reflected(b: Tensor, a: Tensor) -> _Count | None:
    return _product(a, b)


def _added(input: Tensor, a: Tensor, b: Tensor, *_: object, **__: object) -> _Count | None:
    found = _product(a, b)
    if found is not None:
        found.name = "baddbmm" if found.name == "bmm" else "addmm"
    return found


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> _Count | None:
    count = 2 * input.numel() * (weight.shape[0] if weight.dim() == 2 else 1)
    return _Count("mm" if bias is None else "addmm", count, "mm", ((input, count), (weight, count)))


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: object, **__: object) -> _Count | None:
    count = sdpa_flop_count(query.shape, key.shape, value.shape)
    # Each of the two products has two operands; attention's weights are computed again.
    gradients = ((query, count), (key, count // 2), (value, count))
    return _Count("scaled_dot_product_attention", count, "scaled_dot_product_attention", gradients)


def _convolution(input: Tensor, weight: Tensor, out: Tensor, transposed: bool) -> _Count:
    # Without a batch there is a batch of one.
    x_shape, out_shape = (
        ([1, *each.shape] if each.dim() < weight.dim() else list(each.shape)) for each in (input, out)
    )
    count = conv_flop_count(x_shape, weight.shape, out_shape, transposed)
    # The gradient of the weight is a convolution of the input with the output's gradient over all channels.
    sizes = math.prod(weight.shape[2:]) * math.prod((x_shape if transposed else out_shape)[2:])
    of_weight = 2 * x_shape[0] * sizes * x_shape[1] * out_shape[1]
    return _Count("convolution", count, "convolution_backward", ((input, count), (weight, of_weight)))


#: by a public function's path, where its result does not matter
_COUNTED: dict[str, Callable[..., _Count | None]] = {
    **dict.fromkeys(("torch.mm", "torch.bmm", "torch.matmul", "torch.Tensor.mm", "torch.Tensor.bmm"), _product),
    **dict.fromkeys(("torch.Tensor.matmul", "torch.Tensor.__matmul__", "torch.linalg.matmul"), _product),
    **dict.fromkeys(("torch.addmm", "torch.baddbmm", "torch.Tensor.addmm", "torch.Tensor.baddbmm"), _added),
    "torch.Tensor.__rmatmul__": _reflected,
    "torch.nn.functional.linear": _linear,
    "torch.nn.functional.scaled_dot_product_attention": _attention,
}
_CONVOLUTIONS = {
    f"torch.{family}{name}": name.startswith("conv_t")
    for family in ("", "nn.functional.") for name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
}  # fmt: skip
_SUFFIXES = ("", "K", "M", "B", "T")


class FlopCounterMode(TorchFunctionMode):
    """A block in which floating-point operations are counted, those of backward passes of what it computes included.

    Args:
        mods: not needed.
        depth: how many levels of modules :meth:`get_table` shows.
        display: print the table at the end of the block.
        custom_mapping: formulas for further operations of ``torch.ops.aten``, as in :func:`register_flop_formula`.
    """

    def __init__(
        self, mods: object = None, depth: int = 2, display: bool = True, custom_mapping: Mapping[OpOverloadPacket, Formula] | None = None
    ) -> None:  # fmt: skip
        self.flop_counts: defaultdict[str, Counts] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.flop_registry = {**flop_registry, **(custom_mapping or {})}
        self.mod_tracker = ModuleTracker()
        self._counting = False

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self._counting = True
        self.mod_tracker.__enter__()
        return super().__enter__()

    def __exit__(self, *problem: object) -> None:
        close_mode(self)
        self._counting = False
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table())

    def __torch_function__(
        self, func: Callable[..., object], types: object, args: Arguments = (), kwargs: Named | None = None
    ) -> Result:
        """Count a call, or those inside of it where it is composed of others."""
        kwargs = kwargs or {}
        path = PATHS.get(func)
        custom = self._formula(path)
        if custom is not None or path in _CONVOLUTIONS or path in _COUNTED:
            result: Result = func(*args, **kwargs)
            if custom is not None:
                self._add(
                    custom, _custom_count(self.flop_registry[custom], args, kwargs, result), self.mod_tracker.parents
                )
            else:
                self._note(_counted(path, args, kwargs, result), result)
            return result
        inner = getattr(func, "__wrapped__", None)
        if path is None or inner is None:
            return func(*args, **kwargs)
        # The mode is closed while it answers; what a composed function calls is to be seen.
        with _Reopened(self):
            return inner(*args, **kwargs)

    def _formula(self, path: str | None) -> OpOverloadPacket | None:
        if not self.flop_registry or path is None:
            return None
        operation = getattr(ops.aten, path.rpartition(".")[2].strip("_"), None)
        return operation if operation in self.flop_registry else None

    def _note(self, found: _Count | None, result: Tensor) -> None:
        if found is None:
            return
        parents = set(self.mod_tracker.parents)
        self._add(_operation(found.name), found.count, parents)
        if found.gradients and result.grad_fn is not None:
            backward = _operation(found.backward)

            def count(*_: object) -> None:
                if self._counting:
                    self._add(backward, found.gradients, parents)

            result.grad_fn.register_hook(count)

    def _add(self, operation: OpOverloadPacket, count: int, parents: set[str]) -> None:
        for each in set(parents):
            self.flop_counts[each][operation] += count

    def get_total_flops(self) -> int:
        """Return how many operations there were."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, Counts]:
        """Return the counts by module's name (``"Global"`` for all) and operation of ``torch.ops.aten``."""
        return {name: dict(each) for name, each in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return a table of the counts of the modules down to a depth."""
        depth = depth or self.depth or 999999
        total = self.get_total_flops()
        suffix = max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))

        def lines(name: str, level: int) -> list[tuple[str, str, str]]:
            counts = {name: sum(self.flop_counts[name].values())}
            counts |= {f" - {operation}": count for operation, count in self.flop_counts[name].items()}
            return [
                (" " * level + title, f"{count / 1000**suffix:.3f}{_SUFFIXES[suffix]}", f"{count / total:.2%}" if total else "0%")
                for title, count in counts.items()
            ]  # fmt: skip

        names = [each for each in sorted(self.flop_counts) if each != "Global" and each.count(".") < depth]
        rows = [row for each in names for row in lines(each, each.count("."))]
        if all(sum(self.flop_counts[each].values()) < total for each in names) and total:
            rows = lines("Global", 0) + [(f" {title}", *cells) for title, *cells in rows]  # type: ignore[misc]
        return _table([("Module", "FLOP", "% Total"), *(rows or [("Global", "0", "0%")])])


class _Reopened:
    """A block in which a mode that answers a call hears of the calls inside of it."""

    def __init__(self, mode: FlopCounterMode) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        TorchFunctionMode.__enter__(self.mode)

    def __exit__(self, *_: object) -> None:
        close_mode(self.mode)


def _counted(path: str | None, args: Arguments, kwargs: Named, result: Tensor) -> _Count | None:
    if path in _CONVOLUTIONS:
        input, weight = (
            args[place] if place < len(args) else kwargs[name] for place, name in ((0, "input"), (1, "weight"))
        )
        return _convolution(input, weight, result, _CONVOLUTIONS[path])
    return _COUNTED[path](*args, **kwargs)  # type: ignore[index]


def _custom_count(formula: Formula, args: Arguments, kwargs: Named, result: Result) -> int:
    shaped = [list(each.shape) if isinstance(each, Tensor) else each for each in (*args, *kwargs.values(), result)]
    return formula(*shaped[: len(args)], **dict(zip(kwargs, shaped[len(args) : -1])), out_shape=shaped[-1])


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns under a line of headings."""
    widths = [max(len(row[column]) for row in rows) + (2 if column else 0) for column in range(3)]
    widths = [max(width, len(rows[0][column])) for column, width in enumerate(widths)]
    texts = [
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}" for row in rows
    ]  # fmt: skip
    return "\n".join([texts[0], "  ".join("-" * width for width in widths), *texts[1:]])
