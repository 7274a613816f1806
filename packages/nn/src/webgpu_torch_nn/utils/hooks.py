"""Handles that remove hooks, and the pair of identity functions through which full backward hooks see gradients."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn


class RemovableHandle:
    """What registering a hook returns; :meth:`remove` unregisters it, and so does leaving a ``with`` block.

    Args:
        hooks_dict: the dictionary that holds the hook under :attr:`id`.
        extra_dict: further dictionaries with an entry under the same id.
    """

    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extras = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extras)

    def remove(self) -> None:
        """Unregister the hook; calling it twice is harmless."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[object, int, tuple[object, ...]]:
        return self.hooks_dict_ref(), self.id, tuple(each() for each in self.extra_dict_ref)

    def __setstate__(self, state: tuple[OrderedDict | None, int, tuple[OrderedDict | None, ...]]) -> None:
        hooks, self.id, extras = state
        # A dictionary that is gone leaves one that nobody holds.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if each is None else each) for each in extras)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class BackwardHook:
    """Run a module's full backward hooks once its output gradients and its input gradients are both known.

    The inputs and the outputs each pass through one identity function of autograd; its backward sees all the
    gradients of that side together.
    """

    def __init__(self, module: Any, hooks: Iterable[Callable], pre_hooks: Iterable[Callable]) -> None:
        self.module = module
        self.hooks = list(hooks)
        self.pre_hooks = list(pre_hooks)
        self.grad_outputs: tuple | None = None
        self.input_count = -1
        self.input_positions: list[int] = []

    def setup_input_hook(self, args: tuple) -> tuple:
        """Return ``args`` with the differentiable tensors routed through the input side."""
        self.input_count = len(args)
        self.input_positions = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
        if not torch.is_grad_enabled():
            self.input_positions = []
        return self._route(args, self.input_positions, self._on_grad_inputs)

    def setup_output_hook(self, result: Any) -> Any:
        """Return ``result`` with the differentiable tensors routed through the output side."""
        single = not isinstance(result, tuple)
        results = (result,) if single else result
        positions = [i for i, r in enumerate(results) if isinstance(r, Tensor) and r.requires_grad]

        def on_grad_outputs(grads: tuple) -> tuple:
            return self._on_grad_outputs(self._spread(grads, positions, len(results)), positions)

        routed = self._route(results, positions, on_grad_outputs)
        return routed[0] if single else routed

    @staticmethod
    def _spread(grads: tuple, positions: list[int], count: int) -> tuple:
        spread: list = [None] * count
        for position, grad in zip(positions, grads, strict=True):
            spread[position] = grad
        return tuple(spread)

    @staticmethod
    def _route(values: tuple, positions: list[int], callback: Callable[[tuple], tuple]) -> tuple:
        if not positions:
            return values
        outputs = _gate()(callback, *(values[i] for i in positions))
        routed = list(values)
        for position, output in zip(positions, outputs if isinstance(outputs, tuple) else (outputs,), strict=True):
            routed[position] = output
        # A named tuple takes its parts one by one.
        return type(values)(*routed) if hasattr(values, "_fields") else type(values)(routed)

    def _on_grad_outputs(self, grads: tuple, positions: list[int]) -> tuple:
        for hook in self.pre_hooks:
            replaced = hook(self.module, grads)
            if replaced is not None:
                grads = _checked(replaced, grads, "full_backward_pre_hook", "grad_output")
        self.grad_outputs = grads
        if not self.input_positions:
            # Nothing before this module is differentiable, so the input side will never be called.
            warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                "inputs require gradients.",
            )
            for hook in self.hooks:
                replaced = hook(self.module, (None,) * self.input_count, grads)
                if replaced is not None and not (isinstance(replaced, tuple) and set(replaced) <= {None}):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or "
                        "None for all gradients."
                    )
            self.grad_outputs = None
        return tuple(grads[i] for i in positions)

    def _on_grad_inputs(self, grads: tuple) -> tuple:
        if self.grad_outputs is None:
            # The gradient flows to the module's input without passing through its output: differentiated twice, it does.
            return grads
        spread = self._spread(grads, self.input_positions, self.input_count)
        for hook in self.hooks:
            replaced = hook(self.module, spread, self.grad_outputs)
            if replaced is not None:
                spread = _checked(replaced, spread, "full_backward_hook", "grad_input")
        self.grad_outputs = None
        return tuple(spread[i] for i in self.input_positions)


def _checked(replaced: Any, previous: tuple, kind: str, what: str) -> tuple:
    replaced = replaced if isinstance(replaced, tuple) else (replaced,)
    if len(replaced) != len(previous):
        raise RuntimeError(
            f"Backward hook returned an invalid number of {what}, got {len(replaced)}, but expected {len(previous)} "
            f"(from a {kind})"
        )
    return replaced


@functools.cache
def _gate() -> Callable:
    """Return the identity function whose backward hands its gradients to a callback, defined on first use."""

    class BackwardHookFunction(torch.autograd.Function):
        transformed = True

        @staticmethod
        def forward(ctx: Any, callback: Callable[[tuple], tuple], *tensors: Tensor) -> Any:
            ctx.callback = callback
            ctx.set_materialize_grads(False)
            outputs = tuple(tensor.view_as(tensor) for tensor in tensors)
            return outputs[0] if len(outputs) == 1 else outputs

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            return (None, *ctx.callback(grads))

    return BackwardHookFunction.apply
