"""How a kernel's loads and stores reach its buffers: one binding per buffer, four elements at a time where possible."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core.ir.expression import Expression, topological
from webgpu_torch_core.ir.kernels import Store

from .printer import Module, linear_index, load_element, store_element

LANES = 4


def aligned(offset: int, strides: tuple[int, ...], position: int, group: int = LANES) -> bool:
    """Return whether ``group`` consecutive coordinates of dimension ``position`` are as many consecutive aligned elements."""
    if position >= len(strides) or strides[position] != 1 or offset % group:
        return False
    return all(stride % group == 0 for index, stride in enumerate(strides) if index != position)


def group_of(itemsize: int, lanes: int) -> int:
    """Return how many elements of a size one access moves where a thread has ``lanes`` of them: 16 bytes at most, 4 at least.

    Kernels with native halves have four lanes: there is no vector of eight, and two of four are read at a distance.
    """
    return min(lanes, max(LANES, 16 // itemsize))


class Buffers:
    """Declares a kernel's buffers and spells their accesses.

    ``vector`` names the dimension whose coordinates run ``lanes`` at a time (None: one element per access). A buffer is
    bound as vectors when every access to it is aligned, as scalars otherwise, as atomic words when packed elements are
    stored one by one.
    """

    def __init__(
        self, module: Module, kernel: Any, stores: tuple[Store, ...], vector: int | None, lanes: int = LANES
    ) -> None:
        self.module = module
        self.kernel = kernel
        self.vector = vector
        self.lanes = lanes
        self.place: dict[int, tuple[str, int]] = {}
        self.atomic: set[tuple[str, int]] = set()
        self.wide: set[tuple[str, int]] = set()
        for number, output in enumerate(kernel.outputs):
            if output.initial is not None:
                self.place[output.initial] = ("output", number)
        self._classify(stores)

    def key(self, operand: int) -> tuple[str, int]:
        """Return which binding an operand is: its own, or the output it shares a buffer with."""
        return self.place.get(operand, ("operand", operand))

    def grouped(self, offset: int, strides: tuple[int, ...], dtype: Any) -> bool:
        """Return whether an access moves a group of elements at once."""
        return self.vector is not None and aligned(offset, strides, self.vector, group_of(dtype.itemsize, self.lanes))

    def _classify(self, stores: tuple[Store, ...]) -> None:
        module, kernel = self.module, self.kernel
        narrow: set[tuple[str, int]] = set()
        seen: set[tuple[str, int]] = set()
        for root in kernel.expressions():
            for node in topological(root):
                if node.step == "load_at":
                    narrow.add(self.key(node.payload))
                elif node.step == "load":
                    operand, offset, strides = node.payload
                    (seen if self.grouped(offset, strides, node.dtype) else narrow).add(self.key(operand))
        for store in stores:
            key = ("output", store.output)
            dtype = kernel.outputs[store.output].dtype
            if self.grouped(store.offset, store.strides, dtype):
                seen.add(key)
                continue
            narrow.add(key)
            if module.type(dtype).lanes > 1:
                self.atomic.add(key)
        self.wide = seen - narrow

    def _described(self, key: tuple[str, int]) -> Any:
        return (self.kernel.operands if key[0] == "operand" else self.kernel.outputs)[key[1]]

    def _words(self, key: tuple[str, int]) -> int:
        """Return how many u32 words a group of a buffer takes where its elements are handled as bits of words, else 0."""
        dtype = self._described(key).dtype
        group = group_of(dtype.itemsize, self.lanes)
        element = self.module.type(dtype)
        return group // element.lanes if element.lanes > 1 else 0

    def name(self, key: tuple[str, int]) -> str:
        """Declare a binding and return its name."""
        kind, index = key
        word = self.module.type(self._described(key).dtype).word
        words = self._words(key)
        if key in self.wide:
            if words:
                word = "u32" if words == 1 else f"vec{words}<u32>"
            elif word == "vec2<u32>":
                self.wide.discard(key)
            else:
                word = f"vec4<{word}>"
        return self.module.buffer(kind, index, word, kind == "output", key in self.atomic)

    def load(self, node: Expression, coordinates: list[str], lane: int, cache: dict[Any, Any], lines: list[str]) -> str:
        """Return the text of a strided load for one lane."""
        operand, offset, strides = node.payload
        key = self.key(operand)
        element = self.module.type(node.dtype)
        name = self.name(key)
        if self.grouped(offset, strides, node.dtype) and (key in self.wide or element.lanes > 1):
            return self._load_group(name, key, node, coordinates, lane, cache, lines)
        moved = (
            self._moved(coordinates, lane)
            if self.vector is not None and any(strides[self.vector : self.vector + 1])
            else coordinates
        )
        return load_element(self.module, name, element, linear_index(offset, strides, moved), key in self.atomic)

    def _moved(self, coordinates: list[str], lane: int) -> list[str]:
        """Return the coordinates of a lane."""
        if self.vector is None or not lane:
            return coordinates
        return [f"({each} + {lane}u)" if index == self.vector else each for index, each in enumerate(coordinates)]

    def _load_group(
        self,
        name: str,
        key: tuple[str, int],
        node: Expression,
        coordinates: list[str],
        lane: int,
        cache: Any,
        lines: list[str],
    ) -> str:
        element = self.module.type(node.dtype)
        _, offset, strides = node.payload
        group, words = group_of(node.dtype.itemsize, self.lanes), self._words(key)
        first = lane - lane % group
        index = linear_index(offset, strides, self._moved(coordinates, first))
        identity = (key, offset, strides, tuple(coordinates), first)
        found = cache.get(identity)
        if found is None:
            found = cache[identity] = self.module.fresh("g")
            if key in self.wide:
                lines.append(f"let {found} = {name}[({index}) / {group}u];")
            else:
                at = [f"{name}[(({index}) / {element.lanes}u) + {each}u]" for each in range(words)]
                at = [f"atomicLoad(&{each})" for each in at] if key in self.atomic else at
                lines.append(f"let {found} = {_vector(at)};")
        if not words:
            return f"{found}.{'xyzw'[lane % group]}"
        per_word = group // words
        word = found if words == 1 else f"{found}.{'xyzw'[lane % group // per_word]}"
        return element.unpack(word, f"{lane % per_word}u")

    def load_at(self, node: Expression, index: str) -> str:
        """Return the text of a load at a computed index."""
        key = self.key(node.payload)
        return load_element(self.module, self.name(key), self.module.type(node.dtype), index, key in self.atomic)

    def store(self, store: Store, values: list[str], coordinates: list[str], lines: list[str]) -> None:
        """Write the statements that store one value per lane."""
        key = ("output", store.output)
        dtype = self.kernel.outputs[store.output].dtype
        element = self.module.type(dtype)
        name = self.name(key)
        usable = key in self.wide or (element.lanes > 1 and key not in self.atomic)
        if not usable or not self.grouped(store.offset, store.strides, dtype):
            for lane, value in enumerate(values):
                index = linear_index(store.offset, store.strides, self._moved(coordinates, lane))
                store_element(lines, name, element, index, value)
            return
        group = group_of(dtype.itemsize, self.lanes)
        for first in range(0, len(values), group):
            index = linear_index(store.offset, store.strides, self._moved(coordinates, first))
            self._store_group(name, key, element, index, values[first : first + group], lines)

    def _store_group(
        self, name: str, key: tuple[str, int], element: Any, index: str, values: list[str], lines: list[str]
    ) -> None:
        group, words = len(values), self._words(key)
        if not words:
            lines.append(f"{name}[({index}) / {group}u] = vec4<{element.scalar}>({', '.join(values)});")
            return
        per_word = group // words
        texts = []
        for word in range(words):
            part = values[word * per_word : (word + 1) * per_word]
            bits = 32 // per_word
            texts.append(" | ".join(f"(({element.pack(value)}) << {bits * lane}u)" for lane, value in enumerate(part)))
        if key in self.wide:
            lines.append(f"{name}[({index}) / {group}u] = {_vector(texts)};")
        else:
            lines += [f"{name}[(({index}) / {element.lanes}u) + {word}u] = {text};" for word, text in enumerate(texts)]


def _vector(words: list[str]) -> str:
    """Return words as one u32 or vector of them."""
    return words[0] if len(words) == 1 else f"vec{len(words)}<u32>({', '.join(words)})"
