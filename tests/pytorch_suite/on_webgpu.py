"""pytest plugin: PyTorch's device-generic tests are made for the device ``webgpu``, without the types that no such device has.

A class of PyTorch's own kind, as it has for CUDA or MPS, says what the device is called; types of 64-bit floating-point numbers are left
out of what tests and the database of operations ask for, as PyTorch's own lists for MPS leave them out.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.testing._internal.common_device_type as common_device_type
import torch.testing._internal.common_utils as common_utils
import torch.testing._internal.opinfo.core as opinfo

NAME = "webgpu"
#: WebGPU's shading language has no such numbers
WIDE = (torch.float64, torch.complex128)


def _has_wide(kind: object) -> bool:
    return any(each in WIDE for each in kind) if isinstance(kind, tuple | list) else kind in WIDE


class WebgpuTestBase(common_device_type.DeviceTypeTestBase):
    """What makes a class of tests one for this device."""

    device_type = NAME

    @classmethod
    def get_primary_device(cls) -> str:
        return f"{NAME}:0"

    @classmethod
    def _get_dtypes(cls, test: Any) -> Any:
        found = super()._get_dtypes(test)
        return None if found is None else tuple(each for each in found if not _has_wide(each))

    def _should_stop_test_suite(self) -> bool:
        return False


def _without_wide(name: str) -> None:
    asked = getattr(opinfo.OpInfo, name)

    def narrow(self: Any, device_type: str) -> Any:
        if device_type != NAME:
            return asked(self, device_type)
        # What no list says is as on the CPU.
        return {each for each in asked(self, "cpu") if each not in WIDE}

    setattr(opinfo.OpInfo, name, narrow)


common_device_type.device_type_test_bases.append(WebgpuTestBase)
for _module in (common_utils, common_device_type):
    _module.NATIVE_DEVICES = (*_module.NATIVE_DEVICES, NAME)
for _name in ("supported_dtypes", "supported_backward_dtypes"):
    _without_wide(_name)
