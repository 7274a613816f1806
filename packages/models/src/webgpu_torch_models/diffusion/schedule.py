"""What schedulers share: how much noise a step has, and which steps are taken.

All of it is arithmetic of a few hundred numbers on the host; what a step does to images are sums with these numbers as
parameters, so that all steps of a run share their kernels.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.ir.scalar_math import round_to_float32

from webgpu_torch_models.config import JsonConfig


@dataclasses.dataclass
class SchedulerConfig(JsonConfig):
    """Options, named as in scheduler_config.json."""

    file_name: ClassVar[str] = "scheduler_config.json"

    num_train_timesteps: int = 1000
    beta_start: float = 0.0001
    beta_end: float = 0.02
    beta_schedule: str = "linear"
    trained_betas: list[float] | None = None
    prediction_type: str = "epsilon"
    timestep_spacing: str | None = None
    steps_offset: int = 0
    rescale_betas_zero_snr: bool = False
    clip_sample: bool | None = None
    clip_sample_range: float = 1.0
    set_alpha_to_one: bool | None = None
    use_karras_sigmas: bool = False
    use_exponential_sigmas: bool = False
    final_sigmas_type: str = "zero"
    variance_type: str = "fixed_small"
    skip_prk_steps: bool = False
    algorithm_type: str = "dpmsolver++"
    solver_order: int = 2
    solver_type: str | None = None
    lower_order_final: bool = True
    euler_at_final: bool = False
    original_inference_steps: int = 50
    timestep_scaling: float = 10.0
    shift: float = 1.0
    use_dynamic_shifting: bool = False
    shift_terminal: float | None = None
    time_shift_type: str = "exponential"
    base_shift: float = 0.5
    max_shift: float = 1.15
    base_image_seq_len: int = 256
    max_image_seq_len: int = 4096

    def __post_init__(self) -> None:
        if self.prediction_type not in ("epsilon", "v_prediction", "sample"):
            raise ValueError(
                f'prediction_type "{self.prediction_type}" is unknown; known are: epsilon, v_prediction, sample'
            )


def betas(config: SchedulerConfig) -> list[float]:
    """Return each training step's variance.

    Raises:
        ValueError: ``beta_schedule`` is unknown.
    """
    count = config.num_train_timesteps
    if config.trained_betas is not None:
        return list(config.trained_betas)
    if config.beta_schedule == "linear":
        values = spaced(config.beta_start, config.beta_end, count)
    elif config.beta_schedule == "scaled_linear":
        values = [each**2 for each in spaced(config.beta_start**0.5, config.beta_end**0.5, count)]
    elif config.beta_schedule == "squaredcos_cap_v2":
        # Nichol & Dhariwal (2021).
        left = [math.cos((step / count + 0.008) / 1.008 * math.pi / 2) ** 2 for step in range(count + 1)]
        values = [min(1 - after / before, 0.999) for before, after in itertools.pairwise(left)]
    else:
        known = "linear, scaled_linear, squaredcos_cap_v2"
        raise ValueError(f'beta_schedule "{config.beta_schedule}" is unknown; known are: {known}')
    # Checkpoints' own library computes in float32.
    return [round_to_float32(each) for each in values]


def cumulative_alphas(config: SchedulerConfig) -> list[float]:
    """Return how much of the image's variance is left after each training step."""
    product, result = 1.0, []
    for each in betas(config):
        product *= round_to_float32(1 - each)
        result.append(product)
    if config.rescale_betas_zero_snr:
        # Lin et al. (2023), algorithm 1: nothing is left after the last step.
        roots = [each**0.5 for each in result]
        first, last = roots[0], roots[-1]
        result = [((each - last) * first / (first - last)) ** 2 for each in roots]
    return result


def spaced(first: float, last: float, count: int) -> list[float]:
    """Return ``count`` numbers from ``first`` to ``last``."""
    if count == 1:
        return [first]
    return [first + (last - first) * number / (count - 1) for number in range(count)]


