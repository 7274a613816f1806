"""Which modules are being computed, as ``torch.utils.module_tracker``."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Self

from webgpu_torch_core import Tensor
from webgpu_torch_core.autograd.graph import register_multi_grad_hook
from webgpu_torch_core.record.node import RemovableHandle, running
from webgpu_torch_core.tensors import pytree
from webgpu_torch_nn import Module
from webgpu_torch_nn.modules._hooks import register_module_forward_hook, register_module_forward_pre_hook
from webgpu_torch_nn.utils.hooks import RemovableHandle as ModuleHandle

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Knows, while it is open, by ``parents`` the names of the modules whose forward or backward pass runs, and ``"Global"``.

    A module that is called by itself is named by its class, those inside of it by their attributes after that: ``"Net.layer.0"``.
    """

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._handles: list[RemovableHandle | ModuleHandle] = []

    @property
    def is_bw(self) -> bool:
        """Whether this thread is in a backward pass."""
        return bool(running.nodes)

    def __enter__(self) -> Self:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.parents = {"Global"}

    def _name(self, module: Module) -> str:
        if module not in self._names:
            for path, each in module.named_modules(prefix=type(module).__name__):
                self._names.setdefault(each, path)
        return self._names[module]

    def _before(self, module: Module, inputs: object) -> None:
        name = self._name(module)
        self.parents.add(name)
        # A backward pass leaves a module where it reaches what came in, and enters it where it meets what came out.
        self._when_derived(inputs, lambda: self.parents.discard(name))

    def _after(self, module: Module, inputs: object, output: object) -> None:
        name = self._name(module)
        self.parents.discard(name)
        self._when_derived(output, lambda: self.parents.add(name))

    def _when_derived(self, values: object, action: Callable[[], None]) -> None:
        tensors = [each for each in pytree.tree_leaves(values) if isinstance(each, Tensor) and each.requires_grad]
        if tensors:

            def hook(gradients: Sequence[Tensor | None]) -> None:
                action()

            self._handles.append(register_multi_grad_hook(tensors, hook))
