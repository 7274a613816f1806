"""AdamW."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core import Tensor

from webgpu_torch_nn.optim.adam import Adam


class AdamW(Adam):
    """:class:`Adam` whose weight decay shrinks the parameters directly (Loshchilov and Hutter, 2017).

    Args and errors: as :class:`Adam`, with a weight decay of 0.01.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            # Files written before the option existed do not say so, and this class is what it means.
            group["decoupled_weight_decay"] = True
