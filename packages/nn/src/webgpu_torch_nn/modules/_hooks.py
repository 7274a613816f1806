"""Registration of a Module's hooks, and the call that runs them in PyTorch's order."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn
from webgpu_torch_core.record.changes import Hooks, hooks_of_all
from webgpu_torch_core.record.node import Node

from webgpu_torch_nn.modules._attributes import ModuleAttributes
from webgpu_torch_nn.utils.hooks import BackwardHook, RemovableHandle

# Hooks of every module, kept apart from the modules' own so that a call can skip both with a few truth tests.
global_forward_pre_hooks = Hooks()
global_forward_hooks = Hooks()
global_forward_hooks_with_kwargs = Hooks()
global_forward_hooks_always_called = Hooks()
global_backward_pre_hooks = Hooks()
global_backward_hooks = Hooks()
# Which form those have, once there was one.
global_backward_form: dict[str, bool | None] = {"full": None}
global_buffer_registration_hooks = Hooks()
global_module_registration_hooks = Hooks()
global_parameter_registration_hooks = Hooks()

#: the names of those
OF_ALL_MODULES = tuple(name for name, each in list(globals().items()) if isinstance(each, Hooks))


hooks_of_all += [
    global_forward_pre_hooks, global_forward_hooks, global_forward_hooks_with_kwargs, global_forward_hooks_always_called,
    global_backward_pre_hooks, global_backward_hooks,
]  # fmt: skip


def _register(hooks: OrderedDict[int, Callable], hook: Callable, **flags: OrderedDict[int, bool]) -> RemovableHandle:
    handle = RemovableHandle(hooks, extra_dict=list(flags.values()))
    hooks[handle.id] = hook
    for flag in flags.values():
        flag[handle.id] = True
    return handle


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, args)`` before every module's forward."""
    return _register(global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` (``args, kwargs, output`` if asked) after every module's forward."""
    flags = {}
    if with_kwargs:
        flags["with_kwargs"] = global_forward_hooks_with_kwargs
    if always_call:
        flags["always_call"] = global_forward_hooks_always_called
    return _register(global_forward_hooks, hook, **flags)


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` when any module's output gradients are known."""
    return _register(global_backward_pre_hooks, hook)


def _take_form(full: bool) -> None:
    if global_backward_form["full"] is not None and global_backward_form["full"] is not full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    global_backward_form["full"] = full


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` with the gradients of any module's last operation alone.

    Raises:
        RuntimeError: hooks of the other form, :func:`register_module_full_backward_hook`, were registered.
    """
    _take_form(False)
    return _register(global_backward_hooks, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` when any module's input gradients are known.

    Raises:
        RuntimeError: hooks of the other form, :func:`register_module_backward_hook`, were registered.
    """
    _take_form(True)
    return _register(global_backward_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` at every registration of a buffer; its result, if any, replaces it."""
    return _register(global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` at every registration of a module; its result, if any, replaces it."""
    return _register(global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` at every registration of a parameter; its result replaces it."""
    return _register(global_parameter_registration_hooks, hook)


def _are_tensors(values: object) -> bool:
    return isinstance(values, Tensor) or (
        isinstance(values, tuple) and all(isinstance(each, Tensor | None) for each in values)
    )


def _warn_what_is_missed(args: tuple, result: object, grad_fn: Node) -> None:
    """Warn where a hook of the older form, which sees the last operation alone, misses some of a module's gradients."""
    results: tuple = result if isinstance(result, tuple) else (result,)
    if not _are_tensors(result):
        what, missed = "does not return a single Tensor or a tuple of Tensors", "grad_output"
    elif not _are_tensors(args):
        what, missed = "does not take as input a single Tensor or a tuple of Tensors", "grad_input"
    elif len({id(each.grad_fn) for each in results if each is not None}) > 1:
        what, missed = "is not one operation: its outputs are generated by different autograd Nodes", "grad_output"
    else:
        known = {id(each.grad_fn) for each in args if each is not None}
        before = [each for each, _ in grad_fn.next_functions if each is not None and each.next_functions]
        if all(id(each) in known for each in before):
            return
        what, missed = "is not one operation: the forward contains multiple autograd Nodes", "grad_input"
    warn(
        f"Using a non-full backward hook when a Module {what} is deprecated and will be removed in future versions. "
        f"This hook will be missing some {missed}. Please use register_full_backward_hook to get the documented behavior.",
        FutureWarning,
    )


class BoundHook:
    """A hook that is also given its module, which it does not keep alive."""

    def __init__(self, hook: Callable, module: Any = None) -> None:
        self.hook = hook
        self.module = None if module is None else weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.module is None:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict:
        return {"hook": self.hook, "module": None if self.module is None else self.module()}

    def __setstate__(self, state: dict) -> None:
        self.__init__(state["hook"], state["module"])


class HookMixin(ModuleAttributes):
    """The hook half of :class:`~webgpu_torch_nn.Module`."""

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)``, or ``hook(module, args, kwargs)``, before forward; it may return new ones."""
        flags = {"with_kwargs": self._forward_pre_hooks_with_kwargs} if with_kwargs else {}
        handle = _register(self._forward_pre_hooks, hook, **flags)
        if prepend:
            self._forward_pre_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after forward; with ``always_call`` also when forward raises."""
        flags = {}
        if with_kwargs:
            flags["with_kwargs"] = self._forward_hooks_with_kwargs
        if always_call:
            flags["always_call"] = self._forward_hooks_always_called
        handle = _register(self._forward_hooks, hook, **flags)
        if prepend:
            self._forward_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the module's backward; it may return a new grad_output."""
        handle = _register(self._backward_pre_hooks, hook)
        if prepend:
            self._backward_pre_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` with the gradients of the module's last operation alone.

        The old form of :meth:`register_full_backward_hook`, for modules of one operation.

        Raises:
            RuntimeError: the module has hooks of the other form.
        """
        if self._is_full_backward_hook is True:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = False
        return _register(self._backward_hooks, hook)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` after the module's backward; it may return a grad_input.

        Raises:
            RuntimeError: the module has hooks of :meth:`register_backward_hook`.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = True
        handle = _register(self._backward_hooks, hook)
        if prepend:
            self._backward_hooks.move_to_end(handle.id, last=False)
        return handle

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or global_forward_hooks
            or global_forward_pre_hooks
            or global_backward_hooks
            or global_backward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    def _call_with_hooks(self, args: tuple, kwargs: dict) -> Any:
        called: set[int] = set()
        try:
            args, kwargs = self._run_forward_pre_hooks(args, kwargs)
            backward_hook = None
            hooks = self._backward_hooks_of_form(True)
            if hooks or self._backward_pre_hooks or global_backward_pre_hooks:
                pre_hooks = (*global_backward_pre_hooks.values(), *self._backward_pre_hooks.values())
                backward_hook = BackwardHook(self, hooks, pre_hooks)
                args = backward_hook.setup_input_hook(args)
            result = self._run_forward_hooks(args, kwargs, self.forward(*args, **kwargs), called)
        except Exception:
            self._run_always_called_hooks(args, kwargs, called)
            raise
        if backward_hook is not None:
            if not isinstance(result, (Tensor, tuple)):
                warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                    f"received {type(result)}",
                )
            result = backward_hook.setup_output_hook(result)
        hooks = self._backward_hooks_of_form(False)
        if hooks:
            self._hook_last_operation(args, result, hooks)
        return result

    def _backward_hooks_of_form(self, full: bool) -> tuple[Callable, ...]:
        everywhere = global_backward_hooks.values() if global_backward_form["full"] is full else ()
        return (*everywhere, *(self._backward_hooks.values() if self._is_full_backward_hook is full else ()))

    def _hook_last_operation(self, args: tuple, result: Any, hooks: tuple[Callable, ...]) -> None:
        whole = result
        while not isinstance(result, Tensor):
            if isinstance(result, dict):
                result = next(each for each in result.values() if isinstance(each, Tensor))
            else:
                result = result[0]
        if result.grad_fn is not None:
            _warn_what_is_missed(args, whole, result.grad_fn)
            for hook in hooks:
                result.grad_fn.register_hook(BoundHook(hook, self))

    def _run_forward_pre_hooks(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        for identifier, hook in (*global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if identifier in self._forward_pre_hooks_with_kwargs:
                replaced = hook(self, args, kwargs)
                if replaced is None:
                    continue
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
                    )
                args, kwargs = replaced
            else:
                replaced = hook(self, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
        return args, kwargs

    def _run_forward_hooks(self, args: tuple, kwargs: dict, result: Any, called: set[int]) -> Any:
        for identifier, hook in (*global_forward_hooks.items(), *self._forward_hooks.items()):
            called.add(identifier)
            replaced = self._call_forward_hook(identifier, hook, args, kwargs, result)
            if replaced is not None:
                result = replaced
        return result

    def _call_forward_hook(self, identifier: int, hook: Callable, args: tuple, kwargs: dict, result: Any) -> Any:
        if identifier in self._forward_hooks_with_kwargs or identifier in global_forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def _run_always_called_hooks(self, args: tuple, kwargs: dict, called: set[int]) -> None:
        """Run, with a result of None, the hooks that asked for it and that forward's exception skipped."""
        always = (*global_forward_hooks_always_called, *self._forward_hooks_always_called)
        for identifier, hook in (*global_forward_hooks.items(), *self._forward_hooks.items()):
            if identifier not in always or identifier in called:
                continue
            try:
                self._call_forward_hook(identifier, hook, args, kwargs, None)
            except Exception as error:
                warn(
                    "module forward hook with ``always_call=True`` raised an exception that was silenced as another "
                    f"error was raised in forward: {error}",
                )
