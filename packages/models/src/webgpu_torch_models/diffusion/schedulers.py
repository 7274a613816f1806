"""Schedulers of diffusion by name: DDPM, DDIM, LCM, PNDM, Euler, Euler ancestral, Heun, DPM-Solver++, UniPC."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_models.config import read_json
from webgpu_torch_models.diffusion.flow_matching import FlowMatchEulerDiscreteScheduler
from webgpu_torch_models.diffusion.schedule import (
    Scheduler,
    SchedulerConfig,
    SigmaScheduler,
    noise_like,
    spaced,
)


class DDIMScheduler(Scheduler):
    """Song et al. (2020), "Denoising Diffusion Implicit Models", equation 12 without noise."""

    clips = True

    def step(self, output: Tensor, index: int, sample: Tensor, generator: torch.Generator | None = None) -> Tensor:
        now, after = self._alphas_at(index)
        original = self._original(output, sample, now**0.5, (1 - now) ** 0.5)
        if self.config.prediction_type == "epsilon":
            noise = output
        elif self.config.prediction_type == "sample":
            noise = (sample - now**0.5 * output) / (1 - now) ** 0.5
        else:
            noise = now**0.5 * output + (1 - now) ** 0.5 * sample
        return after**0.5 * original + (1 - after) ** 0.5 * noise

    def _alphas_at(self, index: int) -> tuple[float, float]:
        timestep = int(self.timesteps[index])
        return self.alphas[timestep], self._alpha(timestep - self.config.num_train_timesteps // self.steps)

    def _alpha(self, timestep: int) -> float:
        if timestep >= 0:
            return self.alphas[timestep]
        clean = self.config.set_alpha_to_one
        return 1.0 if (self.ends_clean if clean is None else clean) else self.alphas[0]


class DDPMScheduler(Scheduler):
    """Ho et al. (2020), "Denoising Diffusion Probabilistic Models", equation 7."""

    clips = True

    def step(self, output: Tensor, index: int, sample: Tensor, generator: torch.Generator | None = None) -> Tensor:
        timestep = int(self.timesteps[index])
        before = timestep - self.config.num_train_timesteps // self.steps
        now, after = self.alphas[timestep], self.alphas[before] if before >= 0 else 1.0
        ratio = now / after
        original = self._original(output, sample, now**0.5, (1 - now) ** 0.5)
        weight = after**0.5 * (1 - ratio) / (1 - now)
        result = weight * original + ratio**0.5 * (1 - after) / (1 - now) * sample
        if timestep == 0:
            return result
        return result + self._deviation(now, after, ratio) * noise_like(output, generator)

    def _deviation(self, now: float, after: float, ratio: float) -> float:
        small = max((1 - after) / (1 - now) * (1 - ratio), 1e-20)
        kinds = {"fixed_small": small, "fixed_small_log": small, "fixed_large": 1 - ratio}
        if self.config.variance_type not in kinds:
            known = ", ".join(kinds)
            raise ValueError(f'variance_type "{self.config.variance_type}" is unknown; known are: {known}')
        return kinds[self.config.variance_type] ** 0.5


class LCMScheduler(DDIMScheduler):
    """Luo et al. (2023), "Latent Consistency Models": few steps, each to the image and back."""

    clips = False
    defaults: ClassVar[dict[str, Any]] = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}

    def chosen_steps(self, steps: int) -> list[float]:
        """Return some of the steps that the network was distilled for.

        Raises:
            ValueError: there are not so many.
        """
        count = self.config.original_inference_steps
        if steps > count:
            raise ValueError(f"the number of steps must be at most original_inference_steps={count}, got {steps}")
        ratio = self.config.num_train_timesteps // count
        known = [(number + 1) * ratio - 1 for number in range(count)][::-1]
        return [float(known[number * count // steps]) for number in range(steps)]

    def step(self, output: Tensor, index: int, sample: Tensor, generator: torch.Generator | None = None) -> Tensor:
        timestep = int(self.timesteps[index])
        last = index + 1 == len(self.timesteps)
        now = self.alphas[timestep]
        after = now if last else self.alphas[int(self.timesteps[index + 1])]
        scaled, data = timestep * self.config.timestep_scaling, 0.5
        skip, out = data**2 / (scaled**2 + data**2), scaled / (scaled**2 + data**2) ** 0.5
        result = out * self._original(output, sample, now**0.5, (1 - now) ** 0.5) + skip * sample
        if last:
            return result
        return after**0.5 * result + (1 - after) ** 0.5 * noise_like(output, generator)


class PNDMScheduler(DDIMScheduler):
    """Liu et al. (2022), "Pseudo Numerical Methods": linear multistep, after Runge-Kutta steps unless these are skipped."""

    clips = False
    ends_clean = False

    def chosen_steps(self, steps: int) -> list[float]:
        """Return steps, of which the first (or the first twelve, by Runge-Kutta) are taken again."""
        plain = super().chosen_steps(steps)[::-1]
        if self.config.skip_prk_steps:
            self.early: list[float] = []
            return [*plain[:-1], *plain[-2:-1], plain[-1]][::-1]
        half = self.config.num_train_timesteps // steps // 2
        pairs = [each + offset for each in plain[-4:] for offset in (0, half)]
        self.early = [each for each in pairs[:-1] for _ in range(2)][1:-1][::-1]
        return [*self.early, *plain[:-3][::-1]]

    def reset(self) -> None:
        """Forget the last outputs."""
        self.outputs: list[Tensor] = []
        self.start: Tensor | None = None
        self.sum: Any = 0
        # Not the step's number: a run may begin in the middle.
        self.count = 0

    def step(self, output: Tensor, index: int, sample: Tensor, generator: torch.Generator | None = None) -> Tensor:
        method = self._runge_kutta if self.count < len(self.early) else self._multistep
        result = method(output, index, sample)
        self.count += 1
        return result

    def _runge_kutta(self, output: Tensor, index: int, sample: Tensor) -> Tensor:
        half = self.config.num_train_timesteps // self.steps // 2
        after = int(self.timesteps[index]) - (0 if self.count % 2 else half)
        now = int(self.early[self.count // 4 * 4])
        self.sum = self.sum + output * (1 / 6 if self.count % 4 in (0, 3) else 1 / 3)
        if self.count % 4 == 0:
            self.outputs.append(output)
            self.start = sample
        if self.count % 4 == 3:
            output, self.sum = self.sum, 0
        return self._transfer(sample if self.start is None else self.start, now, after, output)

    def _multistep(self, output: Tensor, index: int, sample: Tensor) -> Tensor:
        stride = self.config.num_train_timesteps // self.steps
        now = int(self.timesteps[index])
        after = now - stride
        if self.count == 1:
            # The first step again, by the mean of both its ends.
            now, after = now + stride, now
            output = (output + self.outputs[-1]) / 2
            sample, self.start = self.start if self.start is not None else sample, None
            return self._transfer(sample, now, after, output)
        self.outputs = [*self.outputs[-3:], output]
        if self.count == 0:
            self.start = sample
        return self._transfer(sample, now, after, self._extrapolated())

    def _extrapolated(self) -> Tensor:
        last = self.outputs[::-1]
        if len(last) == 1:
            return last[0]
        if len(last) == 2:
            return (3 * last[0] - last[1]) / 2
        if len(last) == 3:
            return (23 * last[0] - 16 * last[1] + 5 * last[2]) / 12
        return (55 * last[0] - 59 * last[1] + 37 * last[2] - 9 * last[3]) / 24

    def _transfer(self, sample: Tensor, now: int, after: int, output: Tensor) -> Tensor:
        """Return the images of another step (equation 11)."""
        left, right = self.alphas[now], self._alpha(after)
        if self.config.prediction_type == "v_prediction":
            output = left**0.5 * output + (1 - left) ** 0.5 * sample
        below = left * (1 - right) ** 0.5 + (left * (1 - left) * right) ** 0.5
        return (right / left) ** 0.5 * sample - (right - left) / below * output


class EulerDiscreteScheduler(SigmaScheduler):
    """Karras et al. (2022), algorithm 2 without added noise: Euler's method."""

    @property
    def init_noise_sigma(self) -> float:  # type: ignore[override]
        """What noise is multiplied by to start from."""
        largest = max(self.sigmas)
        spacing = self.config.timestep_spacing or self.spacing
        return largest if spacing in ("linspace", "trailing") else (largest**2 + 1) ** 0.5

    def scale_model_input(self, sample: Tensor, index: int) -> Tensor:
        return sample / (self.sigmas[index] ** 2 + 1) ** 0.5

    def step(self, output: Tensor, index: int, sample: Tensor, generator: torch.Generator | None = None) -> Tensor:
        sigma = self.sigmas[index]
        slope = self._slope(output, sample.float(), sigma)
        return (sample.float() + slope * (self.sigmas[index + 1] - sigma)).to(output.dtype)

    def _slope(self, output: Tensor, sample: Tensor, sigma: float) -> Tensor:
        """Return ``(sample - image) / sigma`` for the image that the network sees in ``sample = image + sigma * noise``."""
        scale = 1 / (sigma**2 + 1) ** 0.5
        original = self._original(output, sample * scale, scale, sigma * scale)
        return (sample - original) / sigma


