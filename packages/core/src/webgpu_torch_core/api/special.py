"""The special functions, as ``torch.special``."""

# The names are found in the registry when this is imported.
# pyright: reportUnsupportedDunderAll=false
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import operations as ops
from ..dispatch.overrides import renamed
from ..dispatch.registry import OPERATIONS, functions

if TYPE_CHECKING:
    from .typed.special import *  # noqa: F403

#: names of ``torch.special`` and what ``torch`` calls the same function
_SHARED = {
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2", "expit": "sigmoid",
    "expm1": "expm1", "gammainc": "igamma", "gammaincc": "igammac", "gammaln": "lgamma", "i0": "i0", "log1p": "log1p",
    "logit": "logit", "logsumexp": "logsumexp", "multigammaln": "mvlgamma", "polygamma": "polygamma", "psi": "digamma",
    "round": "round", "sinc": "sinc", "xlogy": "xlogy",
}  # fmt: skip


def _collect() -> dict[str, Any]:
    found: dict[str, Any] = dict(functions("special"))
    for name, shared in _SHARED.items():
        found[name] = renamed(OPERATIONS[shared].function, f"torch.special.{name}", f"special_{name}")
        found[name].__module__ = __name__
    return found


globals().update(_collect())
__all__ = sorted({*functions("special"), *_SHARED})
del ops
