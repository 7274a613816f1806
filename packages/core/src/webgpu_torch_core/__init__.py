"""webgpu-torch core: tensors, autograd, the lazy graph and its compiler, in pure Python."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from . import autograd as autograd
from . import fft as fft
from . import functional as functional
from . import linalg as linalg
from . import masked as masked
from . import overrides as overrides
from . import plugins as plugins
from . import signal as signal
from . import special as special
from . import webgpu as webgpu
from .autocast import autocast as autocast
from .autocast import clear_autocast_cache as clear_autocast_cache
from .autocast import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .autocast import get_autocast_dtype as get_autocast_dtype
from .autocast import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .autocast import is_autocast_cache_enabled as is_autocast_cache_enabled
from .autocast import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from .autocast import is_autocast_enabled as is_autocast_enabled
from .autocast import set_autocast_cache_enabled as set_autocast_cache_enabled
from .autocast import set_autocast_dtype as set_autocast_dtype
from .autocast import set_autocast_enabled as set_autocast_enabled
from .autograd import enable_grad as enable_grad
from .autograd import inference_mode as inference_mode
from .autograd import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from .autograd import is_anomaly_enabled as is_anomaly_enabled
from .autograd import is_grad_enabled as is_grad_enabled
from .autograd import is_inference_mode_enabled as is_inference_mode_enabled
from .autograd import no_grad as no_grad
from .autograd import set_anomaly_enabled as set_anomaly_enabled
from .autograd import set_grad_enabled as set_grad_enabled
from .capture import compile as compile
from .devices import device as device
from .devices import get_default_device as get_default_device
from .devices import set_default_device as set_default_device
from .dtypes import bfloat16 as bfloat16
from .dtypes import bool_ as bool_
from .dtypes import complex32 as complex32
from .dtypes import complex64 as complex64
from .dtypes import complex128 as complex128
from .dtypes import dtype as dtype
from .dtypes import float4_e2m1fn_x2 as float4_e2m1fn_x2
from .dtypes import float8_e4m3fn as float8_e4m3fn
from .dtypes import float8_e4m3fnuz as float8_e4m3fnuz
from .dtypes import float8_e5m2 as float8_e5m2
from .dtypes import float8_e5m2fnuz as float8_e5m2fnuz
from .dtypes import float8_e8m0fnu as float8_e8m0fnu
from .dtypes import float16 as float16
from .dtypes import float32 as float32
from .dtypes import float64 as float64
from .dtypes import int8 as int8
from .dtypes import int16 as int16
from .dtypes import int32 as int32
from .dtypes import int64 as int64
from .dtypes import promote_types as promote_types
from .dtypes import uint8 as uint8
from .dtypes import uint16 as uint16
from .dtypes import uint32 as uint32
from .dtypes import uint64 as uint64
from .generator import Generator as Generator
from .generator import get_rng_state as get_rng_state
from .generator import initial_seed as initial_seed
from .generator import manual_seed as manual_seed
from .generator import seed as seed
from .generator import set_rng_state as set_rng_state
from .limits import finfo as finfo
from .limits import iinfo as iinfo
from .ops import attach_all as attach_all
from .ops.conversion import channels_last as channels_last
from .ops.conversion import channels_last_3d as channels_last_3d
from .ops.conversion import contiguous_format as contiguous_format
from .ops.conversion import legacy_contiguous_format as legacy_contiguous_format
from .ops.conversion import memory_format as memory_format
from .ops.conversion import preserve_format as preserve_format
from .ops.elementwise_call import result_type as result_type
from .ops.host import HostFallbackWarning as HostFallbackWarning
from .ops.host import host_fallbacks as host_fallbacks
from .printing import set_printoptions as set_printoptions
from .random import default_generator as default_generator
from .settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from .settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from .settings import get_float32_matmul_precision as get_float32_matmul_precision
from .settings import get_num_interop_threads as get_num_interop_threads
from .settings import get_num_threads as get_num_threads
from .settings import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from .settings import is_storage as is_storage
from .settings import is_warn_always_enabled as is_warn_always_enabled
from .settings import set_default_tensor_type as set_default_tensor_type
from .settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from .settings import set_float32_matmul_precision as set_float32_matmul_precision
from .settings import set_flush_denormal as set_flush_denormal
from .settings import set_num_interop_threads as set_num_interop_threads
from .settings import set_num_threads as set_num_threads
from .settings import set_warn_always as set_warn_always
from .settings import typename as typename
from .settings import use_deterministic_algorithms as use_deterministic_algorithms
from .storages import UntypedStorage as UntypedStorage
from .tensor import Size as Size
from .tensor import Tensor as Tensor
from .tensor_kinds import layout as layout
from .tensor_kinds import strided as strided
from .typed_tensors import BFloat16Tensor as BFloat16Tensor
from .typed_tensors import BoolTensor as BoolTensor
from .typed_tensors import ByteTensor as ByteTensor
from .typed_tensors import CharTensor as CharTensor
from .typed_tensors import DoubleTensor as DoubleTensor
from .typed_tensors import FloatTensor as FloatTensor
from .typed_tensors import HalfTensor as HalfTensor
from .typed_tensors import IntTensor as IntTensor
from .typed_tensors import LongTensor as LongTensor
from .typed_tensors import ShortTensor as ShortTensor

if TYPE_CHECKING:
    from .typed.torch import *

bool = bool_
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble, chalf = complex64, complex128, complex32

attach_all(globals())


def save(obj: Any, f: Any, **options: Any) -> None:
    """Write an object of tensors and plain containers to a file, as :func:`torch.save`."""
    from .tensor_files import save as write

    write(obj, f, **options)


def load(f: Any, map_location: Any = None, weights_only: builtins.bool | None = True, **options: Any) -> Any:
    """Read a file that :func:`torch.save` wrote, as :func:`torch.load` with ``weights_only=True``."""
    from .tensor_files import load as read

    return read(f, map_location, weights_only is not False, **options)


def set_default_dtype(d: dtype) -> None:
    """Set the type that Python floats and new tensors take."""
    from .ops.elementwise_call import use_default_float

    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    use_default_float(d)


def get_default_dtype() -> dtype:
    """Return the type that Python floats and new tensors take."""
    from .ops.elementwise_call import default_float

    return default_float[0]


def is_tensor(obj: Any) -> builtins.bool:
    """Return whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> builtins.bool:
    """Return whether a tensor's elements are real floating-point numbers."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> builtins.bool:
    """Return whether a tensor's elements are complex numbers."""
    return input.is_complex()


def numel(input: Tensor) -> builtins.int:
    """Return the number of elements of a tensor."""
    return input.numel()


def detach(input: Tensor) -> Tensor:
    """Return a view that records no gradients."""
    return input.detach()


def is_signed(input: Tensor) -> builtins.bool:
    """Return whether a tensor's element type has negative numbers."""
    return input.is_signed()


def is_inference(input: Tensor) -> builtins.bool:
    """Return whether a tensor was made in inference mode."""
    return input.is_inference()


def get_device(input: Tensor) -> builtins.int:
    """Return the index of a tensor's device, -1 for the CPU."""
    return input.get_device()


for _name in (
    "detach",
    "get_device",
    "is_complex",
    "is_floating_point",
    "is_inference",
    "is_signed",
    "numel",
    "result_type",
):
    globals()[_name] = overrides.public(globals()[_name], f"torch.{_name}")

__version__ = "0.1.0"
