"""Loss scaling, so that small gradients survive float16."""

from __future__ import annotations

import enum
import inspect
import struct
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, TypedDict

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn

from webgpu_torch_nn.optim.optimizer import Optimizer


class OptState(enum.Enum):
    """What was done with an optimiser since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _State(TypedDict):
    """What a scaler keeps of an optimiser."""

    stage: OptState
    found_inf_per_device: dict[torch.device, Tensor]


def _refresh_per_optimizer_state() -> _State:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def _single(value: float) -> float:
    """Return the nearest number of single precision: infinity for what is too large."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf")


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
        self._init_scale = init_scale
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        # Python knows the factor: what found it out has waited for the device anyway. It is a tensor's once a loss has told where.
        self._factor, self._good_steps, self._place = float(init_scale), 0, None
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    @property
    def _scale(self) -> Tensor | None:
        return None if self._place is None else torch.full((), self._factor, dtype=torch.float32, device=self._place)

    @_scale.setter
    def _scale(self, value: Tensor | float | None) -> None:
        if value is not None:
            self._set_factor(value)

    @property
    def _growth_tracker(self) -> Tensor | None:
        return None if self._place is None else torch.full((), self._good_steps, dtype=torch.int32, device=self._place)

    @_growth_tracker.setter
    def _growth_tracker(self, value: Tensor | int | None) -> None:
        self._good_steps = 0 if value is None else int(value)

    def _set_factor(self, value: Tensor | float) -> None:
        self._factor = _single(float(value.item() if isinstance(value, Tensor) else value))

    def _need_scale(self, function: str) -> None:
        if self._place is None:
            raise AssertionError(
                f"Attempted {function} but _scale is None.  This may indicate your script did not use scaler.scale(loss or "
                "outputs) earlier in the iteration."
            )

    def scale(self, outputs: Any) -> Any:
        """Return a loss, or nested lists and tuples of them, multiplied by the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._place is None:
                self._place, self._factor = outputs.device, _single(self._factor)
            return outputs * torch.tensor(self._factor, dtype=torch.float32, device=outputs.device)
        if isinstance(outputs, list | tuple):
            return type(outputs)(self.scale(each) for each in outputs)
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale(self, optimizer: Optimizer) -> dict[torch.device, Tensor]:
        """Divide the gradients by the factor in place; return by device whether any is not finite, as 1 or 0."""
        finite: dict[torch.device, list[Tensor]] = {}
        inverse = 1.0 / self._factor
        with torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if grad.dtype is torch.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    grad = grad._values() if grad.is_sparse else grad
                    finite.setdefault(grad.device, []).append(grad.isfinite().all())
                    grad.mul_(inverse)
        return {device: torch.stack(each).all().logical_not().float() for device, each in finite.items()}

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide an optimiser's gradients by the factor, for clipping between ``backward`` and ``step``.

        Raises:
            RuntimeError: it was called already since the last :meth:`update`, or after :meth:`step`.
        """
        if not self._enabled:
            return
        self._need_scale("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        state["found_inf_per_device"] = self._unscale(optimizer)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Call ``optimizer.step`` unless a gradient overflowed; asking that waits for the device.

        Raises:
            RuntimeError: it was called already since the last :meth:`update`, with a closure, or there are no gradients.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._need_scale("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_with_scale(optimizer, state, *args, **kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            found = state["found_inf_per_device"]
            if not found:
                raise AssertionError("No inf checks were recorded for this optimizer.")
            overflowed = any(bool(each.item()) for each in found.values())
            result = None if overflowed else optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_with_scale(self, optimizer: Optimizer, state: _State, *args: object, **kwargs: object) -> object:
        """Call the step of an optimiser that divides by the factor itself, and skips itself where a gradient is not finite."""
        told: Any = optimizer
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the near future "
                "GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed optimizer and let the optimizer use "
                "them directly.",
                FutureWarning,
            )
            return told.step(*args, grad_scaler=self, **kwargs)
        unscaled = state["stage"] is OptState.UNSCALED
        if not unscaled:
            gradients = [
                each.grad for group in optimizer.param_groups for each in group["params"] if each.grad is not None
            ]
            by_device = {each.device: [one for one in gradients if one.device == each.device] for each in gradients}
            state["found_inf_per_device"] = {
                device: torch.stack([one.isfinite().all() for one in each]).all().logical_not().float()
                for device, each in by_device.items()
            }
        found = [each.cpu() for each in state["found_inf_per_device"].values()]
        told.grad_scale = None if unscaled else self._scale
        told.found_inf = torch.stack(found).amax() if found else torch.zeros(())
        try:
            return told.step(*args, **kwargs)
        finally:
            del told.grad_scale, told.found_inf

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Change the factor by what this iteration's steps found, or set it.

        Raises:
            AssertionError: no gradients were unscaled since the last call.
        """
        if not self._enabled:
            return
        self._need_scale("update")
        if isinstance(new_scale, Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad):
            raise AssertionError(
                "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with requires_grad=False."
            )
        if new_scale is not None:
            self._set_factor(new_scale)
        else:
            states = self._per_optimizer_states.values()
            found = [each for state in states for each in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(bool(each.item()) for each in found):
                self._factor = _single(self._factor * self._backoff_factor)
                self._good_steps = 0
            else:
                self._good_steps += 1
                if self._good_steps == self._growth_interval:
                    grown = _single(self._factor * self._growth_factor)
                    self._factor = self._factor if grown == float("inf") else grown
                    self._good_steps = 0
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def get_scale(self) -> float:
        """Return the factor; 1 if disabled."""
        return self._factor if self._enabled else 1.0

    def _get_growth_tracker(self) -> int:
        # Programs that log how training goes ask for it.
        return self._good_steps if self._enabled else 0

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
            "_growth_tracker": self._good_steps,
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
        self._init_scale = self._factor = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = self._good_steps = state_dict["_growth_tracker"]

    def __getstate__(self) -> dict[str, object]:
        if self._enabled and self._per_optimizer_states:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after scaler.update()."
            )
        return {
            **self.__dict__,
            "_init_scale": self.get_scale(),
            "_init_growth_tracker": self._good_steps,
            "_place": None,
        }
