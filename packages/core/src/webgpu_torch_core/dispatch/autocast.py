"""``torch.autocast``: which functions compute in a 16-bit type, which in float32, inside a region that asks for it.

The lists are PyTorch's (Micikevicius et al., "Mixed Precision Training", 2018): products and convolutions run in the
region's type, functions that need range or digits in float32, some of several operands in the widest of their types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..backend.plugins import KNOWN_BACKENDS, registry
from ..ir.dtypes import dtype, float32, float64, promote_types
from ..notices import warn, warn_once
from ..record.context import context
from ..tensors.tensor import Tensor

LOWER, SINGLE, WIDEST = "lower", "single", "widest"

_PRODUCTS = (
    "addbmm", "addmm", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "einsum", "linear", "lstm", "matmul", "mm", "multi_dot", "prelu", "scaled_dot_product_attention",
)  # fmt: skip
_GPU_PRODUCTS = (
    "addmv", "addr", "gru", "gru_cell", "lstm_cell", "mv", "rnn_relu", "rnn_relu_cell", "rnn_tanh",
    "rnn_tanh_cell",
)  # fmt: skip
_GPU_SINGLE = (
    "acos", "asin", "binary_cross_entropy_with_logits", "cdist", "cosh", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1", "group_norm", "hinge_embedding_loss", "kl_div",
    "l1_loss", "layer_norm", "log", "log10", "log1p", "log2", "log_softmax", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "nll_loss", "norm", "normalize", "pdist", "poisson_nll_loss", "pow",
    "prod", "reciprocal", "renorm", "rsqrt", "sinh", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus",
    "sum", "tan", "triplet_margin_loss",
)  # fmt: skip
_GPU_WIDEST = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cat", "cross", "dot", "grid_sample", "index_put", "scatter_add", "stack",
    "tensordot",
)  # fmt: skip
_CPU_SINGLE = (
    "adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "cdist", "cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve", "cond", "cosine_embedding_loss", "cross_entropy",
    "ctc_loss", "eig", "eigh", "eigvals", "eigvalsh", "fft", "fft2", "fftn", "fractional_max_pool2d", "fractional_max_pool3d",
    "geqrf", "grid_sample", "hfft", "hinge_embedding_loss", "householder_product", "huber_loss", "ifft", "ifft2", "ifftn",
    "ihfft", "inv", "inv_ex", "inverse", "irfft", "irfft2", "irfftn", "kl_div", "l1_loss", "lstsq", "lu_solve",
    "margin_ranking_loss", "matrix_rank", "max_pool3d", "max_unpool2d", "max_unpool3d", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "nanquantile", "nll_loss", "orgqr", "ormqr", "pinverse", "poisson_nll_loss", "polar", "prod",
    "qr", "quantile", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
    "rfft", "rfft2", "rfftn", "smooth_l1_loss", "soft_margin_loss", "solve", "stft", "svd", "svdvals",
    "tensorinv", "tensorsolve", "trace", "triangular_solve", "triplet_margin_loss", "view_as_complex",
)  # fmt: skip
_CPU_WIDEST = ("cat", "index_copy", "stack")


def _table(*lists: tuple[str, tuple[str, ...]]) -> dict[str, str]:
    return {name: rule for rule, names in lists for name in names}


_GPU = _table((LOWER, (*_PRODUCTS, *_GPU_PRODUCTS)), (SINGLE, _GPU_SINGLE), (WIDEST, _GPU_WIDEST))
_CPU = _table((LOWER, _PRODUCTS), (SINGLE, _CPU_SINGLE), (WIDEST, _CPU_WIDEST))
NAMES = frozenset(_GPU) | frozenset(_CPU)
_FOLLOWING: set[Any] = set()


def is_autocast_available(device_type: str) -> bool:
    """Return whether there are regions for a kind of device: of this project's, and of those whose backend declares types."""
    registry.load()
    device_type = device_type.partition(":")[0]
    known = device_type in KNOWN_BACKENDS or device_type in registry.backends
    return known and bool(registry.facts(device_type).autocast_types)


