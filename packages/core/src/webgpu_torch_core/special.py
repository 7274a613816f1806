"""The special functions, as ``torch.special``."""

# The names are found in the registry when this is imported.
# pyright: reportUnsupportedDunderAll=false
from __future__ import annotations

from typing import TYPE_CHECKING

from . import ops
from .ops.registry import OPERATIONS, functions

if TYPE_CHECKING:
    from .typed.special import *  # noqa: F403

#: names of ``torch.special`` and what ``torch`` calls the same function
_SHARED = {
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2", "expit": "sigmoid",
    "expm1": "expm1", "gammainc": "igamma", "gammaincc": "igammac", "gammaln": "lgamma", "i0": "i0", "log1p": "log1p",
    "logit": "logit", "logsumexp": "logsumexp", "multigammaln": "mvlgamma", "polygamma": "polygamma", "psi": "digamma",
    "round": "round", "sinc": "sinc", "xlogy": "xlogy",
}  # fmt: skip


def _collect() -> dict[str, object]:
    found: dict[str, object] = dict(functions("special"))
    for name, shared in _SHARED.items():
        found[name] = OPERATIONS[shared].function
    return found


globals().update(_collect())
__all__ = sorted(_collect())
del ops