class Scheduler:
    """Removes noise step by step.

    Args:
        config: its options; or give them by name.

    Class attributes:
        spacing, clips, ends_clean: what the configuration means where it does not say ``timestep_spacing``,
            ``clip_sample`` and ``set_alpha_to_one``.
        defaults: options that differ from :class:`SchedulerConfig`'s.

    Attributes:
        timesteps: what the network is told at each step, from much noise to little.
        init_noise_sigma: what noise is multiplied by to start from.
    """

    spacing: ClassVar[str] = "leading"
    defaults: ClassVar[dict[str, Any]] = {}
    clips: ClassVar[bool] = False
    ends_clean: ClassVar[bool] = True
    init_noise_sigma: float = 1.0

    def __init__(self, config: SchedulerConfig | None = None, **options: Any) -> None:
        self.config = SchedulerConfig.from_dict({**self.defaults, **options}) if config is None else config
        self.alphas = cumulative_alphas(self.config)
        self.timesteps: list[float] = []
        self.steps = 0

    def set_timesteps(self, steps: int) -> None:
        """Choose the steps.

        Raises:
            ValueError: there are not so many, or ``timestep_spacing`` is unknown.
        """
        limit = self.config.num_train_timesteps
        if not 1 <= steps <= limit:
            raise ValueError(f"the number of steps must be between 1 and num_train_timesteps={limit}, got {steps}")
        self.steps = steps
        self.timesteps = [float(each) for each in self.chosen_steps(steps)]
        self.reset()

    def reset(self) -> None:
        """Forget what was remembered of earlier steps."""

    def chosen_steps(self, steps: int) -> list[float]:
        """Return training steps, from the last one on."""
        return self._spread(steps)

    def _spread(self, steps: int, whole: bool = True) -> list[float]:
        count, offset = self.config.num_train_timesteps, self.config.steps_offset
        spacing = self.config.timestep_spacing or self.spacing
        if spacing == "linspace":
            values = spaced(0.0, count - 1.0, steps)[::-1]
            return [float(round(each)) for each in values] if whole else values
        if spacing == "leading":
            return [float(number * (count // steps) + offset) for number in range(steps)][::-1]
        if spacing == "trailing":
            return [float(round(count - number * count / steps) - 1) for number in range(steps)]
        raise ValueError(f'timestep_spacing "{spacing}" is unknown; known are: linspace, leading, trailing')

    def scale_model_input(self, sample: Tensor, index: int) -> Tensor:
        """Return what the network is given at step number ``index``."""
        return sample

    def step(self, output: Tensor, index: int, sample: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the images after step number ``index``.

        Args:
            output: what the network said.
            index: number of the step, from 0 on.
            sample: the images before the step.
            generator: draws new noise, for schedulers that add some.
        """
        raise NotImplementedError

    def add_noise(self, original: Tensor, noise: Tensor, index: int) -> Tensor:
        """Return images with as much noise as they have before step number ``index``."""
        left = self.alphas[int(self.timesteps[index])]
        return left**0.5 * original + (1 - left) ** 0.5 * noise

    def _original(self, output: Tensor, sample: Tensor, alpha: float, sigma: float) -> Tensor:
        """Return the image that the network sees in ``sample = alpha * image + sigma * noise``."""
        kind = self.config.prediction_type
        if kind == "sample":
            original = output
        elif kind == "epsilon":
            original = (sample - sigma * output) / alpha
        else:
            original = alpha * sample - sigma * output
        clips = self.config.clip_sample
        if self.clips if clips is None else clips:
            original = original.clamp(-self.config.clip_sample_range, self.config.clip_sample_range)
        return original


class SigmaScheduler(Scheduler):
    """A scheduler that counts noise in deviations of an image that is not scaled down (Karras et al., 2022).

    Attributes:
        sigmas: before each step, and after the last one.
    """

    spacing = "linspace"
    #: whether steps may lie between training steps
    between: ClassVar[bool] = True

    def __init__(self, config: SchedulerConfig | None = None, **options: Any) -> None:
        super().__init__(config, **options)
        if self.config.rescale_betas_zero_snr:
            # A deviation without end has no use.
            self.alphas[-1] = 2.0**-24
        self.sigmas: list[float] = []

    def chosen_steps(self, steps: int) -> list[float]:
        """Return training steps, and note their noise."""
        table = [((1 - each) / each) ** 0.5 for each in self.alphas]
        timesteps = self._spread(steps, whole=not self.between)
        sigmas = [_interpolated(table, each) for each in timesteps]
        if self.config.use_karras_sigmas or self.config.use_exponential_sigmas:
            sigmas = self._curve(self._ends(sigmas, table), steps)
            logarithms = [math.log(each) for each in table]
            timesteps = [_position(logarithms, math.log(max(each, 1e-10))) for each in sigmas]
            timesteps = self._settled(timesteps)
        last = {"zero": 0.0, "sigma_min": table[0]}.get(self.config.final_sigmas_type)
        if last is None:
            kind = self.config.final_sigmas_type
            raise ValueError(f'final_sigmas_type "{kind}" is unknown; known are: zero, sigma_min')
        self.sigmas = [*sigmas, last]
        return timesteps

    def _ends(self, sigmas: list[float], table: list[float]) -> tuple[float, float]:
        return sigmas[0], sigmas[-1]

    def _settled(self, timesteps: list[float]) -> list[float]:
        return timesteps

    def _curve(self, ends: tuple[float, float], steps: int) -> list[float]:
        largest, smallest = ends
        if self.config.use_exponential_sigmas:
            return [math.exp(each) for each in spaced(math.log(largest), math.log(smallest), steps)]
        # Karras et al. (2022), equation 5.
        return [each**7 for each in spaced(largest ** (1 / 7), smallest ** (1 / 7), steps)]

    def add_noise(self, original: Tensor, noise: Tensor, index: int) -> Tensor:
        """Return images with as much noise as they have before step number ``index``."""
        return original + self.sigmas[index] * noise


def _interpolated(table: list[float], position: float) -> float:
    low = min(max(int(position), 0), len(table) - 1)
    high = min(low + 1, len(table) - 1)
    return table[low] + (table[high] - table[low]) * (position - low)


def _position(ascending: list[float], value: float) -> float:
    """Return where a value lies between the entries of a table, as a number of entries."""
    low = max(sum(each <= value for each in ascending) - 1, 0)
    low = min(low, len(ascending) - 2)
    weight = (ascending[low] - value) / (ascending[low] - ascending[low + 1])
    return low + min(max(weight, 0.0), 1.0)


def noise_like(sample: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return normal noise of a sample's shape and type, drawn where the generator lives."""
    device = sample.device if generator is None else generator.device
    return torch.randn(sample.shape, generator=generator, device=device, dtype=sample.dtype).to(sample.device)
