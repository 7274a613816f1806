"""Walks every scheduler of diffusers for a few steps; the same walk under either torch.

    python tests/huggingface/scheduler_walks.py write FILE
    python tests/huggingface/scheduler_walks.py compare FILE DEVICE RESULTS

``write`` records PyTorch's samples after each step; ``compare`` takes the walks with this library as torch and writes
each walk's largest difference, relative to the largest magnitude of PyTorch's sample (at least 1).
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("DIFFUSERS_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.simplefilter("ignore")

STEPS, SHAPE, CLASSES, TOKENS = 6, (2, 4, 8, 8), 12, 16
#: before a walk's name in files: the times at which it asked for Brownian paths
TIMES = "times of "

#: what each option of a scheduler is also tried as, one at a time, beside the defaults
VARIANTS: dict[str, tuple[Any, ...]] = {
    "algorithm_type": ("sde-dpmsolver++", "sde-dpmsolver", "dpmsolver"),
    "beta_schedule": ("squaredcos_cap_v2", "scaled_linear", "sigmoid"),
    "clip_sample": (True,),
    "euler_at_final": (True,),
    "final_sigmas_type": ("sigma_min",),
    "prediction_type": ("v_prediction", "sample", "flow_prediction"),
    "rescale_betas_zero_snr": (True,),
    "solver_order": (1, 3),
    "solver_type": ("heun", "bh1"),
    "stochastic_sampling": (True,),
    "thresholding": (True,),
    "timestep_spacing": ("linspace", "leading", "trailing"),
    "use_beta_sigmas": (True,),
    "use_dynamic_shifting": (True,),
    "use_exponential_sigmas": (True,),
    "use_karras_sigmas": (True,),
    "use_lu_lambdas": (True,),
    "variance_type": ("fixed_large", "fixed_small", "learned_range"),
}

#: arguments that a constructor cannot do without, or whose defaults are too large for a test
NEEDED: dict[str, dict[str, Any]] = {
    "AmusedScheduler": {"mask_token_id": CLASSES},
    "BlockRefinementScheduler": {"block_length": TOKENS},
    "HeliosDMDScheduler": {"stages": 1, "stage_range": [0, 1]},
    "HeliosScheduler": {"stages": 1, "stage_range": [0, 1]},
    "PiflowScheduler": {"n_grid": 2, "num_policy_substeps": 4},
    "RFD4ProteinaScheduler": {
        "schedule_mode": "log",
        "noise_mode": "1/t",
        "tsr_k": 1.5,
        "tsr_sigma": 0.5,
        "tail_steps": 3,
        "tail_step_multiplier": 2,
    },
    "VQDiffusionScheduler": {"num_vec_classes": CLASSES + 1},
}

#: schedulers that do not take any number of steps
STEPS_OF = {"ConsistencyDecoderScheduler": 2, "SCMScheduler": 2}


def classes() -> dict[str, Any]:
    """Return every scheduler class of the installed diffusers that can be imported here."""
    import diffusers.schedulers as schedulers

    found = {}
    for name in sorted({name for each in schedulers._import_structure.values() for name in each}):
        try:
            kind = getattr(schedulers, name)
        except (ImportError, AttributeError, RuntimeError):
            continue
        # Stand-ins for what lacks a library have no steps of their own.
        if inspect.isclass(kind) and hasattr(kind, "set_timesteps") and not hasattr(kind, "_backends"):
            found[name] = kind
    return found


def cases() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return every walk by name: a scheduler's class and the options it is made with."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    for name, kind in classes().items():
        known, needed = inspect.signature(kind.__init__).parameters, NEEDED.get(name, {})
        found[name] = (kind, needed)
        for option, values in VARIANTS.items():
            for value in values if option in known else ():
                if value != known[option].default:
                    found[f"{name} {option}={value}"] = (kind, needed | {option: value})
    return found


class Paths:
    """Brownian paths, whose numbers are drawn on the CPU as all others of a walk, and the times they were asked for.

    A path is nowhere smooth: at times that are a last place of float32 apart it differs by the root of that. So walks that are
    compared ask at PyTorch's times, ``known``, where their own agree with these up to a few last places.
    """

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.known: list[float] | None = None
        try:
            from diffusers.schedulers.scheduling_dpmsolver_sde import BrownianTreeNoiseSampler as Sampler
        except ImportError:
            return
        make, draw = Sampler.__init__, Sampler.__call__

        def made(sampler: Any, x: Any, sigma_min: Any, sigma_max: Any, *more: Any, **options: Any) -> None:
            make(sampler, x.cpu(), self.time(sigma_min), self.time(sigma_max), *more, **options)
            sampler.device = x.device

        def drawn(sampler: Any, sigma: Any, sigma_next: Any) -> Any:
            return draw(sampler, self.time(sigma), self.time(sigma_next)).to(sampler.device)

        Sampler.__init__, Sampler.__call__ = made, drawn

    def begin(self, known: list[float] | None = None) -> None:
        """Begin a walk."""
        self.asked, self.known = [], known

    def time(self, own: Any) -> float:
        """Return the time to ask at.

        Raises:
            ValueError: the walk's own is another than PyTorch's.
        """
        time = float(own) if self.known is None else self.known[len(self.asked)]
        if abs(time - float(own)) > 2e-6 * abs(time):
            raise ValueError(f"a time of {float(own)} instead of {time}")
        self.asked.append(time)
        return time


class Walk:
    """One scheduler, the numbers it is given and the samples it returns."""

    def __init__(self, torch: Any, scheduler: Any, device: str) -> None:
        self.torch, self.scheduler, self.device = torch, scheduler, device
        self.random = np.random.default_rng(0)
        self.generator = torch.Generator("cpu").manual_seed(0)

    def normal(self, *shape: int) -> Any:
        """Return a tensor of normal numbers."""
        return self.torch.tensor(self.random.standard_normal(shape).astype(np.float32)).to(self.device)

    def predict(self, sample: Any) -> Any:
        """Return what a model would say of a sample."""
        return 0.3 * sample + 0.1 * self.normal(*sample.shape)

    def set_timesteps(self, **options: Any) -> Any:
        """Set the steps, and return their times."""
        known = inspect.signature(self.scheduler.set_timesteps).parameters
        if "mu" in known and getattr(self.scheduler.config, "use_dynamic_shifting", False):
            options["mu"] = 0.8
        steps = STEPS_OF.get(type(self.scheduler).__name__, STEPS)
        self.scheduler.set_timesteps(steps, device=self.device, **options)
        return self.scheduler.timesteps

    def step(self, *given: Any, method: str = "step", **options: Any) -> Any:
        """Call a step with the generator, where it takes one, and return what it returns."""
        call = getattr(self.scheduler, method)
        if "generator" in inspect.signature(call).parameters:
            options["generator"] = self.generator
        return call(*given, **options)


def _usual(walk: Walk) -> Iterator[Any]:
    times = walk.set_timesteps()
    sample = walk.normal(*SHAPE) * getattr(walk.scheduler, "init_noise_sigma", 1.0)
    for time in times:
        scaled = (
            walk.scheduler.scale_model_input(sample, time) if hasattr(walk.scheduler, "scale_model_input") else sample
        )
        output = walk.predict(scaled)
        if str(getattr(walk.scheduler.config, "variance_type", None)).startswith("learned"):
            output = walk.torch.cat([output, walk.normal(*SHAPE).tanh()], dim=1)
        sample = walk.step(output, time, sample).prev_sample
        yield sample


def _one_time_each(walk: Walk) -> Iterator[Any]:
    """A scheduler that wants the time of every sample, and has one time more than steps; so has SCM."""
    sample, times = walk.normal(*SHAPE), walk.set_timesteps()
    for time in times[:-1]:
        given = time.expand(SHAPE[0]) if type(walk.scheduler).__name__ == "DDPMWuerstchenScheduler" else time
        sample = walk.step(walk.predict(sample), given, sample).prev_sample
        yield sample


def _cog_video(walk: Walk) -> Iterator[Any]:
    sample, old, before = walk.normal(*SHAPE), None, None
    for time in walk.set_timesteps():
        sample, old = walk.step(walk.predict(sample), old, time, before, sample)
        before = time
        yield sample


def _karras_ve(walk: Walk) -> Iterator[Any]:
    scheduler, times = walk.scheduler, walk.set_timesteps()
    sample = walk.normal(*SHAPE) * scheduler.init_noise_sigma
    for time in times:
        sigma, before = scheduler.schedule[time], scheduler.schedule[time - 1] if time > 0 else 0
        moved, sigma_hat = scheduler.add_noise_to_input(sample, sigma, generator=walk.generator)
        result = walk.step(walk.predict(moved), sigma_hat, before, moved)
        if before != 0:
            again = walk.predict(result.prev_sample)
            result = walk.step(
                again, sigma_hat, before, moved, result.prev_sample, result["derivative"], method="step_correct"
            )
            sample = result[0] if isinstance(result, tuple) else result.prev_sample
        else:
            sample = result.prev_sample
        yield sample


def _score_ve(walk: Walk) -> Iterator[Any]:
    walk.set_timesteps()
    walk.scheduler.set_sigmas(STEPS)
    sample = walk.normal(*SHAPE) * walk.scheduler.init_noise_sigma
    for time in walk.scheduler.timesteps:
        sample = walk.step(walk.predict(sample), sample, method="step_correct").prev_sample
        sample = walk.step(walk.predict(sample), time, sample, method="step_pred").prev_sample
        yield sample


def _score_vp(walk: Walk) -> Iterator[Any]:
    sample = walk.normal(*SHAPE)
    for time in walk.set_timesteps():
        sample, mean = walk.step(walk.predict(sample), sample, time, method="step_pred")
        yield mean


def _repaint(walk: Walk) -> Iterator[Any]:
    walk.scheduler.set_timesteps(STEPS, jump_length=2, jump_n_sample=2, device=walk.device)
    image, mask = walk.normal(*SHAPE).tanh(), (walk.normal(SHAPE[0], 1, *SHAPE[2:]) > 0).float()
    sample, before = walk.normal(*SHAPE), walk.scheduler.timesteps[0] + 1
    for time in walk.scheduler.timesteps:
        if time < before:
            sample = walk.step(walk.predict(sample), time, sample, image, mask).prev_sample
        else:
            sample = walk.step(sample, before, method="undo_step")
        before = time
        yield sample


def _piflow(walk: Walk) -> Iterator[Any]:
    sample = walk.normal(2, TOKENS, 4)
    for time in walk.set_timesteps():
        output = walk.torch.cat([walk.predict(sample), walk.predict(sample)], dim=-1)
        sample = walk.step(output, time, sample).prev_sample
        yield sample


def _proteina(walk: Walk) -> Iterator[Any]:
    walk.generator = [walk.torch.Generator("cpu").manual_seed(each) for each in range(2)]
    sample, mask = walk.normal(2, TOKENS, 3), walk.normal(2, TOKENS) > -1
    for time in walk.set_timesteps():
        sample = walk.step(walk.predict(sample), time, sample, mask).prev_sample
        yield sample


def _helios(walk: Walk) -> Iterator[Any]:
    sample, times = walk.normal(1, 4, 2, 4, 4), walk.set_timesteps(stage_index=0)
    extra: dict[str, Any] = {}
    for index, time in enumerate(times):
        if type(walk.scheduler).__name__ == "HeliosDMDScheduler":
            extra = {"cur_sampling_step": index, "dmd_noisy_tensor": walk.normal(*sample.shape), "all_timesteps": times}
            extra |= {"dmd_sigmas": walk.scheduler.sigmas, "dmd_timesteps": walk.scheduler.timesteps}
        sample = walk.step(walk.predict(sample), time, sample, **extra).prev_sample
        yield sample


def _tokens(walk: Walk) -> Iterator[Any]:
    """Schedulers of tokens: logits over classes last, or before the places for the vector-quantised one."""
    name = type(walk.scheduler).__name__
    start = {"AmusedScheduler": CLASSES, "VQDiffusionScheduler": CLASSES, "BlockRefinementScheduler": 0}.get(name)
    drawn = walk.random.integers(0, CLASSES, (2, TOKENS))
    sample = walk.torch.tensor(np.full((2, TOKENS), start) if start is not None else drawn).to(walk.device)
    options = {"mask_token_id": 0} if name == "BlockRefinementScheduler" else {}
    for time in walk.set_timesteps():
        if name == "VQDiffusionScheduler":
            logits = walk.normal(2, CLASSES, TOKENS).log_softmax(dim=1)
        else:
            logits = walk.normal(2, TOKENS, CLASSES)
        sample = walk.step(logits, time, sample, **options).prev_sample
        yield sample
        if name == "DiscreteDDIMScheduler" and time < STEPS - 1:
            sample = walk.step(walk.normal(2, TOKENS, CLASSES), time, sample, method="step_correct").prev_sample
            yield sample


WALKS: dict[str, Callable[[Walk], Iterator[Any]]] = {
    "AmusedScheduler": _tokens,
    "BlockRefinementScheduler": _tokens,
    "CogVideoXDPMScheduler": _cog_video,
    "DDPMWuerstchenScheduler": _one_time_each,
    "DiscreteDDIMScheduler": _tokens,
    "EntropyBoundScheduler": _tokens,
    "HeliosDMDScheduler": _helios,
    "HeliosScheduler": _helios,
    "KarrasVeScheduler": _karras_ve,
    "PiflowScheduler": _piflow,
    "RFD4ProteinaScheduler": _proteina,
    "RePaintScheduler": _repaint,
    "SCMScheduler": _one_time_each,
    "ScoreSdeVeScheduler": _score_ve,
    "ScoreSdeVpScheduler": _score_vp,
    "VQDiffusionScheduler": _tokens,
}


def walked(torch: Any, name: str, case: tuple[Any, dict[str, Any]], device: str) -> np.ndarray:
    """Return the samples after every step, one above the other.

    Raises:
        RuntimeError: the scheduler took no step.
    """
    kind, options = case
    torch.manual_seed(0)
    walk = Walk(torch, kind(**options), device)
    samples = list(WALKS.get(name.partition(" ")[0], _usual)(walk))
    if not samples:
        raise RuntimeError("no steps")
    return np.stack([each.detach().cpu().double().numpy() for each in samples])


def _explain(error: Exception) -> str:
    if os.environ.get("SHOW_TRACEBACKS"):
        traceback.print_exc()
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (f"{type(error).__name__}: {error}".splitlines() or [""])[0][
        :300
    ] + f" ({Path(last.filename).name}:{last.lineno})"


def write(target: Path, names: str) -> None:
    """Write PyTorch's walks, and beside them the reasons why some cannot be taken."""
    import torch

    found, failed, paths = {}, {}, Paths()
    chosen = {name: case for name, case in cases().items() if re.search(names, name)}
    for name, case in chosen.items():
        paths.begin()
        try:
            samples = walked(torch, name, case, "cpu")
        except Exception as error:
            failed[name] = _explain(error)
            continue
        if np.isfinite(samples).all():
            found |= {name: samples, TIMES + name: np.array(paths.asked)}
        else:
            failed[name] = "PyTorch's samples are not finite"
    np.savez(target, **found)
    target.with_suffix(".json").write_text(json.dumps(failed, indent=1))


def compare(source: Path, device: str, target: Path, names: str) -> None:
    """Take PyTorch's walks with this library, and write the largest difference of each, or why there is none."""
    import webgpu_torch

    webgpu_torch.install_as_torch()
    import torch

    every, results, paths = cases(), {}, Paths()
    with np.load(source) as wanted:
        for name in wanted.files:
            if name.startswith(TIMES) or not re.search(names, name):
                continue
            paths.begin(wanted[TIMES + name].tolist())
            try:
                found = walked(torch, name, every[name], device)
                scale = max(1.0, float(np.abs(wanted[name]).max()))
                same = found.shape == wanted[name].shape
                results[name] = {"difference": float(np.abs(found - wanted[name]).max()) / scale if same else 1e9}
            except Exception as error:
                results[name] = {"error": _explain(error)}
    target.write_text(json.dumps(results, indent=1))


def main() -> None:
    """Write or compare, as the command line says; the last word may be an expression that the walks' names match."""
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
    else:
        compare(Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), sys.argv[5] if len(sys.argv) > 5 else "")


if __name__ == "__main__":
    main()
