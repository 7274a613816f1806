"""Images as networks read them: resized, cut and normalised, as preprocessor_config.json says it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_models.config import JsonConfig
from webgpu_torch_models.images import pillow, pixels

if TYPE_CHECKING:
    from PIL.Image import Image

_HALF, _CLIP_MEAN = [0.5, 0.5, 0.5], [0.48145466, 0.4578275, 0.40821073]
_CLIP_DEVIATION = [0.26862954, 0.26130258, 0.27577711]
_CLIP = {"do_center_crop": True, "image_mean": _CLIP_MEAN, "image_std": _CLIP_DEVIATION, "size": {"shortest_edge": 224}}
#: what a file need not say, by how its processor's name starts
_DEFAULTS: dict[str, dict[str, Any]] = {
    "ViT": {"resample": 2},
    "DeiT": {"do_center_crop": True, "size": {"height": 256, "width": 256}},
    "Siglip": {},
    "CLIP": _CLIP,
    "Bit": _CLIP,
}
#: those whose sizes, given as one number, are the shorter edge's
_BY_EDGE = ("CLIP", "Bit")


@dataclasses.dataclass
class ImageProcessor(JsonConfig):
    """What is done to an image, named as in preprocessor_config.json.

    Attributes:
        do_resize, size, resample: to "height" and "width", or so that the "shortest_edge" is that long, by a method of Pillow.
        do_center_crop, crop_size: to that size; what an image lacks is black.
        do_rescale, rescale_factor: multiply numbers from 0 to 255.
        do_normalize, image_mean, image_std: of each channel.
        do_convert_rgb: of images of another kind.
    """

    file_name: ClassVar[str] = "preprocessor_config.json"
    within: ClassVar[tuple[str, str]] = ("processor_config.json", "image_processor")

    do_resize: bool = True
    size: Any = dataclasses.field(default_factory=lambda: {"height": 224, "width": 224})
    resample: int = 3
    do_center_crop: bool = False
    crop_size: Any = dataclasses.field(default_factory=lambda: {"height": 224, "width": 224})
    do_rescale: bool = True
    rescale_factor: float = 1 / 255
    do_normalize: bool = True
    image_mean: list[float] = dataclasses.field(default_factory=lambda: list(_HALF))
    image_std: list[float] = dataclasses.field(default_factory=lambda: list(_HALF))
    do_convert_rgb: bool | None = None

    def __post_init__(self) -> None:
        by_edge = any(self._kind(self.extra).startswith(each) for each in _BY_EDGE)
        if isinstance(self.size, int):
            self.size = {"shortest_edge": self.size} if by_edge else {"height": self.size, "width": self.size}
        if isinstance(self.crop_size, int):
            self.crop_size = {"height": self.crop_size, "width": self.crop_size}
        for name, value, allowed in (
            ("size", self.size, ({"height", "width"}, {"shortest_edge"})),
            ("crop_size", self.crop_size, ({"height", "width"},)),
        ):
            fits = isinstance(value, dict) and {key for key in value if value[key] is not None} in allowed
            if not fits or any(type(each) is not int or each < 1 for each in value.values() if each is not None):
                raise ValueError(f"{name} is {value!r}, expected positive numbers {' or '.join(map(str, allowed))}")
        if not 0 <= self.resample <= 5:
            raise ValueError(f"resample is {self.resample}, expected the number of a method of Pillow, from 0 to 5")

    @staticmethod
    def _kind(values: dict[str, Any]) -> str:
        return str(values.get("image_processor_type") or values.get("feature_extractor_type") or "")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ImageProcessor:
        kind = cls._kind(values)
        known = next((given for name, given in _DEFAULTS.items() if kind.startswith(name)), {})
        return super().from_dict({**known, **{key: each for key, each in values.items() if each is not None}})

    def __call__(self, images: Image | str | Path | Tensor | Sequence[Image | str | Path | Tensor]) -> Tensor:
        """Return images as a network reads them, float32 [batch, channels, height, width].

        Args:
            images: one or several, each an image of Pillow, the name of a file, or a tensor uint8 [3, height, width].

        Raises:
            ImportError: Pillow is not installed.
            FileNotFoundError: there is no such file.
            ValueError: a tensor is no such image, or several images end up in different sizes.
        """
        several = images if isinstance(images, Sequence) and not isinstance(images, str) else [images]
        made = [self._one(_opened(each)) for each in several]
        sizes = {tuple(each.shape) for each in made}
        if len(sizes) > 1:
            raise ValueError(
                f"the images have different sizes, {', '.join(map(str, sorted(sizes)))}: give them one by one"
            )
        return torch.stack(made)

    def _one(self, image: Image) -> Tensor:
        image = image if image.mode == "RGB" else image.convert("RGB")
        if self.do_resize:
            image = image.resize(self._resized(image.width, image.height), resample=self.resample)
        if self.do_center_crop:
            height, width = self.crop_size["height"], self.crop_size["width"]
            # Whole pixels; where the image is smaller, half of what it lacks on each side, the larger half first.
            left, top = (image.width - width) // 2, (image.height - height) // 2
            image = image.crop((left, top, left + width, top + height))
        x = pixels(image)
        if self.do_rescale:
            x = x * self.rescale_factor
        if self.do_normalize:
            mean, deviation = torch.tensor(self.image_mean), torch.tensor(self.image_std)
            x = (x - mean[:, None, None]) / deviation[:, None, None]
        return x

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        """Return the new width and height of an image."""
        edge = self.size.get("shortest_edge")
        if edge is None:
            return self.size["width"], self.size["height"]
        return (edge, int(edge * height / width)) if width <= height else (int(edge * width / height), edge)


def _opened(image: Image | str | Path | Tensor) -> Image:
    library = pillow()
    if isinstance(image, str | Path):
        if not Path(image).is_file():
            raise FileNotFoundError(f"there is no file {image}")
        with library.open(image) as found:
            found.load()
            return found
    if not isinstance(image, Tensor):
        if not isinstance(image, library.Image):
            raise ValueError(f"expected an image of Pillow, the name of a file or a tensor, got {type(image).__name__}")
        return image
    if image.ndim != 3 or image.shape[0] != 3 or image.dtype != torch.uint8:
        raise ValueError(f"an image must be uint8 [3, height, width], got {image.dtype} {list(image.shape)}")
    data = bytes(image.permute(1, 2, 0).contiguous().flatten().tolist())
    return library.frombytes("RGB", (image.shape[2], image.shape[1]), data)