def rules_of(device_type: str) -> dict[str, str]:
    """Return function -> rule for a kind of device: PyTorch's lists for the CPU on the host, else those for GPUs."""
    return _CPU if registry.facts(device_type).on_host else _GPU


def autocast_type(device_type: str) -> dtype:
    """Return the type that regions for a kind of device use unless they say: the first that its backend declares."""
    found = context.casting_types.get(device_type)
    return found or next(iter(registry.facts(device_type).autocast_types), float32)


def _eligible(value: Any, place: str) -> bool:
    return (
        isinstance(value, Tensor)
        and value.dtype.is_floating_point
        and value.dtype is not float64
        and value.device.type == place
    )


def _lowered(tensor: Any, kind: dtype) -> Any:
    if tensor.dtype is kind:
        return tensor
    if not (context.casting_cache and tensor.dtype is float32 and tensor.requires_grad and tensor.is_leaf):
        return tensor.to(kind)
    # A weight used several times in a region is converted once.
    found = context.casts.get(id(tensor))
    if found is None or found[0] is not tensor or found[1].dtype is not kind:
        found = context.casts[id(tensor)] = (tensor, tensor.to(kind))
    return found[1]


def _tensors(values: Any) -> list[Any]:
    found: list[Any] = []
    for each in values:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, list | tuple):
            found += _tensors(each)
    return found


def _converted(value: Any, place: str, convert: Callable[[Any], Any]) -> Any:
    if _eligible(value, place):
        return convert(value)
    if type(value) in (list, tuple):
        return type(value)(_converted(each, place, convert) for each in value)
    return value


