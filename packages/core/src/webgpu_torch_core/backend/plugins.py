"""Finding backends: the pluggy hook, entry points, and one registry of device types.

A backend is a distribution with an entry point in group ``webgpu_torch`` whose module implements
``webgpu_torch_backends``. A plugin that fails to load is reported and skipped; two that claim one device type are an
error.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import pluggy

from .interface import Backend, Device

PROJECT = "webgpu_torch"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

#: pip commands for the device types we know of but may not have installed
KNOWN_BACKENDS = {"cpu": "webgpu-torch-backend-cpu", "webgpu": "webgpu-torch-backend-wgpu"}


class HookSpecifications:
    """The hooks a plugin may implement."""

    @hookspec
    def webgpu_torch_backends(self) -> list[Backend]:  # type: ignore[empty-body]
        """Return the backends this plugin brings, without opening a device."""


class Origin:
    """Where a plugin came from, and whether it loaded."""

    __slots__ = ("distribution", "error", "module", "version")

    def __init__(self, distribution: str, version: str, module: str, error: str | None = None) -> None:
        self.distribution = distribution
        self.version = version
        self.module = module
        self.error = error

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} ({self.module})"


class Registry:
    """All backends by device type, found on first use."""

    def __init__(self) -> None:
        self.manager = pluggy.PluginManager(PROJECT)
        self.manager.add_hookspecs(HookSpecifications)
        self.backends: dict[str, Backend] = {}
        self.origins: dict[str, Origin] = {}
        self.failures: list[Origin] = []
        self._devices: dict[tuple[str, int], Device] = {}
        self._lock = threading.RLock()
        self._loaded = False
        self._conflict: str | None = None

    def load(self) -> None:
        """Import every installed plugin once.

        Raises:
            RuntimeError: two of them claim one device type (every time, until one is uninstalled).
        """
        with self._lock:
            if self._conflict:
                raise RuntimeError(self._conflict)
            if self._loaded:
                return
            self._loaded = True
            from .python_device import PythonBackend

            self._claim([PythonBackend()], Origin("webgpu-torch-core", _version("webgpu-torch-core"), "built in"))
            for distribution, entry_point in _entry_points():
                self._load_entry_point(distribution, entry_point)

    def _load_entry_point(self, distribution: Any, entry_point: Any) -> None:
        origin = Origin(distribution.metadata["Name"], distribution.version, entry_point.value)
        try:
            plugin = entry_point.load()
            backends = _backends_of(plugin)
        except Exception as error:
            # One broken installation must not take every other device with it.
            origin.error = f"{type(error).__name__}: {error}"
            self.failures.append(origin)
            print(f"webgpu-torch: skipped backend {origin}: {origin.error}", file=sys.stderr)
            return
        try:
            self._claim(backends, origin)
        except RuntimeError as error:
            self._conflict = str(error)
            raise
        self.manager.register(plugin)

    def register(self, plugin: Any, origin: Origin | None = None) -> None:
        """Add a plugin object (a module or instance with the hook).

        Raises:
            RuntimeError: it claims a device type that another plugin has; the message names both.
        """
        origin = origin or Origin(getattr(plugin, "__name__", type(plugin).__name__), "-", "registered in this process")
        self._claim(_backends_of(plugin), origin)
        self.manager.register(plugin)

    def _claim(self, backends: list[Backend], origin: Origin) -> None:
        for backend in backends:
            name = backend.device_type
            if name in self.backends:
                raise RuntimeError(
                    f"two backends claim the device type '{name}': {self.origins[name]} and {origin}; "
                    "uninstall one of them"
                )
        for backend in backends:
            self.backends[backend.device_type] = backend
            self.origins[backend.device_type] = origin

    def backend(self, device_type: str) -> Backend:
        """Return the backend of a device type.

        Raises:
            RuntimeError: none is installed; the message says what to install.
        """
        self.load()
        found = self.backends.get(device_type)
        if found is None:
            package = KNOWN_BACKENDS.get(device_type)
            advice = f"install it with: pip install {package}" if package else f"known here: {', '.join(self.backends)}"
            raise RuntimeError(f"no backend is installed for device type '{device_type}'; {advice}")
        return found

    def device(self, device_type: str, index: int) -> Device:
        """Return an opened device, opening it on first use."""
        found = self._devices.get((device_type, index))
        if found is None:
            with self._lock:
                backend = self.backend(device_type)
                count = backend.device_count()
                if index >= count:
                    raise RuntimeError(
                        f"device '{device_type}:{index}' does not exist: this machine has {count} device(s) of this "
                        "type"
                    )
                found = self._devices.setdefault((device_type, index), backend.open(index))
                if os.environ.get("WEBGPU_TORCH_DEBUG", "0") not in ("", "0"):
                    print(f"webgpu-torch: opened {found.name}: {found.description()}", file=sys.stderr)
        return found

    def opened(self) -> list[Device]:
        """Return the devices in use."""
        return list(self._devices.values())


def _backends_of(plugin: Any) -> list[Backend]:
    """Return what a plugin's hook returns."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(HookSpecifications)
    manager.register(plugin)
    return [backend for backends in manager.hook.webgpu_torch_backends() for backend in backends]


def _entry_points() -> list[tuple[Any, Any]]:
    from importlib.metadata import distributions

    found: dict[tuple[str, str], tuple[Any, Any]] = {}
    for distribution in distributions():
        for entry_point in distribution.entry_points:
            if entry_point.group == PROJECT:
                found.setdefault((entry_point.name, entry_point.value), (distribution, entry_point))
    return list(found.values())


def _version(distribution: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return "(not installed)"


registry = Registry()


def describe() -> str:
    """Return what ``webgpu-torch info`` prints: versions, plugins with origin, devices and their limits."""
    import platform

    registry.load()
    core = _version("webgpu-torch-core")
    lines = [f"webgpu-torch-core {core}, Python {platform.python_version()}, {platform.platform()}"]
    for name, backend in registry.backends.items():
        lines.append(f"device type {name}: {registry.origins[name]}, {backend.device_count()} device(s)")
        lines += [f"    {key}: {value}" for key, value in backend.describe().items()]
    lines += [f"failed to load: {origin}: {origin.error}" for origin in registry.failures]
    for name, package in KNOWN_BACKENDS.items():
        if name not in registry.backends:
            lines.append(f"device type {name}: not installed (pip install {package})")
    return "\n".join(lines)
