"""Loss scaling, so that small gradients survive float16."""

from __future__ import annotations

import inspect
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn

from webgpu_torch_nn.optim.optimizer import Optimizer


class GradScaler:
    """Multiplies the loss by a factor that halves when a gradient overflows and doubles after many that don't.

    A step whose gradients hold an infinity or NaN is skipped (Micikevicius et al., "Mixed Precision Training", 2018).

    Args:
        device: where the factor lives.
        init_scale: the first factor.
        growth_factor, backoff_factor: what the factor is multiplied by.
        growth_interval: after so many steps in a row without an overflow the factor grows.
        enabled: False makes every method do what plain training does.

    Raises:
        AssertionError: a growth factor is at most 1, or a backoff factor is at least 1.
    """

    def __init__(
        self,
        device: str = "webgpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if enabled and backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        #: optimiser's id -> whether an overflow was found in each of its gradients' devices
        self._found: dict[int, list[Tensor]] = {}
        self._stepped: dict[int, bool] = {}

    def scale(self, outputs: Any) -> Any:
        """Return a loss, or nested lists and tuples of them, multiplied by the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * torch.tensor(self._scale, dtype=torch.float32, device=outputs.device)
        if isinstance(outputs, list | tuple):
            return type(outputs)(self.scale(each) for each in outputs)
        raise ValueError(f"outputs must be a Tensor or an iterable of Tensors, not {type(outputs).__name__}")

    def _unscale(self, optimizer: Optimizer) -> list[Tensor]:
        """Divide the gradients by the factor in place; return whether any is not finite, for each device."""
        finite: dict[Any, list[Tensor]] = {}
        inverse = 1.0 / self._scale
        with torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if grad.dtype is torch.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    finite.setdefault(grad.device, []).append(grad.isfinite().all())
                    grad.mul_(inverse)
        return [torch.stack(each).all().logical_not() for each in finite.values()]

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide an optimiser's gradients by the factor, for clipping between ``backward`` and ``step``.

        Raises:
            RuntimeError: it was called already since the last :meth:`update`, or after :meth:`step`.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._stepped:
            raise RuntimeError("unscale_() is being called after step().")
        if id(optimizer) in self._found:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        self._found[id(optimizer)] = self._unscale(optimizer)

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Call ``optimizer.step`` unless a gradient overflowed; asking that waits for the device.

        Raises:
            RuntimeError: it was called already since the last :meth:`update`, with a closure, or there are no gradients.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_with_scale(optimizer, *args, **kwargs)
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        found = self._found[id(optimizer)]
        if not found:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        self._stepped[id(optimizer)] = overflowed = any(bool(each.item()) for each in found)
        return None if overflowed else optimizer.step(*args, **kwargs)

    def _step_with_scale(self, optimizer: Optimizer, *args: object, **kwargs: object) -> object:
        """Call the step of an optimiser that divides by the factor itself, and skips itself where a gradient is not finite."""
        told: Any = optimizer
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the near future "
                "GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed optimizer and let the optimizer use "
                "them directly.",
                FutureWarning,
            )
            result = told.step(*args, grad_scaler=self, **kwargs)
            self._stepped[id(optimizer)] = False
            return result
        unscaled = id(optimizer) in self._found
        if not unscaled:
            gradients = [
                each.grad for group in optimizer.param_groups for each in group["params"] if each.grad is not None
            ]
            self._found[id(optimizer)] = [each.isfinite().all().logical_not() for each in gradients]
        found = self._found[id(optimizer)]
        told.grad_scale = None if unscaled else torch.tensor(self._scale, dtype=torch.float32)
        told.found_inf = torch.stack([each.float().cpu() for each in found]).amax() if found else torch.zeros(())
        try:
            result = told.step(*args, **kwargs)
        finally:
            del told.grad_scale, told.found_inf
        self._stepped[id(optimizer)] = False
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Change the factor by what this iteration's steps found, or set it.

        Raises:
            AssertionError: no gradients were unscaled since the last call.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale.item() if isinstance(new_scale, Tensor) else new_scale)
        else:
            if not self._found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(bool(each.item()) for found in self._found.values() for each in found):
                self._scale *= self._backoff_factor
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    self._scale *= self._growth_factor
                    self._growth_tracker = 0
        self._found.clear()
        self._stepped.clear()

    def get_scale(self) -> float:
        """Return the factor; 1 if disabled."""
        return self._scale if self._enabled else 1.0

    def _get_growth_tracker(self) -> int:
        # Programs that log how training goes ask for it.
        return self._growth_tracker if self._enabled else 0

    def get_growth_factor(self) -> float:
        """Return what the factor grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the factor grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return what the factor shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the factor shrinks by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return after how many good steps the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good steps the factor grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Return whether scaling is on."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the factor and its settings; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned.

        Raises:
            RuntimeError: the state is empty, as a disabled scaler's is.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
