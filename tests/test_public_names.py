"""``__all__`` names what a module defines for others: nothing that is not there, and nothing public is missing."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings

import pytest
import webgpu_torch
import webgpu_torch_core
import webgpu_torch_drop_in
import webgpu_torch_models
import webgpu_torch_nn
import webgpu_torch_testing
import webgpu_torch_tools

PACKAGES = (
    webgpu_torch, webgpu_torch_core, webgpu_torch_drop_in, webgpu_torch_models, webgpu_torch_nn, webgpu_torch_testing,
    webgpu_torch_tools,
)  # fmt: skip
#: modules that act when they are imported
ACTING = ("__main__", "as_torch")
#: names that PyTorch's module has, and leaves out of its own list
LEFT_OUT = {
    "webgpu_torch_nn.utils.rnn": {"PackedSequence_"},
    # What `torch.utils.deterministic` is made of.
    "webgpu_torch_core.api.kernel_switches": {
        "get_deterministic_fill_uninitialized_memory",
        "set_deterministic_fill_uninitialized_memory",
    },
    # What functions with a forward mode of their own need of it.
    "webgpu_torch_core.autograd.forward_ad": {"tangents_of", "unpacking", "with_tangent", "written_tangent"},
}


def modules() -> list[str]:
    found = []
    for package in PACKAGES:
        found.append(package.__name__)
        for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            parts = each.name.split(".")
            if parts[-1] not in ACTING and not any(part.startswith("_") for part in parts):
                found.append(each.name)
    return found


@pytest.mark.parametrize("name", modules())
def test_all_is_what_is_public(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    if listed is None:
        return
    assert len(set(listed)) == len(listed)
    assert [each for each in listed if not hasattr(module, each)] == []
    own = {
        key for key, value in vars(module).items()
        if not key.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == name
    }  # fmt: skip
    assert own - LEFT_OUT.get(name, set()) <= set(listed)
