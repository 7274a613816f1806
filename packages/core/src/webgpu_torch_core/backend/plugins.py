"""Finding backends: the pluggy hook, entry points, and one registry of device types.

A backend is a distribution with an entry point in group ``webgpu_torch`` whose module implements
``webgpu_torch_backends``. What is wrong with one plugin is reported, and affects no other: a plugin that fails to load is
skipped, and a device type that two claim is an error for whoever asks for that type.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, NamedTuple, TypedDict

import pluggy

from .. import config
from ..ir.dtypes import dtype
from .interface import HOST, INTERFACE_VERSION, Backend, Device, Facts
from .python_device import PythonBackend

PROJECT = "webgpu_torch"
HOOK = "webgpu_torch_backends"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

#: pip commands for the device types we know of but may not have installed
KNOWN_BACKENDS = {"cpu": "webgpu-torch-backend-cpu", "webgpu": "webgpu-torch-backend-wgpu"}
#: device types that are core's own
RESERVED = ("meta", "python")
#: what a plugin may raise without ending the program; a KeyboardInterrupt is the user's
FAULTS = (Exception, SystemExit)


class HookSpecifications:
    """The hooks a plugin may implement."""

    @hookspec
    def webgpu_torch_backends(self) -> list[Backend]:  # type: ignore[empty-body]
        """Return the backends this plugin brings, without opening a device."""


class Origin(NamedTuple):
    """Where a plugin came from."""

    distribution: str
    version: str
    module: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} ({self.module})"


class Failure(NamedTuple):
    """What is wrong with a plugin."""

    origin: Origin
    reason: str


class Registry:
    """All backends by device type, found on first use."""

    def __init__(self) -> None:
        self.backends: dict[str, Backend] = {}
        self.origins: dict[str, Origin] = {}
        self.failures: list[Failure] = []
        #: device types that several plugins claim, and who they are; none of them serves it
        self.conflicts: dict[str, list[Origin]] = {}
        self._devices: dict[tuple[str, int], Device] = {}
        self._lock = threading.RLock()
        self._loading = self._loaded = False

    def load(self) -> None:
        """Import every installed plugin once; one that fails is reported on stderr and skipped."""
        if self._loaded:
            return
        with self._lock:
            # A plugin may ask for others while it is imported; other threads wait until all are.
            if self._loading:
                return
            self._loading = True
            self.backends["python"] = PythonBackend()
            self.origins["python"] = Origin("webgpu-torch-core", _version("webgpu-torch-core"), "built in")
            for distribution, entry_point in _entry_points():
                self._load_entry_point(distribution, entry_point)
            self._loaded = True

    def _load_entry_point(self, distribution: Any, entry_point: Any) -> None:
        origin = Origin(str(distribution.metadata["Name"]), str(distribution.version), entry_point.value)
        try:
            brought = _backends_of(entry_point.load())
        except FAULTS as error:
            self._report(origin, one_line(error))
            return
        for backend in brought:
            try:
                name = _checked(backend, origin)
            except FAULTS as error:
                self._report(origin, one_line(error))
                continue
            self._claim(name, backend, origin)

    def _claim(self, name: str, backend: Backend, origin: Origin) -> None:
        if name in self.conflicts:
            self.conflicts[name].append(origin)
        elif name in self.origins:
            self.conflicts[name] = [self.origins.pop(name), origin]
            del self.backends[name]
        else:
            self.backends[name] = backend
            self.origins[name] = origin
            return
        print(f"webgpu-torch: {self._conflict(name)}", file=sys.stderr)

    def _conflict(self, name: str) -> str:
        claimants = self.conflicts[name]
        number = {2: "two"}.get(len(claimants), str(len(claimants)))
        return f"{number} backends claim the device type '{name}': {' and '.join(map(str, claimants))}; uninstall all but one"

    def _report(self, origin: Origin, reason: str) -> None:
        failure = Failure(origin, reason)
        if failure not in self.failures:
            self.failures.append(failure)
            print(f"webgpu-torch: skipped backend {origin}: {reason}", file=sys.stderr)

    def register(self, plugin: Any, origin: Origin | None = None) -> None:
        """Add a plugin object (a module or instance with the hook).

        Raises:
            RuntimeError: it brings nothing, or a backend that cannot be used, or it claims a device type that another
                plugin has (the message names both); nothing of it is added then.
        """
        self.load()
        origin = origin or Origin(getattr(plugin, "__name__", type(plugin).__name__), "-", "registered in this process")
        with self._lock:
            found: dict[str, Backend] = {}
            for backend in _backends_of(plugin):
                name = _checked(backend, origin)
                if name in self.backends or name in found:
                    raise RuntimeError(
                        f"two backends claim the device type '{name}': {self.origins.get(name, origin)} and {origin}"
                    )
                found[name] = backend
            for name, backend in found.items():
                self.backends[name] = backend
                self.origins[name] = origin

    def backend(self, device_type: str) -> Backend:
        """Return the backend of a device type.

        Raises:
            RuntimeError: none is installed, or several are, or it failed to load; the message says what would help.
        """
        self.load()
        found = self.backends.get(device_type)
        if found is not None:
            return found
        if device_type in self.conflicts:
            raise RuntimeError(self._conflict(device_type))
        package = KNOWN_BACKENDS.get(device_type)
        failed = [each for each in self.failures if package in (None, each.origin.distribution)]
        reasons = "; ".join(f"{each.origin}: {each.reason}" for each in failed)
        if failed and package is not None:
            # What is installed and broken is not to be installed again.
            raise RuntimeError(f"the backend of device type '{device_type}' failed to load: {reasons}")
        advice = f"install it with: pip install {package}" if package else f"known here: {', '.join(self.backends)}"
        others = f"; failed to load: {reasons}" if failed else ""
        raise RuntimeError(f"no backend is installed for device type '{device_type}'; {advice}{others}")

    def facts(self, device_type: str) -> Facts:
        """Return what the backend of a device type declares; without one, that the CPU is the host, and no more."""
        self.load()
        found = self.backends.get(device_type)
        return found.facts if found is not None else HOST if device_type == "cpu" else Facts()

    def facts_of(self, device: Device) -> Facts:
        """Return what is declared of the type of an opened device."""
        kinds = (kind for (kind, _), each in self._devices.items() if each is device)
        return self.facts(next(kinds, ""))

    def accelerators(self) -> list[str]:
        """Return the device types that are not the host's and have a backend, those of this project first."""
        self.load()
        kinds = dict.fromkeys([*(each for each in KNOWN_BACKENDS if each in self.backends), *self.backends])
        return [each for each in kinds if not self.facts(each).on_host]

    def device_count(self, device_type: str) -> int:
        """Return how many devices of a type can be used: 0 without its backend, or if that cannot tell (it is reported)."""
        self.load()
        if device_type not in self.backends:
            return 0
        try:
            return self._count(device_type)
        except RuntimeError as error:
            self._report(self.origins[device_type], str(error))
            return 0

    def _count(self, device_type: str) -> int:
        backend = self.backend(device_type)
        try:
            count = backend.device_count()
        except FAULTS as error:
            raise RuntimeError(f"device_count() of '{device_type}' raised {one_line(error)}") from error
        if type(count) is not int or count < 0:
            raise RuntimeError(
                f"device_count() of '{device_type}' returned {count!r:.80}, expected a number of devices"
            )
        return count

    def device(self, device_type: str, index: int) -> Device:
        """Return an opened device, opening it on first use.

        Raises:
            RuntimeError: no backend for this type, no such device, or the backend returned what is no usable device.
        """
        found = self._devices.get((device_type, index))
        if found is None:
            with self._lock:
                found = self._devices.get((device_type, index))
                if found is None:
                    found = self._devices[device_type, index] = self._open(device_type, index)
        return found

    def close(self, device_type: str, index: int) -> None:
        """Forget an opened device: the next use opens it again."""
        with self._lock:
            self._devices.pop((device_type, index), None)

    def _open(self, device_type: str, index: int) -> Device:
        backend = self.backend(device_type)
        origin = self.origins[device_type]
        try:
            count = self._count(device_type)
            if index >= count:
                raise RuntimeError(
                    f"device '{device_type}:{index}' does not exist: this machine has {count} device(s) of this type"
                )
            opened = _checked_device(backend.open(index), f"{device_type}:{index}")
            if config.DEBUG.is_on():
                print(f"webgpu-torch: opened {opened.name}: {opened.description()}", file=sys.stderr)
        except SystemExit as error:
            raise RuntimeError(f"opening '{device_type}:{index}' of {origin} raised {one_line(error)}") from error
        except Exception as error:
            error.add_note(f"device '{device_type}:{index}' is brought by {origin}")
            raise
        return opened

    def opened(self) -> list[Device]:
        """Return the devices in use."""
        return list(self._devices.values())