class EulerAncestralDiscreteScheduler(EulerDiscreteScheduler):
    """Euler's method that goes too far and adds new noise."""

    def step(self, output: Tensor, index: int, sample: Tensor, generator: torch.Generator | None = None) -> Tensor:
        sigma, after = self.sigmas[index], self.sigmas[index + 1]
        up = (after**2 * (sigma**2 - after**2) / sigma**2) ** 0.5
        down = (after**2 - up**2) ** 0.5
        slope = self._slope(output, sample.float(), sigma)
        result = sample.float() + slope * (down - sigma) + noise_like(output, generator) * up
        return result.to(output.dtype)


class HeunDiscreteScheduler(EulerDiscreteScheduler):
    """Karras et al. (2022), algorithm 1: each step is taken again with the mean of the slopes at both its ends."""

    def chosen_steps(self, steps: int) -> list[float]:
        """Return every step but the first twice."""
        timesteps = super().chosen_steps(steps)
        inner = [each for each in self.sigmas[1:-1] for _ in range(2)]
        self.sigmas = [self.sigmas[0], *inner, self.sigmas[-1]]
        return [timesteps[0], *(each for each in timesteps[1:] for _ in range(2))]

    def reset(self) -> None:
        """Forget the first half of a step."""
        self.start: tuple[Tensor, Tensor, float] | None = None

    def step(self, output: Tensor, index: int, sample: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if self.start is None:
            sigma = self.sigmas[index]
            slope, length = self._slope(output, sample, sigma), self.sigmas[index + 1] - sigma
            self.start = sample, slope, length
            return sample + slope * length
        begin, first, length = self.start
        self.start = None
        return begin + (first + self._slope(output, sample, self.sigmas[index])) / 2 * length


class _LogarithmicScheduler(SigmaScheduler):
    """Multistep methods in the logarithm of the ratio of signal to noise."""

    between = False

    def _spread(self, steps: int, whole: bool = True) -> list[float]:
        count, offset = self.config.num_train_timesteps, self.config.steps_offset
        spacing = self.config.timestep_spacing or self.spacing
        if spacing == "linspace":
            return [float(round(each)) for each in spaced(0.0, count - 1.0, steps + 1)[::-1][:-1]]
        if spacing == "leading":
            return [float(number * (count // (steps + 1)) + offset) for number in range(steps + 1)][::-1][:-1]
        return super()._spread(steps, whole)

    def _ends(self, sigmas: list[float], table: list[float]) -> tuple[float, float]:
        return table[-1], table[0]

    def _settled(self, timesteps: list[float]) -> list[float]:
        whole = self.config.beta_schedule != "squaredcos_cap_v2"
        return [float(round(each)) if whole else float(int(each)) for each in timesteps]

    def reset(self) -> None:
        """Forget the last images seen."""
        self.seen: list[Tensor] = []

    def _parts(self, index: int) -> tuple[float, float, float]:
        """Return the factors of image and noise before a step, and the logarithm of their ratio."""
        sigma = self.sigmas[index]
        alpha = 1 / (sigma**2 + 1) ** 0.5
        return alpha, sigma * alpha, -math.log(sigma) if sigma else math.inf

    def add_noise(self, original: Tensor, noise: Tensor, index: int) -> Tensor:
        alpha, sigma, _ = self._parts(index)
        return alpha * original + sigma * noise


class DPMSolverMultistepScheduler(_LogarithmicScheduler):
    """Lu et al. (2022), "DPM-Solver++", of first and second order, as an ordinary or a stochastic equation."""

    def __init__(self, config: SchedulerConfig | None = None, **options: Any) -> None:
        super().__init__(config, **options)
        if self.config.algorithm_type not in ("dpmsolver++", "sde-dpmsolver++"):
            raise ValueError(
                f'algorithm_type "{self.config.algorithm_type}" is not here: dpmsolver++, sde-dpmsolver++ are'
            )
        if self.config.solver_order not in (1, 2):
            raise ValueError(f"solver_order must be 1 or 2, got {self.config.solver_order}")
        if self.config.solver_type not in (None, "midpoint", "heun"):
            raise ValueError(f'solver_type "{self.config.solver_type}" is unknown; known are: midpoint, heun')

    def step(self, output: Tensor, index: int, sample: Tensor, generator: torch.Generator | None = None) -> Tensor:
        alpha, sigma, before = self._parts(index)
        image = self._original(output, sample, alpha, sigma)
        self.seen = [*self.seen[-1:], image]
        alpha, after, reached = self._parts(index + 1)
        distance = reached - before
        stochastic = self.config.algorithm_type.startswith("sde")
        decay = math.exp(-distance) if distance < math.inf else 0.0
        keep = after / sigma * (decay if stochastic else 1.0)
        weight = alpha * (1 - decay**2 if stochastic else 1 - decay)
        result = keep * sample.float() + weight * image
        if self._order(index) == 2:
            result = result + self._second(index, before, distance, decay, alpha, weight, stochastic)
        if stochastic:
            result = result + after * (1 - decay**2) ** 0.5 * noise_like(image.float(), generator)
        return result.to(output.dtype)

    def _second(
        self, index: int, before: float, distance: float, decay: float, alpha: float, weight: float, stochastic: bool
    ) -> Tensor:
        difference = (self.seen[1] - self.seen[0]) * (distance / (before - self._parts(index - 1)[2]))
        if self.config.solver_type != "heun":
            return 0.5 * weight * difference
        if stochastic:
            return alpha * ((1 - decay**2) / (-2 * distance) + 1) * difference
        return alpha * ((decay - 1) / distance + 1) * difference

    def _order(self, index: int) -> int:
        few = self.config.lower_order_final and self.steps < 15
        final = index == self.steps - 1 and (
            self.config.euler_at_final or few or self.config.final_sigmas_type == "zero"
        )
        return 1 if self.config.solver_order == 1 or len(self.seen) < 2 or final else 2


class UniPCMultistepScheduler(_LogarithmicScheduler):
    """Zhao et al. (2023), "UniPC": a predictor, and a corrector that uses the next step's output, too."""

    def __init__(self, config: SchedulerConfig | None = None, **options: Any) -> None:
        super().__init__(config, **options)
        if self.config.solver_type not in (None, "bh1", "bh2"):
            raise ValueError(f'solver_type "{self.config.solver_type}" is unknown; known are: bh1, bh2')

    def reset(self) -> None:
        """Forget the last images seen, and where the last step began."""
        super().reset()
        self.last: Tensor | None = None
        self.order = 0

    def step(self, output: Tensor, index: int, sample: Tensor, generator: torch.Generator | None = None) -> Tensor:
        alpha, sigma, _ = self._parts(index)
        image = self._original(output, sample, alpha, sigma)
        if self.last is not None:
            sample = self._update(self.last, index - 1, self.order, image)
        limit = self.config.solver_order
        known = min(len(self.seen) + 1, limit)
        self.seen = [*self.seen, image][-limit:]
        self.order = min(limit, self.steps - index, known) if self.config.lower_order_final else known
        self.last = sample
        return self._update(sample, index, self.order, None)

    def _update(self, sample: Tensor, index: int, order: int, corrected: Tensor | None) -> Tensor:
        """Return the images after step ``index``, with what the network saw there if that is known already."""
        _, sigma, before = self._parts(index)
        alpha, after, reached = self._parts(index + 1)
        distance = reached - before
        ratios = [(self._parts(index - number)[2] - before) / distance for number in range(1, order)]
        image = self.seen[-1]
        slopes = [(self.seen[-number - 1] - image) / ratio for number, ratio in enumerate(ratios, 1)]
        growth = math.expm1(-distance) if distance < math.inf else -1.0
        result = after / sigma * sample - alpha * growth * image
        if corrected is None and not slopes:
            return result
        base = -distance if self.config.solver_type == "bh1" else growth
        weights = self._weights([*ratios, 1.0], -distance, growth, base, predictor=corrected is None)
        for weight, slope in zip(weights, slopes, strict=False):
            result = result - alpha * base * weight * slope
        return result if corrected is None else result - alpha * base * weights[-1] * (corrected - image)

    @staticmethod
    def _weights(ratios: list[float], distance: float, growth: float, base: float, predictor: bool) -> list[float]:
        order = len(ratios)
        if order == 1 or (predictor and order == 2):
            return [0.5]
        rows, right = [], []
        term, factorial = growth / distance - 1, 1.0
        for number in range(1, order + 1):
            rows.append([each ** (number - 1) for each in ratios])
            right.append(term * factorial / base)
            factorial *= number + 1
            term = term / distance - 1 / factorial
        if predictor:
            rows, right = [row[:-1] for row in rows[:-1]], right[:-1]
        return _solved(rows, right)


def _solved(rows: list[list[float]], right: list[float]) -> list[float]:
    """Solve a small system of linear equations by elimination."""
    size = len(right)
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for pivot in range(size):
        best = max(range(pivot, size), key=lambda row: abs(table[row][pivot]))
        table[pivot], table[best] = table[best], table[pivot]
        for row in range(size):
            if row != pivot:
                factor = table[row][pivot] / table[pivot][pivot]
                table[row] = [one - factor * other for one, other in zip(table[row], table[pivot], strict=True)]
    return [table[row][-1] / table[row][row] for row in range(size)]


SCHEDULERS: dict[str, type[Scheduler]] = {
    each.__name__: each
    for each in (
        DDIMScheduler,
        DDPMScheduler,
        DPMSolverMultistepScheduler,
        EulerAncestralDiscreteScheduler,
        EulerDiscreteScheduler,
        FlowMatchEulerDiscreteScheduler,
        HeunDiscreteScheduler,
        LCMScheduler,
        PNDMScheduler,
        UniPCMultistepScheduler,
    )
}


def scheduler_from_folder(folder: str | Path) -> Scheduler:
    """Return the scheduler that a folder's scheduler_config.json describes.

    Raises:
        FileNotFoundError: the folder has no such file.
        ValueError: the class it names is not here.
    """
    path = Path(folder) / SchedulerConfig.file_name
    values = read_json(path)
    name = values.get("_class_name")
    if name not in SCHEDULERS:
        raise ValueError(f'{path}: _class_name is "{name}"; supported are: {", ".join(SCHEDULERS)}')
    return SCHEDULERS[name](**values)