def _run(name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = _tensors((*args, *kwargs.values()))
    place = given[0].device.type if given else ""
    rule = rules_of(place).get(name) if context.casting.get(place) else None
    if rule is None:
        return function(*args, **kwargs)
    if rule is LOWER:
        kind = autocast_type(place)
        convert: Callable[[Any], Any] = lambda tensor: _lowered(tensor, kind)  # noqa: E731
    else:
        kind = float32
        if rule is WIDEST:
            kinds = [each.dtype for each in given if _eligible(each, place)]
            kind = kinds[0] if kinds else float32
            for each in kinds[1:]:
                kind = promote_types(kind, each)
        convert = lambda tensor: tensor.to(kind)  # noqa: E731
    args = tuple(_converted(each, place, convert) for each in args)
    kwargs = {key: _converted(each, place, convert) for key, each in kwargs.items()}
    before, context.casting = context.casting, {}
    try:
        return function(*args, **kwargs)
    finally:
        context.casting = before


def with_autocast(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that follows its rule inside autocast regions; one without a rule as it is."""
    if name not in NAMES:
        return function

    def casting(*args: Any, **kwargs: Any) -> Any:
        return _run(name, function, args, kwargs) if context.casting else function(*args, **kwargs)

    # What functools.wraps does, without the calls that it takes for each of a hundred functions when core is imported.
    casting.__module__, casting.__name__, casting.__qualname__ = (
        function.__module__,
        function.__name__,
        function.__qualname__,
    )
    casting.__doc__, casting.__wrapped__ = function.__doc__, function  # type: ignore[attr-defined]
    _FOLLOWING.add(casting)
    return casting


def follows_rule(function: Callable[..., object] | None) -> bool:
    """Return whether a function does something else inside autocast regions."""
    while function is not None and function not in _FOLLOWING:
        function = getattr(function, "__wrapped__", None)
    return function is not None


class autocast:
    """A region, or a decorator, in which listed functions on one kind of device compute in a 16-bit type.

    Args:
        device_type: "webgpu", "cpu", or another with a backend.
        dtype: one of the types that the backend declares for this; by default the first: float16, bfloat16 on the CPU.
        enabled: False switches the outer region off.
        cache_enabled: whether converted weights are kept until the outermost region ends.

    Raises:
        RuntimeError: there is no such kind of device.
    """

    def __init__(
        self, device_type: str, dtype: dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type
        # A device's number tells nothing of its kind.
        self._kind = device_type = device_type.partition(":")[0]
        usable = is_autocast_available(device_type)
        if not usable and device_type not in ("meta", "cuda", "mps", "xpu", *registry.backends):
            known = ", ".join(dict.fromkeys([*KNOWN_BACKENDS, *registry.backends]))
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'; known here: {known}"
            )
        self.fast_dtype = autocast_type(device_type) if dtype is None else dtype
        if enabled and not usable and device_type != "meta":
            warn(
                "CUDA is not available or torch_xla is imported. Disabling autocast."
                if device_type == "cuda"
                else f"User provided device_type of '{device_type}', but it is not available. Disabling"
            )
            enabled = False
        supported = registry.facts(device_type).autocast_types
        if enabled and self.fast_dtype not in supported:
            names = " and ".join(map(repr, sorted(supported, key=lambda each: each.name, reverse=True))) or "none"
            warn(
                f"In {device_type.upper()} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{device_type.upper()} Autocast only supports dtypes of {names} currently.",
            )
            enabled = False
        self._enabled = enabled
        self._cache_enabled = context.casting_cache if cache_enabled is None else cache_enabled
        self._outer: list[Any] = []

    def __enter__(self) -> autocast:
        self._outer.append((context.casting, dict(context.casting_types), context.casting_cache))
        enabled = {**context.casting, self._kind: self._enabled}
        # Nothing is looked up where no region is open.
        context.casting = enabled if any(enabled.values()) else {}
        context.casting_types[self._kind] = self.fast_dtype
        context.casting_cache = self._cache_enabled
        context.casting_depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        context.casting, context.casting_types, context.casting_cache = self._outer.pop()
        context.casting_depth -= 1
        if context.casting_depth == 0:
            context.casts.clear()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return inside


def is_autocast_enabled(device_type: str = "webgpu") -> bool:
    """Return whether an autocast region is open for a kind of device."""
    return context.casting.get(device_type.partition(":")[0], False)


def _warn_of_old_query(name: str, instead: str) -> None:
    warn_once(f"torch.{name}() is deprecated. Please use torch.{instead} instead.", DeprecationWarning)


def is_autocast_cpu_enabled() -> bool:
    """Return whether an autocast region is open for the CPU."""
    _warn_of_old_query("is_autocast_cpu_enabled", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Open or close the region of a kind of device for good; given only a bool, the GPU's."""
    place, value = (device_type, enabled) if isinstance(device_type, str) else ("webgpu", device_type)
    kinds = {**context.casting, place: bool(value)}
    context.casting = kinds if any(kinds.values()) else {}


def get_autocast_dtype(device_type: str = "webgpu") -> dtype:
    """Return the type that regions for a kind of device use."""
    return autocast_type(device_type)


def get_autocast_gpu_dtype() -> dtype:
    """Return the type that regions for WebGPU devices use."""
    _warn_of_old_query("get_autocast_gpu_dtype", "get_autocast_dtype('webgpu')")
    return autocast_type("webgpu")


def get_autocast_cpu_dtype() -> dtype:
    """Return the type that regions for the CPU use."""
    _warn_of_old_query("get_autocast_cpu_dtype", "get_autocast_dtype('cpu')")
    return autocast_type("cpu")


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Set the type that regions for a kind of device use."""
    context.casting_types[device_type] = dtype


def is_autocast_cache_enabled() -> bool:
    """Return whether converted weights are kept."""
    return context.casting_cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether converted weights are kept."""
    context.casting_cache = enabled


def clear_autocast_cache() -> None:
    """Drop the converted weights."""
    context.casts.clear()
