"""What Python says to the page that runs it: progress, plots and pictures."""

from __future__ import annotations

import builtins
import importlib
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from webgpu_torch_core import Tensor


class _Answer(Protocol):
    """What Pyodide's ``pyfetch`` gives."""

    def raise_for_status(self) -> None: ...

    async def json(self) -> list[str]: ...

    async def bytes(self) -> builtins.bytes: ...


def say(**message: object) -> None:
    """Hand a message to the page; ``kind`` says which of its parts it is for.

    Raises:
        RuntimeError: Python does not run in a page.
    """
    if sys.platform != "emscripten":
        raise RuntimeError("plots and pictures are drawn by the playground's page: run it by 'webgpu-torch web serve'")
    importlib.import_module("js").page.say(json.dumps(message))


async def fetch_model(address: str = "model/") -> Path:
    """Return the folder, in the page's memory, of a model that the site brings: ``webgpu-torch web serve --model FOLDER``.

    Raises:
        RuntimeError: Python does not run in a page.
        OSError: the site brings no model.
    """
    if sys.platform != "emscripten":
        raise RuntimeError("a site's model is fetched by its pages; elsewhere its folder can be read")
    fetch = importlib.import_module("pyodide.http").pyfetch
    folder = Path(tempfile.mkdtemp())
    for name in await (await _answered(fetch, f"{address}files.json")).json():
        (folder / name).write_bytes(await (await _answered(fetch, address + name)).bytes())
    return folder


async def _answered(fetch: Callable[[str], Awaitable[_Answer]], address: str) -> _Answer:
    answer = await fetch(address)
    answer.raise_for_status()
    return answer


def _numbers(values: Sequence[float] | Tensor) -> list[float]:
    found = values.tolist() if hasattr(values, "tolist") else values  # type: ignore[union-attr]
    return [float(each) for each in found]


def plot(values: Sequence[float] | Tensor, *, x: Sequence[float] | Tensor | None = None, name: str = "plot") -> None:
    """Draw a line through values (at ``x``, else at 0, 1, 2, …) below the output.

    Called again with the same name it draws the same plot anew: a curve that grows while a network trains.

    Raises:
        ValueError: ``x`` and ``values`` are of different lengths.
        RuntimeError: Python does not run in a page.
    """
    heights = _numbers(values)
    places = [float(each) for each in range(len(heights))] if x is None else _numbers(x)
    if len(places) != len(heights):
        raise ValueError(f"{len(heights)} values at {len(places)} places: they must be as many")
    say(kind="plot", name=name, x=places, y=heights)


def show(image: Tensor, *, name: str = "image", low: float | None = None, high: float | None = None) -> None:
    """Draw a matrix ``[height, width]`` in greys, or ``[height, width, 3]`` in colours, between ``low`` and ``high``.

    Raises:
        ValueError: the tensor has another shape.
        RuntimeError: Python does not run in a page.
    """
    shape = tuple(image.shape)
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] != 3):
        raise ValueError(f"an image is [height, width] or [height, width, 3], not {list(shape)}")
    numbers = _numbers(image.detach().float().flatten())
    least = min(numbers) if low is None else low
    most = max(numbers) if high is None else high
    scale = 255 / ((most - least) or 1.0)
    levels = [min(max(round((each - least) * scale), 0), 255) for each in numbers]
    say(kind="image", name=name, height=shape[0], width=shape[1], colours=len(shape) == 3, levels=levels)
