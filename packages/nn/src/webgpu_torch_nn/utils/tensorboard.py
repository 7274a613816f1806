"""Writing what TensorBoard shows, through the package tensorboardX.

tensorboardX is optional: ``pip install tensorboardX``, or the extra ``tensorboard`` of ``webgpu-torch-nn``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

try:
    from tensorboardX import SummaryWriter as _Writer
except ImportError as error:
    raise ImportError(
        "torch.utils.tensorboard writes through tensorboardX, which is not installed: pip install tensorboardX"
    ) from error

_UNSUPPORTED = "add_graph", "add_onnx_graph", "add_openvino_graph"


def _on_host(value: Any) -> Any:
    """Return tensors as NumPy arrays, also inside lists, tuples and mappings; other values as they are."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    if isinstance(value, Mapping):
        return {key: _on_host(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_on_host(each) for each in value)
    return value


def _taking_tensors(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *(_on_host(each) for each in args), **{name: _on_host(kwargs[name]) for name in kwargs})

    return wrapper


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"SummaryWriter.{name} is not supported: it draws PyTorch's own traced graphs")

    return refuse


class SummaryWriter(_Writer):
    """Writes scalars, images, histograms and more into a folder that TensorBoard shows; a context manager too.

    Every ``add_*`` method takes tensors of any device where PyTorch's does; reading them waits for the device.

    Args:
        log_dir: the folder; ``runs/<time>_<host><comment>`` if None.
        comment: the end of that folder's name.
        purge_step: events from this step on are hidden, as after a crash.
        max_queue: how many events may wait for being written.
        flush_secs: how many seconds they may wait.
        filename_suffix: the end of the file's name.

    Raises:
        NotImplementedError: from ``add_graph`` and its relatives.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        folder = None if log_dir is None else str(log_dir)
        super().__init__(folder, comment, purge_step, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Return the folder that is written to."""
        return str(self.logdir)


for _name in [name for name in dir(_Writer) if name.startswith("add_")]:
    _method = _refusing(_name) if _name in _UNSUPPORTED else _taking_tensors(getattr(_Writer, _name))
    setattr(SummaryWriter, _name, _method)
