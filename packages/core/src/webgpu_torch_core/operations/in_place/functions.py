"""In-place operations that PyTorch has as functions, too: ``torch.relu_(x)`` is ``x.relu_()``."""

from __future__ import annotations

from collections.abc import Callable

from ...tensors.tensor import Tensor

NAMES = (
    "abs_", "acos_", "acosh_", "arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan_", "arctanh_", "asin_", "asinh_",
    "atan_", "atanh_", "ceil_", "clamp_", "clamp_max_", "clamp_min_", "clip_", "cos_", "cosh_", "deg2rad_", "detach_",
    "erf_", "erfc_", "exp2_", "exp_", "expm1_", "fill_", "fix_", "floor_", "frac_", "gcd_", "i0_", "index_put_", "lcm_",
    "ldexp_", "log10_", "log1p_", "log2_", "log_", "logit_", "nan_to_num_", "neg_", "negative_", "rad2deg_",
    "reciprocal_", "relu_", "round_", "rsqrt_", "sigmoid_", "sin_", "sinc_", "sinh_", "sqrt_", "square_", "tan_",
    "tanh_", "trunc_", "xlogy_",
)  # fmt: skip


def functions() -> dict[str, Callable[..., Tensor]]:
    """Return the functions by name; call it when the families have defined the methods."""
    return {name: getattr(Tensor, name) for name in NAMES}
