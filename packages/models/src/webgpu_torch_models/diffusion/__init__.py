"""Stable Diffusion by part: schedulers, the networks, and the pipelines that join them."""

from __future__ import annotations

from webgpu_torch_models.diffusion.autoencoder import AutoencoderKL as AutoencoderKL
from webgpu_torch_models.diffusion.autoencoder import AutoencoderKLConfig as AutoencoderKLConfig
from webgpu_torch_models.diffusion.flow_matching import (
    FlowMatchEulerDiscreteScheduler as FlowMatchEulerDiscreteScheduler,
)
from webgpu_torch_models.diffusion.flow_pipelines import FluxPipeline as FluxPipeline
from webgpu_torch_models.diffusion.flow_pipelines import StableDiffusion3Pipeline as StableDiffusion3Pipeline
from webgpu_torch_models.diffusion.mmdit import FluxTransformer2DConfig as FluxTransformer2DConfig
from webgpu_torch_models.diffusion.mmdit import FluxTransformer2DModel as FluxTransformer2DModel
from webgpu_torch_models.diffusion.mmdit import SD3Transformer2DConfig as SD3Transformer2DConfig
from webgpu_torch_models.diffusion.mmdit import SD3Transformer2DModel as SD3Transformer2DModel
from webgpu_torch_models.diffusion.pipelines import DiffusionPipeline as DiffusionPipeline
from webgpu_torch_models.diffusion.schedule import Scheduler as Scheduler
from webgpu_torch_models.diffusion.schedule import SchedulerConfig as SchedulerConfig
from webgpu_torch_models.diffusion.schedulers import DDIMScheduler as DDIMScheduler
from webgpu_torch_models.diffusion.schedulers import DDPMScheduler as DDPMScheduler
from webgpu_torch_models.diffusion.schedulers import DPMSolverMultistepScheduler as DPMSolverMultistepScheduler
from webgpu_torch_models.diffusion.schedulers import EulerAncestralDiscreteScheduler as EulerAncestralDiscreteScheduler
from webgpu_torch_models.diffusion.schedulers import EulerDiscreteScheduler as EulerDiscreteScheduler
from webgpu_torch_models.diffusion.schedulers import HeunDiscreteScheduler as HeunDiscreteScheduler
from webgpu_torch_models.diffusion.schedulers import LCMScheduler as LCMScheduler
from webgpu_torch_models.diffusion.schedulers import PNDMScheduler as PNDMScheduler
from webgpu_torch_models.diffusion.schedulers import UniPCMultistepScheduler as UniPCMultistepScheduler
from webgpu_torch_models.diffusion.schedulers import scheduler_from_folder as scheduler_from_folder
from webgpu_torch_models.diffusion.stable_diffusion import StableDiffusionPipeline as StableDiffusionPipeline
from webgpu_torch_models.diffusion.unet import UNet2DConditionConfig as UNet2DConditionConfig
from webgpu_torch_models.diffusion.unet import UNet2DConditionModel as UNet2DConditionModel

__all__ = [
    "AutoencoderKL",
    "AutoencoderKLConfig",
    "DDIMScheduler",
    "DDPMScheduler",
    "DPMSolverMultistepScheduler",
    "DiffusionPipeline",
    "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler",
    "FlowMatchEulerDiscreteScheduler",
    "FluxPipeline",
    "FluxTransformer2DConfig",
    "FluxTransformer2DModel",
    "HeunDiscreteScheduler",
    "LCMScheduler",
    "PNDMScheduler",
    "SD3Transformer2DConfig",
    "SD3Transformer2DModel",
    "Scheduler",
    "SchedulerConfig",
    "StableDiffusion3Pipeline",
    "StableDiffusionPipeline",
    "UNet2DConditionConfig",
    "UNet2DConditionModel",
    "UniPCMultistepScheduler",
    "scheduler_from_folder",
]
