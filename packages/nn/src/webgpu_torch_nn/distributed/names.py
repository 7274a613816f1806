"""Names of parameters without what wrappers put in front of them."""

from __future__ import annotations

from ..modules.module import Module
from ..optim.optimizer import Optimizer

#: attributes in which wrappers keep the module that they wrap
WRAPPED = ("_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module")


def plain_name(model: Module, name: str) -> str:
    """Return a name of a module's state as it is without data-parallel, sharding, compiling and checkpointing wrappers."""
    kept: list[str] = []
    inside: object = model
    for part in name.split("."):
        parallel = part == "module" and type(inside).__name__ in ("DataParallel", "DistributedDataParallel")
        if part not in WRAPPED and not parallel:
            kept.append(part)
        inside = getattr(inside, part, None)
    return ".".join(kept)


def parameter_names(model: Module, optimizer: Optimizer) -> list[str]:
    """Return the names of an optimiser's parameters in the order of their numbers."""
    known = {id(parameter): plain_name(model, name) for name, parameter in model.named_parameters()}
    return [known[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]
