"""webgpu-torch core: tensors, autograd, the lazy graph and its compiler, in pure Python."""

from __future__ import annotations

import builtins
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING, Any

from . import autograd as autograd
from .api import fft as fft
from .api import functional as functional
from .api import linalg as linalg
from .api import masked as masked
from .api import signal as signal
from .api import special as special
from .api import webgpu as webgpu
from .api.kernel_switches import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from .api.kernel_switches import get_deterministic_debug_mode as get_deterministic_debug_mode
from .api.kernel_switches import get_float32_matmul_precision as get_float32_matmul_precision
from .api.kernel_switches import get_num_interop_threads as get_num_interop_threads
from .api.kernel_switches import get_num_threads as get_num_threads
from .api.kernel_switches import (
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
)
from .api.kernel_switches import is_storage as is_storage
from .api.kernel_switches import is_warn_always_enabled as is_warn_always_enabled
from .api.kernel_switches import set_default_tensor_type as set_default_tensor_type
from .api.kernel_switches import set_deterministic_debug_mode as set_deterministic_debug_mode
from .api.kernel_switches import set_float32_matmul_precision as set_float32_matmul_precision
from .api.kernel_switches import set_flush_denormal as set_flush_denormal
from .api.kernel_switches import set_num_interop_threads as set_num_interop_threads
from .api.kernel_switches import set_num_threads as set_num_threads
from .api.kernel_switches import set_warn_always as set_warn_always
from .api.kernel_switches import typename as typename
from .api.kernel_switches import use_deterministic_algorithms as use_deterministic_algorithms
from .api.random import default_generator as default_generator
from .api.typed_tensors import BFloat16Tensor as BFloat16Tensor
from .api.typed_tensors import BoolTensor as BoolTensor
from .api.typed_tensors import ByteTensor as ByteTensor
from .api.typed_tensors import CharTensor as CharTensor
from .api.typed_tensors import DoubleTensor as DoubleTensor
from .api.typed_tensors import FloatTensor as FloatTensor
from .api.typed_tensors import HalfTensor as HalfTensor
from .api.typed_tensors import IntTensor as IntTensor
from .api.typed_tensors import LongTensor as LongTensor
from .api.typed_tensors import ShortTensor as ShortTensor
from .autograd import enable_grad as enable_grad
from .autograd import inference_mode as inference_mode
from .autograd import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from .autograd import is_anomaly_enabled as is_anomaly_enabled
from .autograd import is_grad_enabled as is_grad_enabled
from .autograd import is_inference_mode_enabled as is_inference_mode_enabled
from .autograd import no_grad as no_grad
from .autograd import set_anomaly_enabled as set_anomaly_enabled
from .autograd import set_grad_enabled as set_grad_enabled
from .backend import plugins as plugins
from .dispatch import overrides as overrides
from .dispatch.autocast import autocast as autocast
from .dispatch.autocast import clear_autocast_cache as clear_autocast_cache
from .dispatch.autocast import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .dispatch.autocast import get_autocast_dtype as get_autocast_dtype
from .dispatch.autocast import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .dispatch.autocast import is_autocast_cache_enabled as is_autocast_cache_enabled
from .dispatch.autocast import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from .dispatch.autocast import is_autocast_enabled as is_autocast_enabled
from .dispatch.autocast import set_autocast_cache_enabled as set_autocast_cache_enabled
from .dispatch.autocast import set_autocast_dtype as set_autocast_dtype
from .dispatch.autocast import set_autocast_enabled as set_autocast_enabled
from .ir.dtypes import bfloat16 as bfloat16
from .ir.dtypes import bool_ as bool_
from .ir.dtypes import complex32 as complex32
from .ir.dtypes import complex64 as complex64
from .ir.dtypes import complex128 as complex128
from .ir.dtypes import dtype as dtype
from .ir.dtypes import float4_e2m1fn_x2 as float4_e2m1fn_x2
from .ir.dtypes import float8_e4m3fn as float8_e4m3fn
from .ir.dtypes import float8_e4m3fnuz as float8_e4m3fnuz
from .ir.dtypes import float8_e5m2 as float8_e5m2
from .ir.dtypes import float8_e5m2fnuz as float8_e5m2fnuz
from .ir.dtypes import float8_e8m0fnu as float8_e8m0fnu
from .ir.dtypes import float16 as float16
from .ir.dtypes import float32 as float32
from .ir.dtypes import float64 as float64
from .ir.dtypes import int8 as int8
from .ir.dtypes import int16 as int16
from .ir.dtypes import int32 as int32
from .ir.dtypes import int64 as int64
from .ir.dtypes import promote_types as promote_types
from .ir.dtypes import qint8 as qint8
from .ir.dtypes import qint32 as qint32
from .ir.dtypes import quint8 as quint8
from .ir.dtypes import uint8 as uint8
from .ir.dtypes import uint16 as uint16
from .ir.dtypes import uint32 as uint32
from .ir.dtypes import uint64 as uint64
from .ir.type_limits import finfo as finfo
from .ir.type_limits import iinfo as iinfo
from .operations import attach_all as attach_all
from .operations.creation.conversion import legacy_contiguous_format as legacy_contiguous_format
from .operations.creation.typed_storage import BFloat16Storage as BFloat16Storage
from .operations.creation.typed_storage import BoolStorage as BoolStorage
from .operations.creation.typed_storage import ByteStorage as ByteStorage
from .operations.creation.typed_storage import CharStorage as CharStorage
from .operations.creation.typed_storage import ComplexDoubleStorage as ComplexDoubleStorage
from .operations.creation.typed_storage import ComplexFloatStorage as ComplexFloatStorage
from .operations.creation.typed_storage import DoubleStorage as DoubleStorage
from .operations.creation.typed_storage import FloatStorage as FloatStorage
from .operations.creation.typed_storage import HalfStorage as HalfStorage
from .operations.creation.typed_storage import IntStorage as IntStorage
from .operations.creation.typed_storage import LongStorage as LongStorage
from .operations.creation.typed_storage import ShortStorage as ShortStorage
from .operations.creation.typed_storage import TypedStorage as TypedStorage
from .operations.creation.untyped_storage import UntypedStorage as UntypedStorage
from .operations.elementwise.call import default_float as _default_float
from .operations.elementwise.call import use_default_float as _use_default_float
from .operations.elementwise.promotion import result_type as result_type
from .operations.host_algorithms import HostFallbackWarning as HostFallbackWarning
from .operations.host_algorithms import host_fallbacks as host_fallbacks
from .operations.in_place.functions import NAMES as _IN_PLACE
from .operations.random.generator import Generator as Generator
from .operations.random.generator import get_rng_state as get_rng_state
from .operations.random.generator import initial_seed as initial_seed
from .operations.random.generator import manual_seed as manual_seed
from .operations.random.generator import seed as seed
from .operations.random.generator import set_rng_state as set_rng_state
from .record.devices import device as device
from .record.devices import get_default_device as get_default_device
from .record.devices import set_default_device as set_default_device
from .replay.capture import compile as compile
from .tensors.kinds import layout as layout
from .tensors.kinds import strided as strided
from .tensors.memory_formats import channels_last as channels_last
from .tensors.memory_formats import channels_last_3d as channels_last_3d
from .tensors.memory_formats import contiguous_format as contiguous_format
from .tensors.memory_formats import memory_format as memory_format
from .tensors.memory_formats import preserve_format as preserve_format
from .tensors.printing import set_printoptions as set_printoptions
from .tensors.quantization_schemes import per_channel_affine as per_channel_affine
from .tensors.quantization_schemes import per_channel_affine_float_qparams as per_channel_affine_float_qparams
from .tensors.quantization_schemes import per_channel_symmetric as per_channel_symmetric
from .tensors.quantization_schemes import per_tensor_affine as per_tensor_affine
from .tensors.quantization_schemes import per_tensor_symmetric as per_tensor_symmetric
from .tensors.quantization_schemes import qscheme as qscheme
from .tensors.tensor import Size as Size
from .tensors.tensor import Tensor as Tensor

