"""The package ``functorch``, which PyTorch's distribution brings: names of ``torch``, mostly older ones, and dimensions as objects."""

from __future__ import annotations

import importlib
from types import ModuleType

from . import stubs

#: by module: where its names come from
SOURCES: dict[str, dict[str, str]] = {
    "functorch": {
        "torch": "__version__",
        "torch._functorch.deprecated": "combine_state_for_ensemble functionalize grad grad_and_value hessian jacfwd jacrev jvp "
        "make_functional make_functional_with_buffers vjp vmap",
        "torch._functorch.make_functional": "FunctionalModule FunctionalModuleWithBuffers",
        "torch._functorch.python_key": "make_fx",
    },
    "functorch.compile": {
        "torch._functorch": "config",
        "torch._functorch.aot_autograd": "aot_function aot_module aot_module_simplified compiled_function compiled_module "
        "get_aot_compilation_context get_aot_graph_name get_graph_being_compiled make_boxed_compiler make_boxed_func",
        "torch._functorch.compilers": "debug_compile default_decompositions draw_graph_compile memory_efficient_fusion nnc_jit nop "
        "print_compile ts_compile",
        "torch._functorch.fx_minifier": "minifier",
        "torch._functorch.partitioners": "default_partition draw_graph min_cut_rematerialization_partition",
        "torch._functorch.python_key": "pythonkey_decompose",
    },
    "functorch.dim": {},
    "functorch.einops": {"torch._functorch.einops": "rearrange"},
    "functorch.experimental": {
        "torch._functorch.apis": "chunk_vmap",
        "torch._functorch.batch_norm_replacement": "replace_all_batch_norm_modules_",
        "torch._functorch.eager_transforms": "hessian jacfwd jvp",
        "torch.func": "functionalize",
    },
    "functorch.experimental.control_flow": {
        "torch": "cond",
        "torch._higher_order_ops.map": "_stack_pytree _unstack_pytree map",
    },
    "functorch.experimental.ops": {"torch._ops": "HigherOrderOperator"},
    "functorch._src": {},
    "functorch._src.aot_autograd": {
        "torch._functorch.aot_autograd": "aot_autograd_decompositions KNOWN_TYPES PytreeThunk"
    },
    "functorch._src.eager_transforms": {
        "torch._functorch.eager_transforms": "_assert_wrapped_functional _unwrap_functional_tensor"
    },
    "functorch._src.make_functional": {"torch._functorch.make_functional": "_swap_state"},
    "functorch._src.vmap": {
        "torch._functorch.vmap": "_add_batch_dim _broadcast_to_and_flatten _create_batched_inputs _get_name _process_batched_inputs "
        "_remove_batch_dim _unwrap_batched _validate_and_get_batch_size Tensor tree_flatten tree_unflatten"
    },
}  # fmt: skip
#: what this library does not have: classes and functions
CLASSES = {"functorch.dim": "Dim DimList Tensor"}
FUNCTIONS = {"functorch.dim": "cat dimlists dims split stack"}


class FunctorchModule(ModuleType):
    """A module of ``functorch``, whose names are looked up when they are first asked for."""

    def __getattr__(self, name: str) -> object:
        for source, names in SOURCES[self.__name__].items():
            if name in names.split():
                found = getattr(importlib.import_module(source), name)
                break
        else:
            path = f"{self.__name__}.{name}"
            if name in CLASSES.get(self.__name__, "").split():
                found = stubs.kind(path, {}, ())
            elif name in FUNCTIONS.get(self.__name__, "").split():
                found = stubs.function(path)
            else:
                raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        lists = (*SOURCES[self.__name__].values(), CLASSES.get(self.__name__, ""), FUNCTIONS.get(self.__name__, ""))
        return sorted({*super().__dir__(), *(name for names in lists for name in names.split())})
