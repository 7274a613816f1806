"""Probability distributions, as ``torch.distributions``."""

from __future__ import annotations

import sys

import webgpu_torch_nn.distributions as _distributions
from webgpu_torch_nn.distributions import *  # noqa: F403

from ._submodules import offer as _offer

_offer(_distributions, __name__)


def _offer_pytorchs_paths() -> None:
    """Let ``torch.distributions.normal`` and its like be the module that has the class; here families share modules."""
    names = {"studentT": "StudentT", "relaxed_categorical": "RelaxedOneHotCategorical"}
    for name in _distributions.__all__:
        each = getattr(_distributions, name)
        path = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")
        if isinstance(each, type) and path not in ("student_t", "transform"):
            names[path] = name
    for path, name in names.items():
        owner = getattr(_distributions, name, None)
        module = sys.modules[owner.__module__] if owner is not None else _distributions.distribution  # type: ignore[attr-defined]
        sys.modules.setdefault(f"{__name__}.{path}", module)
        globals().setdefault(path, module)


_offer_pytorchs_paths()
