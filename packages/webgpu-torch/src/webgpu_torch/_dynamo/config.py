"""Switches of PyTorch's tracer, which programs set: they are read back as they were set, and change nothing here."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

accumulated_recompile_limit = 256
allow_rnn = False
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
compiled_autograd = False
dynamic_shapes = True
error_on_recompile = False
fail_on_recompile_limit_hit = False
force_parameter_static_shapes = True
inline_inbuilt_nn_modules = True
issue_3_13_0_warning = True
log_compilation_metrics = True
optimize_ddp = True
recompile_limit = 8
specialize_int = False
suppress_errors = False
verbose = False


@contextlib.contextmanager
def patch(changes: str | dict[str, object] | None = None, value: object = None, **named: object) -> Iterator[None]:
    """Set switches for a while: by a dictionary, by name and value, or by names.

    Raises:
        AttributeError: there is no such switch.
    """
    wanted = {changes: value, **named} if isinstance(changes, str) else {**(changes or {}), **named}
    module = sys.modules[__name__]
    before = {name: getattr(module, name) for name in wanted}
    try:
        for name, each in wanted.items():
            setattr(module, name, each)
        yield
    finally:
        for name, each in before.items():
            setattr(module, name, each)
