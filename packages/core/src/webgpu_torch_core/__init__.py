"""webgpu-torch core: tensors, autograd, the lazy graph and its compiler, in pure Python."""

from __future__ import annotations

from . import autograd, functional, linalg, plugins, webgpu
from .autograd import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from .capture import compile
from .devices import device, get_default_device, set_default_device
from .dtypes import (
    bfloat16,
    complex64,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    uint8,
)
from .dtypes import bool_ as bool
from .generator import Generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .limits import finfo, iinfo
from .ops import attach_all
from .ops.elementwise_call import result_type
from .printing import set_printoptions
from .tensor import Size, Tensor

half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
cfloat = complex64
strided = "torch.strided"

attach_all(globals())


def save(obj, f, **options):
    """Write an object of tensors and plain containers to a file, as :func:`torch.save`."""
    from .tensor_files import save as write

    write(obj, f, **options)


def load(f, map_location=None, weights_only=True, **options):
    """Read a file that :func:`torch.save` wrote, as :func:`torch.load` with ``weights_only=True``."""
    from .tensor_files import load as read

    return read(f, map_location, weights_only, **options)


def set_default_dtype(d):
    """Set the type that Python floats and new tensors take."""
    from .ops.elementwise_call import default_float

    if not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d}")
    default_float[0] = d


def get_default_dtype():
    """Return the type that Python floats and new tensors take."""
    from .ops.elementwise_call import default_float

    return default_float[0]


def is_tensor(obj):
    """Return whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input):
    """Return whether a tensor's elements are real floating-point numbers."""
    return input.is_floating_point()


def is_complex(input):
    """Return whether a tensor's elements are complex numbers."""
    return input.is_complex()


def numel(input):
    """Return the number of elements of a tensor."""
    return input.numel()


__version__ = "0.1.0"
