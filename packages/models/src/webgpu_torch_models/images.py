"""Images of programs as tensors, and back."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.operations.creation.reading import read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

    Pictures = Image | Tensor | list[Image] | tuple[Image, ...]


def pixels_of(image: Pictures, size: tuple[int, int], channels: int) -> Tensor:
    """Return images as float32 [batch, channels, height, width] from 0 to 1.

    Args:
        image: a tensor of that form, or an image (or list) of Pillow, which is resized.
        size: height and width.
        channels: 3 for colours, 1 for a mask.

    Raises:
        ValueError: a tensor has another shape.
    """
    if isinstance(image, Tensor):
        given = image if image.ndim == 4 else image.unsqueeze(0)
        if given.ndim != 4 or given.shape[1] != channels or tuple(given.shape[2:]) != size:
            wanted = ["batch", channels, *size]
            raise ValueError(f"the image must be {wanted} from 0 to 1, got {list(image.shape)}")
        return given.float()
    images = image if isinstance(image, list | tuple) else [image]
    mode = "RGB" if channels == 3 else "L"
    rows = []
    for each in images:
        fitting, wide = each.convert(mode), (size[1], size[0])
        rows.append(pixels(fitting if fitting.size == wide else fitting.resize(wide, resample=1)) / 255)
    return torch.stack(rows)


def pixels(image: Image) -> Tensor:
    """Return an image of Pillow as float32 [channels, height, width] from 0 to 255."""
    data = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return data.reshape(image.height, image.width, -1).permute(2, 0, 1).float()


def pillow() -> ModuleType:
    """Return Pillow's module of images.

    Raises:
        ImportError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('images need Pillow: pip install "webgpu-torch-models[images]"') from error
    return Image


def pillow_images(pixels: Tensor) -> list[Image]:
    """Return images of Pillow for a tensor [batch, 3, height, width] from 0 to 1.

    Raises:
        ImportError: Pillow is not installed.
    """
    bytes_of = (pixels * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu()
    height, width = pixels.shape[2:]
    return [pillow().frombytes("RGB", (width, height), bytes(read_bytes(each))) for each in bytes_of]
