"""How a kernel's loads and stores reach its buffers: one binding per buffer, four elements at a time where possible."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core.expression import Expression, topological
from webgpu_torch_core.kernels import Store

from .printer import Module, linear_index, load_element, store_element

LANES = 4


def aligned(offset: int, strides: tuple[int, ...], position: int) -> bool:
    """Return whether four consecutive coordinates of dimension ``position`` are four consecutive aligned elements."""
    if position >= len(strides) or strides[position] != 1 or offset % LANES:
        return False
    return all(stride % LANES == 0 for index, stride in enumerate(strides) if index != position)


class Buffers:
    """Declares a kernel's buffers and spells their accesses.

    ``vector`` names the dimension whose coordinates run four at a time (None: one element per access). A buffer is bound
    as vectors when every access to it is aligned, as scalars otherwise, as atomic words when packed elements are stored
    one by one.
    """

    def __init__(self, module: Module, kernel: Any, stores: tuple[Store, ...], vector: int | None) -> None:
        self.module = module
        self.kernel = kernel
        self.vector = vector
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

    def _classify(self, stores: tuple[Store, ...]) -> None:
        module, kernel = self.module, self.kernel
        narrow: set[tuple[str, int]] = set()
        seen: set[tuple[str, int]] = set()
        for root in kernel.expressions():
            for node in topological(root):
                if node.step == "load_at":
                    key = self.key(node.payload)
                elif node.step == "load":
                    key = self.key(node.payload[0])
                    if self.vector is not None and aligned(node.payload[1], node.payload[2], self.vector):
                        seen.add(key)
                        continue
                else:
                    continue
                narrow.add(key)
        for store in stores:
            key = ("output", store.output)
            if self.vector is not None and aligned(store.offset, store.strides, self.vector):
                seen.add(key)
                continue
            narrow.add(key)
            if module.type(kernel.outputs[store.output].dtype).lanes > 1:
                self.atomic.add(key)
        self.wide = seen - narrow
        # A packed buffer bound as words serves both single and grouped accesses unless it needs atomics.
        self.grouped = seen - self.atomic

    def name(self, key: tuple[str, int]) -> str:
        """Declare a binding and return its name."""
        kind, index = key
        described = (self.kernel.operands if kind == "operand" else self.kernel.outputs)[index]
        element = self.module.type(described.dtype)
        word = element.word
        if key in self.wide and element.lanes == 1:
            word = f"vec4<{word}>" if element.scalar != "vec2<u32>" else "vec4<u32>"
            if element.scalar == "vec2<u32>":
                self.wide.discard(key)
                word = element.word
        return self.module.buffer(kind, index, word, kind == "output", key in self.atomic)

    def load(self, node: Expression, coordinates: list[str], lane: int, cache: dict[Any, Any], lines: list[str]) -> str:
        """Return the text of a strided load for one lane."""
        operand, offset, strides = node.payload
        key = self.key(operand)
        element = self.module.type(node.dtype)
        name = self.name(key)
        if self.vector is not None and aligned(offset, strides, self.vector) and element.scalar != "vec2<u32>":
            return self._load_group(name, key, element, offset, strides, coordinates, lane, cache, lines)
        moved = list(coordinates)
        if self.vector is not None and self.vector < len(strides) and strides[self.vector] != 0 and lane:
            moved[self.vector] = f"({coordinates[self.vector]} + {lane}u)"
        return load_element(self.module, name, element, linear_index(offset, strides, moved), key in self.atomic)

    def _load_group(
        self, name: str, key: Any, element: Any, offset: int, strides: Any, coordinates: list[str], lane: int, cache: Any, lines: list[str]
    ) -> str:
        identity = (key, offset, strides, tuple(coordinates))
        found = cache.get(identity)
        index = linear_index(offset, strides, coordinates)
        if found is None:
            found = cache[identity] = self.module.fresh("g")
            if element.lanes == 1:
                if key in self.wide:
                    lines.append(f"let {found} = {name}[({index}) / 4u];")
                else:
                    at = self.module.fresh("a")
                    lines.append(f"let {at} = {index};")
                    parts = ", ".join(f"{name}[{at} + {each}u]" for each in range(LANES))
                    lines.append(f"let {found} = vec4<{element.scalar}>({parts});")
            elif key in self.atomic:
                shift = 2 if element.lanes == 4 else 1
                words = ", ".join(f"atomicLoad(&{name}[(({index}) >> {shift}u) + {each}u])" for each in range(LANES // element.lanes))
                lines.append(f"let {found} = {words if element.lanes == 4 else f'vec2<u32>({words})'};")
            elif element.lanes == 4:
                lines.append(f"let {found} = {name}[({index}) >> 2u];")
            else:
                lines.append(f"let {found} = vec2<u32>({name}[({index}) >> 1u], {name}[(({index}) >> 1u) + 1u]);")
        if element.lanes == 1:
            return f"{found}.{'xyzw'[lane]}"
        if element.lanes == 4:
            return element.unpack(found, f"{lane}u")
        return element.unpack(f"{found}.{'xy'[lane // 2]}", f"{lane % 2}u")

    def load_at(self, node: Expression, index: str) -> str:
        """Return the text of a load at a computed index."""
        key = self.key(node.payload)
        return load_element(self.module, self.name(key), self.module.type(node.dtype), index, key in self.atomic)

    def store(self, store: Store, values: list[str], coordinates: list[str], lines: list[str]) -> None:
        """Write the statements that store one value per lane."""
        key = ("output", store.output)
        element = self.module.type(self.kernel.outputs[store.output].dtype)
        name = self.name(key)
        grouped = self.vector is not None and aligned(store.offset, store.strides, self.vector) and key not in self.atomic
        if not grouped or element.scalar == "vec2<u32>":
            for lane, value in enumerate(values):
                moved = list(coordinates)
                if self.vector is not None and lane:
                    moved[self.vector] = f"({coordinates[self.vector]} + {lane}u)"
                store_element(lines, name, element, linear_index(store.offset, store.strides, moved), value)
            return
        index = linear_index(store.offset, store.strides, coordinates)
        if element.lanes == 1:
            if key in self.wide:
                lines.append(f"{name}[({index}) / 4u] = vec4<{element.scalar}>({', '.join(values)});")
            else:
                lines += [f"{name}[{index} + {lane}u] = {value};" for lane, value in enumerate(values)]
        elif element.lanes == 4:
            word = " | ".join(f"(({element.pack(value)}) << {8 * lane}u)" for lane, value in enumerate(values))
            lines.append(f"{name}[({index}) >> 2u] = {word};")
        else:
            for half in range(2):
                word = f"({element.pack(values[2 * half])}) | (({element.pack(values[2 * half + 1])}) << 16u)"
                lines.append(f"{name}[(({index}) >> 1u) + {half}u] = {word};")
