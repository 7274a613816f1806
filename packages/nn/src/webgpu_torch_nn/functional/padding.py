"""Padding, by constants and by what the input holds."""

from __future__ import annotations

from webgpu_torch_core.api.functional import pad as pad
