"""Linear layers that are trained for dynamic quantisation."""

from __future__ import annotations

from webgpu_torch._holding import Answer

from ...modules.linear import Linear as TrainedLinear


class Linear(TrainedLinear):
    """:class:`torch.ao.nn.qat.Linear`, ``[..., in_features]``, for activations that are quantised dynamically.

    Raises:
        ValueError: the configuration's activations are not.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        qconfig: Answer = None,
        device: Answer = None,
        dtype: Answer = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        if not qconfig.activation().is_dynamic:
            raise ValueError("Dynamic QAT requires a memoryless observer.")
