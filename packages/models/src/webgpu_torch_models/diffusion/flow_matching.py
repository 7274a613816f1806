"""The scheduler of Stable Diffusion 3 and Flux."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_models.diffusion.schedule import Scheduler, SchedulerConfig, spaced


class FlowMatchEulerDiscreteScheduler(Scheduler):
    """Lipman et al. (2022), "Flow Matching", by Euler's method: what Stable Diffusion 3 and Flux use."""

    def __init__(self, config: SchedulerConfig | None = None, **options: Any) -> None:
        super().__init__(config, **options)
        if self.config.time_shift_type not in ("exponential", "linear"):
            raise ValueError(f'time_shift_type "{self.config.time_shift_type}" is unknown; known: exponential, linear')
        others = ("use_beta_sigmas", "invert_sigmas", "stochastic_sampling")
        asked = [key for key in others if self.config.extra.get(key)]
        asked += [key for key in ("use_karras_sigmas", "use_exponential_sigmas") if getattr(self.config, key)]
        if asked:
            raise ValueError(f"flow matching by Euler's method is here without {', '.join(asked)}")

    def mu(self, patches: int) -> float:
        """Return by how much noise counts more for images of so many patches (Esser et al., 2024, section 5.3.2)."""
        config = self.config
        slope = (config.max_shift - config.base_shift) / (config.max_image_seq_len - config.base_image_seq_len)
        return config.base_shift + slope * (patches - config.base_image_seq_len)

    def set_timesteps(self, steps: int, mu: float | None = None, sigmas: Sequence[float] | None = None) -> None:
        """Choose the steps.

        Args:
            steps: how many.
            mu: by how much noise counts more, where ``use_dynamic_shifting`` asks for it: larger for larger images.
            sigmas: the noise before each step, before it is shifted; evenly spaced by default.

        Raises:
            ValueError: the number is none, or ``mu`` is missing.
        """
        count, shift, dynamic = self.config.num_train_timesteps, self.config.shift, self.config.use_dynamic_shifting
        if steps < 1:
            raise ValueError(f"the number of steps must be at least 1, got {steps}")
        if dynamic and mu is None:
            raise ValueError("mu must be given: use_dynamic_shifting is true")

        def shifted(sigma: float, by: float) -> float:
            return by * sigma / (1 + (by - 1) * sigma)

        if sigmas is None:
            ends = (1.0, 1 / count) if dynamic else (shifted(1.0, shift), shifted(1 / count, shift))
            sigmas = spaced(*ends, steps)
        grown = (math.exp(mu) if self.config.time_shift_type == "exponential" else mu) if mu is not None else 1.0
        sigmas = [shifted(each, grown if dynamic else shift) for each in sigmas]
        if self.config.shift_terminal:
            stretch = (1 - sigmas[-1]) / (1 - self.config.shift_terminal)
            sigmas = [1 - (1 - each) / stretch for each in sigmas]
        self.steps = steps
        self.timesteps = [each * count for each in sigmas]
        self.sigmas = [*sigmas, 0.0]

    def step(self, output: Tensor, index: int, sample: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return (sample.float() + (self.sigmas[index + 1] - self.sigmas[index]) * output).to(output.dtype)

    def add_noise(self, original: Tensor, noise: Tensor, index: int) -> Tensor:
        return self.sigmas[index] * noise + (1 - self.sigmas[index]) * original
