"""What the configuration files of Hugging Face checkpoints say, as dataclasses."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, ClassVar, TypeVar

T = TypeVar("T", bound="JsonConfig")


@dataclasses.dataclass
class JsonConfig:
    """A dataclass stored as a JSON file in a model folder; keys it does not know are kept and written back."""

    file_name: ClassVar[str]

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
        """
        return cls.from_dict(read_json(Path(folder) / cls.file_name))

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

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "model_type": self.model_type}


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not a JSON object.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: {path.parent} is not a Hugging Face model folder")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds a JSON {type(values).__name__}, expected an object")
    return values


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write a JSON object in the layout that Hugging Face's libraries write."""
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")
