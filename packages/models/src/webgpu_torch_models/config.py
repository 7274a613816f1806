"""What the configuration files of Hugging Face checkpoints say, as dataclasses."""

from __future__ import annotations

import dataclasses
import json
import types
from pathlib import Path
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

from webgpu_torch_core.files.host_tensors import brief, map_file
from webgpu_torch_core.files.json_text import parse_object

T = TypeVar("T", bound="JsonConfig")


@dataclasses.dataclass
class JsonConfig:
    """A dataclass stored as a JSON file in a model folder; keys it does not know are kept and written back.

    Class attributes:
        file_name: the file's.
        within: another file, and the key under which it holds what the file would, where that is missing.
    """

    file_name: ClassVar[str]
    within: ClassVar[tuple[str, str] | None] = None

    extra: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True)

    @classmethod
    def from_dict(cls: type[T], values: dict[str, Any]) -> T:
        """Return a configuration of the given keys."""
        known = {field.name for field in dataclasses.fields(cls)} - {"extra"}
        extra = {key: value for key, value in values.items() if key not in known}
        return cls(**{key: value for key, value in values.items() if key in known}, extra=extra)

    def to_dict(self) -> dict[str, Any]:
        """Return the keys as they stand in the file."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "extra"}
        return {**self.extra, **values}

    @classmethod
    def from_folder(cls: type[T], folder: str | Path) -> T:
        """Read the file of a model folder.

        Raises:
            FileNotFoundError: the folder has no such file.
            ValueError: the file is no JSON object, or a key has a value that cannot be; the message names file and key.
        """
        path = Path(folder) / cls.file_name
        other, key = cls.within or ("", "")
        if other and not path.exists() and (Path(folder) / other).exists():
            path = Path(folder) / other
            values = read_json(path).get(key)
            if not isinstance(values, dict):
                raise ValueError(f"{path}: {key} is {brief(values)}, expected an object")
        else:
            values = read_json(path)
        hints = get_type_hints(cls)
        for key, value in values.items():
            if key in hints and value is not None and not _fits(value, hints[key]):
                wanted = getattr(hints[key], "__name__", str(hints[key]))
                raise ValueError(f"{path}: {key} is {brief(value)}, expected {wanted}")
        try:
            return cls.from_dict(values)
        except (ValueError, TypeError, ArithmeticError, LookupError) as error:
            raise ValueError(f"{path} describes no {cls.__name__}: {str(error)[:400]}{not_positive(values)}") from error

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the file into a model folder, making the folder if needed."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / self.file_name, self.to_dict())


@dataclasses.dataclass
class ModelConfig(JsonConfig):
    """Base class of architectures' configurations; each names its ``model_type``."""

    file_name: ClassVar[str] = "config.json"
    model_type: ClassVar[str]

    @property
    def longest_text(self) -> int | None:
        """How many tokens of a text the network reads; None where nothing bounds them."""
        return getattr(self, "max_position_embeddings", None)

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "model_type": self.model_type}


@dataclasses.dataclass
class ClassifierConfig(ModelConfig):
    """A configuration that names classes."""

    id2label: dict[str, str] | None = None

    @property
    def num_labels(self) -> int:
        """How many classes a classifier has."""
        return int(self.extra.get("num_labels", 2)) if self.id2label is None else len(self.id2label)

    def label(self, number: int) -> str:
        """Return the name of a class."""
        return (self.id2label or {}).get(str(number), f"LABEL_{number}")


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value from JSON is of an annotated type; of types that JSON has not, whether it may be."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inside)
    if hint is int:
        return type(value) is int and abs(value) < 1 << 63
    if hint is float:
        return type(value) in (int, float) and abs(value) < 1 << 1000
    if hint in (bool, str, types.NoneType):
        return type(value) is hint
    if list in (hint, origin):
        return type(value) is list and (not inside or all(_fits(each, inside[0]) for each in value))
    return type(value) is dict if dict in (hint, origin) else True


def not_positive(values: dict[str, Any]) -> str:
    """Return which numbers of a configuration are not positive, for an error message that may be about one of them."""
    found = [
        f"{key}={value}" for key, value in values.items()
        if type(value) is int and value <= 0 and not key.endswith(("_id", "_token_id"))
    ]  # fmt: skip
    return f" (not positive: {', '.join(found[:8])})" if found else ""


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not a JSON object.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: {path.parent} is not a Hugging Face model folder")
    return parse_object(map_file(path), str(path))


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write a JSON object in the layout that Hugging Face's libraries write."""
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")