def _backends_of(plugin: Any) -> list[Any]:
    """Return what a plugin's hook returns.

    Raises:
        RuntimeError: it has no hook that returns a list of at least one backend; the message says what it has instead.
    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(HookSpecifications)
    manager.register(plugin)
    # Raises for a hook that is marked and has another name.
    manager.check_pending()
    if not manager.hook.webgpu_torch_backends.get_hookimpls():
        unmarked = callable(getattr(plugin, HOOK, None))
        raise RuntimeError(
            f"it brings no backend: its {HOOK} is not marked with @hookimpl"
            if unmarked
            else f"it brings no backend: it has no function {HOOK} marked with @hookimpl"
        )
    results = manager.hook.webgpu_torch_backends()
    if not results:
        raise RuntimeError(f"it brings no backend: its {HOOK} returned None, expected a list of Backend objects")
    (brought,) = results
    if not isinstance(brought, list | tuple):
        raise RuntimeError(f"its {HOOK} returned a {type(brought).__name__}, expected a list of Backend objects")
    if not brought:
        raise RuntimeError(f"it brings no backend: its {HOOK} returned an empty {type(brought).__name__}")
    return list(brought)


def _checked(backend: Any, origin: Origin) -> str:
    """Return the device type of a backend that can be used.

    Raises:
        RuntimeError: it is no Backend, names no device type that programs could ask for, or was written for another
            version of the interface.
    """
    title = type(backend).__name__
    if not isinstance(backend, Backend):
        raise RuntimeError(f"its {HOOK} returned a list with {backend!r:.80}, which is no instance of Backend")
    name = getattr(backend, "device_type", None)
    if not isinstance(name, str):
        raise RuntimeError(f"{title}.device_type must be the name of a device type, got {name!r:.80}")
    if not (name.isascii() and name.isidentifier()):
        raise RuntimeError(f"{title}.device_type must be a name like 'fast', without an index, got {name!r:.80}")
    if name in RESERVED:
        raise RuntimeError(f"{title} claims the device type '{name}', which belongs to webgpu-torch-core")
    version = getattr(backend, "interface_version", None)
    if type(version) is not int:
        raise RuntimeError(
            f"{title} does not say for which version of the backend interface it was written: set interface_version = "
            f"{INTERFACE_VERSION} in the class once it follows that version; got {version!r:.80}"
        )
    if version != INTERFACE_VERSION:
        behind = "webgpu-torch-core" if version > INTERFACE_VERSION else origin.distribution
        raise RuntimeError(
            f"{title} was written for version {version} of the backend interface, webgpu-torch-core "
            f"{_version('webgpu-torch-core')} has version {INTERFACE_VERSION}; upgrade {behind}"
        )
    facts = backend.facts
    kinds = facts.autocast_types if isinstance(facts, Facts) else None
    if not isinstance(kinds, tuple) or not all(isinstance(each, dtype) for each in kinds):
        raise RuntimeError(
            f"{title}.facts must be Facts, with a tuple of element types for autocast, got {facts!r:.120}"
        )
    return name


def _checked_device(opened: Any, name: str) -> Device:
    """Return an opened device that tensors can be put on, named.

    Raises:
        RuntimeError: it is no Device, or its element types are none.
    """
    if not isinstance(opened, Device):
        raise RuntimeError(f"opening '{name}' returned {opened!r:.80}, expected a Device")
    kinds: Any = opened.dtypes
    wrong = (
        [each for each in kinds if not isinstance(each, dtype) or each.is_complex] if _is_collection(kinds) else [kinds]
    )
    if wrong:
        raise RuntimeError(
            f"dtypes of '{name}' must be a set of the element types in webgpu_torch_core.ir.dtypes without complex ones, "
            f"which are pairs of float32; got {wrong[0]!r:.80}"
        )
    if not opened.name:
        opened.name = name
    return opened


def _is_collection(value: Any) -> bool:
    return isinstance(value, frozenset | set | tuple | list)


def one_line(error: BaseException) -> str:
    """Return an exception as one line of at most 400 characters."""
    text = " ".join(str(error).split())
    # Errors of the checks here speak for themselves.
    shown = text if type(error) is RuntimeError else f"{type(error).__name__}: {text}"
    return shown if len(shown) <= 400 else shown[:400] + "..."


def _entry_points() -> list[tuple[Any, Any]]:
    # Slow to import, and seldom needed.
    from importlib.metadata import distributions

    found: dict[tuple[str, str], tuple[Any, Any]] = {}
    for distribution in distributions():
        # A file of somebody else's that cannot be read is no concern of ours.
        text = distribution.read_text("entry_points.txt") or ""
        for entry_point in distribution.entry_points if PROJECT in text else ():
            if entry_point.group == PROJECT:
                found.setdefault((entry_point.name, entry_point.value), (distribution, entry_point))
    return list(found.values())


def _version(distribution: str) -> str:
    # Slow to import, and seldom needed.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return "(not installed)"


registry = Registry()


class BackendReport(TypedDict):
    """What one backend tells: its device type, where it comes from, how many devices it has, and facts about them."""

    type: str
    origin: str
    devices: int
    facts: dict[str, str]


class Report(TypedDict):
    """What a report of a problem needs: versions, backends, and what is wrong with which."""

    core: str
    interface: int
    python: str
    platform: str
    backends: list[BackendReport]
    not_usable: list[str]
    failed: list[str]
    not_installed: dict[str, str]


def report() -> Report:
    """Return what a report of a problem needs, as plain data: versions, backends with their facts, and what is wrong."""
    # Slow to import, and seldom needed.
    import platform

    registry.load()
    backends = [_described(name) for name in registry.backends]
    conflicts = [str(registry._conflict(name)) for name in registry.conflicts]
    installed = {*registry.backends, *registry.conflicts}
    failed = [each.origin.distribution for each in registry.failures]
    return {
        "core": _version("webgpu-torch-core"),
        "interface": INTERFACE_VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "backends": backends,
        "not_usable": conflicts,
        "failed": [f"{each.origin}: {each.reason}" for each in registry.failures],
        "not_installed": {
            name: package for name, package in KNOWN_BACKENDS.items() if name not in installed and package not in failed
        },
    }


def describe() -> str:
    """Return what ``webgpu-torch info`` prints: versions, plugins with origin, devices, and what is wrong with which."""
    found = report()
    lines = [
        f"webgpu-torch-core {found['core']} (backend interface {found['interface']}), Python {found['python']}, "
        f"{found['platform']}"
    ]
    for each in found["backends"]:
        lines.append(f"device type {each['type']}: {each['origin']}, {each['devices']} device(s)")
        lines += [f"    {key}: {value}" for key, value in each["facts"].items()]
    lines += [f"not usable: {each}" for each in found["not_usable"]]
    lines += [f"failed: {each}" for each in found["failed"]]
    for name, package in found["not_installed"].items():
        lines.append(f"device type {name}: not installed (pip install {package})")
    return "\n".join(lines)


def _described(name: str) -> BackendReport:
    """Return what one backend tells; that it cannot tell is reported as its failure."""
    backend = registry.backends[name]
    found: BackendReport = {
        "type": name,
        "origin": str(registry.origins[name]),
        "devices": registry.device_count(name),
        "facts": {},
    }
    try:
        found["facts"] = {str(key): str(value) for key, value in backend.describe().items()}
    except FAULTS as error:
        registry._report(registry.origins[name], f"describe() of '{name}' raised {one_line(error)}")
    return found
