"""Functions that PyTorch writes in Python: whose ``types`` name plain tensors, and whose handlers are given all arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FunctionType

#: the flags of code that takes any number of arguments, by place or by name
_GATHERS = 0x04 | 0x08
#: functions of networks that PyTorch does not write in Python
_BUILT_IN = frozenset(
    (
        "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear", "celu_", "channel_shuffle", "conv1d",
        "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity",
        "elu_", "gelu", "hardshrink", "hardtanh_", "leaky_relu_", "linear", "logsigmoid", "native_channel_shuffle",
        "one_hot", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rrelu_",
        "scaled_dot_product_attention", "selu_", "softplus", "softshrink", "threshold_",
    )
)  # fmt: skip
#: functions of others that it does write in Python
_WRITTEN_IN_PYTHON = frozenset(
    f"torch.{name}" for name in (
        "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_tensors", "cartesian_prod", "cdist", "einsum",
        "lu", "meshgrid", "norm", "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot", "unique", "unique_consecutive",
    )
)  # fmt: skip


def written_in_python(path: str) -> bool:
    """Return whether PyTorch writes a function in Python: the ``types`` of its calls name plain tensors, too."""
    return path in _WRITTEN_IN_PYTHON or (path[:20] == "torch.nn.functional." and path[20:] not in _BUILT_IN)


def spelled_out(
    function: FunctionType, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return the arguments as a handler sees them: those with defaults are always given, by name; as they are if they do not fit."""
    while (wrapped := getattr(function, "__wrapped__", None)) is not None:
        function = wrapped
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    given = dict(zip(names, args, strict=False))
    known = {*names, *(function.__kwdefaults__ or ())}
    if (
        code.co_flags & _GATHERS
        or len(args) > len(names)
        or not known.issuperset(kwargs)
        or not given.keys().isdisjoint(kwargs)
    ):
        return args, kwargs
    given |= kwargs
    required = names[: len(names) - len(defaults)]
    if not given.keys() >= set(required):
        return args, kwargs
    options = dict(zip(names[len(required) :], defaults, strict=True)) | (function.__kwdefaults__ or {})
    return tuple(given[each] for each in required), {name: given.get(name, value) for name, value in options.items()}
