"""Observers that compute nothing of what they see, and what there is to hand to configurations."""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from ._observing import ObserverBase, Parameters


class FixedQParamsObserver(ObserverBase):
    """Knows the scale and the zero point beforehand.

    Args:
        scale, zero_point: what they are.
        dtype, qscheme, quant_min, quant_max, is_dynamic: as :class:`UniformQuantizationObserverBase` has them.

    Raises:
        NotImplementedError: dynamic quantisation.
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, dtype: torch.dtype = torch.quint8, qscheme: torch.qscheme = torch.per_tensor_affine,
        quant_min: int = 0, quant_max: int = 255, is_dynamic: bool = False, **kwargs: object,
    ) -> None:  # fmt: skip
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", torch.tensor([scale], dtype=torch.float32))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.int32))

    def forward(self, X: Tensor) -> Tensor:
        """Return a tensor of any shape as it is."""
        return X

    def calculate_qparams(self) -> Parameters:
        """Return the scale ``[1]`` and the zero point ``[1]``."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Keeps what type is wanted, where scales are computed anew for each tensor or are not needed.

    Args:
        dtype: the type.
        custom_op_name: kept.
        compute_dtype: a deprecated way to ask for dynamic quantisation.
        quant_min, quant_max, qscheme, eps: as other observers have them.
        is_dynamic: whether scales are computed anew for each tensor.
    """

    def __init__(
        self, dtype: torch.dtype = torch.float32, custom_op_name: str = "", compute_dtype: torch.dtype | None = None,
        quant_min: int | None = None, quant_max: int | None = None, qscheme: torch.qscheme | None = None,
        eps: float | None = None, is_dynamic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dtype=dtype, is_dynamic=is_dynamic or compute_dtype is not None)
        self.qscheme = torch.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max, self.eps = quant_min, quant_max, eps
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of any shape as it is."""
        return x

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self) -> Parameters:
        """Refuse: nothing was observed.

        Raises:
            Exception: always.
        """
        raise Exception("calculate_qparams should not be called for PlaceholderObserver")


class NoopObserver(ObserverBase):
    """Does nothing.

    Args:
        dtype: the type that it says.
        custom_op_name: kept.
    """

    def __init__(self, dtype: torch.dtype = torch.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of any shape as it is."""
        return x

    def calculate_qparams(self) -> Parameters:
        """Refuse: nothing was observed.

        Raises:
            Exception: always.
        """
        raise Exception("calculate_qparams should not be called for NoopObserver")


class ReuseInputObserver(ObserverBase):
    """Stands where an operation's result has the scale of its argument."""

    def __init__(self) -> None:
        super().__init__(torch.quint8, is_dynamic=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of any shape as it is."""
        return x

    def calculate_qparams(self) -> Parameters:
        """Refuse: the scale is the argument's.

        Raises:
            Exception: always.
        """
        raise Exception("calculate_qparams should not be called for ReuseInputObserver")


class RecordingObserver(ObserverBase):
    """Keeps copies of the tensors.

    Args:
        dtype: the type that it says.
    """

    def __init__(self, dtype: torch.dtype = torch.quint8) -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of any shape as it is, of which a copy is kept."""
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self) -> Parameters:
        """Refuse: nothing is computed.

        Raises:
            Exception: always.
        """
        raise Exception("calculate_qparams should not be called for RecordingObserver")

    def get_tensor_value(self) -> list[Tensor]:
        """Return the copies, each of its tensor's shape."""
        return self.tensor_val