if TYPE_CHECKING:
    from .api.typed.torch import *

bool = bool_
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble, chalf = complex64, complex128, complex32

attach_all(globals())


def save(obj: Any, f: Any, **options: Any) -> None:
    """Write an object of tensors and plain containers to a file, as :func:`torch.save`."""
    # Most programs open no file.
    from .files.tensor_files import save as write

    write(obj, f, **options)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: builtins.bool | None = None,
    **options: Any,
) -> Any:
    """Read a file that :func:`torch.save` wrote, as :func:`torch.load`."""
    # Most programs open no file.
    from .files.tensor_files import load as read

    return read(f, map_location, pickle_module, weights_only=weights_only, **options)


def set_default_dtype(d: dtype) -> None:
    """Set the type that Python floats and new tensors take.

    Raises:
        TypeError: it is no floating-point type.
    """
    if not (isinstance(d, dtype) and d.is_floating_point):
        known = "" if isinstance(d, dtype) else "invalid dtype object: "
        raise TypeError(f"{known}only floating-point types are supported as the default type")
    if d.stored is not d:
        raise TypeError(f"couldn't find storage object {d.title}Storage")
    _use_default_float(d)


def get_default_dtype() -> dtype:
    """Return the type that Python floats and new tensors take."""
    return _default_float[0]


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

#: what ``webgpu_torch`` has of it, too: all but implementation, and in-place functions that PyTorch has for tensors only
__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name
    for name, value in globals().items()
    # Without calls: it is a part of every program's start.
    if name[0] != "_"
    and (name == "webgpu" or value.__class__ is not _ModuleType)
    and (name[-1] != "_" or name in ("zero_", "resize_as_", *_IN_PLACE))
    and name not in ("annotations", "attach_all", "Any", "TYPE_CHECKING")
]
__version__ = "0.1.0"
