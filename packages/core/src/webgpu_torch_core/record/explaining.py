"""What ``WEBGPU_TORCH_DEBUG`` prints of plans."""

from __future__ import annotations

import sys

from .. import config
from ..backend.interface import Copy, Device, Plan
from ..scheduling.domain import groups


def explain(device: Device, plan: Plan) -> None:
    """Print a new plan's kernels (level 3) and their source (level 4)."""
    level = config.DEBUG.number(0)
    for number, step in enumerate(plan.steps if level >= 3 else ()):
        if isinstance(step, Copy):
            print(f"{device.name}: step {number}: copy of {step.nbytes} bytes", file=sys.stderr)
            continue
        domain = " ".join(str(group) for group in groups(step.kernel))
        shown = f"{step.kernel.form} '{step.kernel.name}' over {domain}"
        print(f"{device.name}: step {number}: {shown}, buffers {step.operands} -> {step.outputs}", file=sys.stderr)
        if level >= 4:
            print(device.source(step.kernel), file=sys.stderr)
