"""Models behind the HTTP interface of OpenAI: one thread computes for all requests, which share its steps."""

from __future__ import annotations

from webgpu_torch_serve.application import application as application
from webgpu_torch_serve.engine import Engine as Engine
from webgpu_torch_serve.models import CacheSizes as CacheSizes
from webgpu_torch_serve.models import Served as Served
from webgpu_torch_serve.models import load as load
from webgpu_torch_serve.server import serve as serve

__all__ = ["CacheSizes", "Engine", "Served", "application", "load", "serve"]
