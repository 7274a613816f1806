"""Operations that programs define as closed boxes: their gradients, and what their results may not be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from webgpu_torch_core import Tensor
from webgpu_torch_core.autograd import Function
from webgpu_torch_core.dispatch.torch_dispatch import Value
from webgpu_torch_core.tensors.pytree import tree_leaves

from .overloads import OpOverload


class _Call:
    """One call: how lists of tensors lie among what :class:`Function` takes one by one, and what it does not take."""

    def __init__(self, compute: Callable[..., Value], values: Sequence[Value], named: dict[str, Value]) -> None:
        self.compute, self.named = compute, named
        self.lengths = [len(each) if _is_of_tensors(each) else None for each in values]
        self.returns_list = False

    def flat(self, values: Iterable[Value]) -> list[Value]:
        """Return values with lists of tensors laid out; one value may stand for a whole list."""
        found: list[Value] = []
        for each, length in zip(values, self.lengths, strict=True):
            if length is None:
                found.append(each)
            else:
                found += each if isinstance(each, list | tuple) else [each] * length
        return found

    def together(self, flat: Sequence[Value]) -> tuple[Value, ...]:
        """Return what was laid out as it was before."""
        found: list[Value] = []
        place = 0
        for length in self.lengths:
            found.append(flat[place] if length is None else list(flat[place : place + length]))
            place += 1 if length is None else length
        return tuple(found)


def _is_of_tensors(value: Value) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Tensor) for each in value)


def needs_gradient(values: Sequence[Value]) -> bool:
    """Return whether a tensor among values and in their lists requires gradients."""
    return any(
        isinstance(inner, Tensor) and inner.requires_grad
        for each in values
        for inner in (each if isinstance(each, list) else (each,))
    )


def apply(
    kind: type[Function], compute: Callable[..., Value], values: Sequence[Value], named: dict[str, Value]
) -> Value:
    """Return the result of an operation, with its gradient recorded."""
    call = _Call(compute, values, named)
    result = kind.apply(*call.flat(values), call)
    return list(result) if call.returns_list else result


def formula(
    overload: OpOverload, backward: Callable[..., Value] | None, setup_context: Callable[..., object] | None
) -> type[Function]:
    """Return the function that records an operation's gradient: what is registered, else that there is none."""

    def forward(*args: Value) -> Value:
        call = args[-1]
        result = call.compute(*call.together(args[:-1]), **call.named)
        call.returns_list = isinstance(result, list)
        return tuple(result) if call.returns_list else result

    def keep(ctx: Value, inputs: tuple[Value, ...], output: Value) -> None:
        ctx._call = call = inputs[-1]
        if setup_context is not None:
            given = {"keyword_only_inputs": call.named} if call.named else {}
            output = list(output) if call.returns_list else output
            setup_context(ctx=ctx, inputs=call.together(inputs[:-1]), output=output, **given)

    def differentiate(ctx: Value, *grads: Value) -> tuple[Value, ...]:
        if backward is None:
            raise RuntimeError(
                f"Trying to backward through {overload} but no autograd formula was registered. Please use register_autograd to "
                "add one."
            )
        call: _Call = ctx._call
        needed = ctx.needs_input_grad
        try:
            ctx.needs_input_grad = call.together(needed[:-1])
            found = backward(ctx, *(([*grads],) if call.returns_list else grads))
        finally:
            ctx.needs_input_grad = needed
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(call.lengths):
            # The function itself says how many gradients are wanted.
            return found
        return (*call.flat(found), None)

    members = {
        "forward": staticmethod(forward),
        "backward": staticmethod(differentiate),
        "setup_context": staticmethod(keep),
    }
    return type(f"GeneratedBackwardFor_{str(overload).replace('.', '_')}", (Function,), members)


def check_memory(name: str, given: Value, result: Value) -> None:
    """Refuse results that share memory with arguments or each other.

    Raises:
        RuntimeError: they do.
    """
    known = [each._storage for each in tree_leaves(given) if isinstance(each, Tensor)]
    for each in tree_leaves(result):
        if not isinstance(each, Tensor):
            continue
        if any(each._storage is other for other in known):
            raise RuntimeError(
                f"{name}: The output of this custom operator (1) must not also be an input to this custom operator and (2) may not "
                "alias any inputs to this custom operator or other returns. The most common way to trigger this error is if we "
                "have y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the offending output "
                "tensor(s) (e.g. return x.clone()) or refactor the custom operator to not return y."
            )
        known.append(each._storage)
