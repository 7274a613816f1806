"""The base class of pretrained models: folders in Hugging Face's layout, tied weights, generation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.files.host_tensors import brief
from webgpu_torch_core.notices import warn
from webgpu_torch_core.record.devices import is_accelerator, synchronize
from webgpu_torch_nn import Linear, Module, init

if TYPE_CHECKING:
    from typing import Self

from webgpu_torch_models import checkpoint
from webgpu_torch_models.cache import KeyValueCache
from webgpu_torch_models.config import ModelConfig, not_positive
from webgpu_torch_models.generation import GenerationConfig, generate, stream
from webgpu_torch_models.hub import find_folder
from webgpu_torch_models.joined import join_maps
from webgpu_torch_models.linear import EncodedLinear, check_quantization, encode_linears
from webgpu_torch_models.lora import load_adapter
from webgpu_torch_models.packed_weights import packed_linears

V = TypeVar("V")
#: the keys under which configurations say how many layers there are
LAYER_KEYS = ("n_layer", "n_layers", "num_hidden_layers")
#: how many differences between a checkpoint and a model a message lists
MOST_SHOWN = 20


class PreTrainedModel(Module):
    """Base class of pretrained models.

    Class attributes:
        config_class: the configuration's class.
        base_model_prefix: the submodule under which bare checkpoints (without a head) keep their names.
        tied_weights: names of parameters that are another one, with the name of that one.
        base_of: the prefix under which checkpoints of models with a head keep this model, which has none.
        ignored_keys: patterns of checkpoint keys that hold no weights.
        renamed_keys: patterns of checkpoint keys, and what their text is replaced by.
        weight_files: what files of weights are called, in safetensors' and in PyTorch's format.
        new_keys: patterns of parameters that are drawn anew where the checkpoint has none: a new task's head.

    Attributes:
        starts_anew_with_variant: cached keys are of no use to steps of another :meth:`step_variant`.
    """

    config_class: ClassVar[type[ModelConfig]]
    base_model_prefix: ClassVar[str] = ""
    base_of: ClassVar[str] = ""
    tied_weights: ClassVar[dict[str, str]] = {}
    ignored_keys: ClassVar[tuple[str, ...]] = ()
    renamed_keys: ClassVar[dict[str, str]] = {}
    new_keys: ClassVar[tuple[str, ...]] = ()
    weight_files: ClassVar[tuple[str, str]] = checkpoint.MODEL

    config: Any
    starts_anew_with_variant: bool = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.generation_config = GenerationConfig.from_model_config(config)

    @property
    def device(self) -> Any:
        """The device of the first parameter."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> Any:
        """The dtype of the first parameter."""
        return next(self.parameters()).dtype

    def num_parameters(self) -> int:
        """Return the number of elements of all parameters, tied ones once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def reset_parameters(self) -> None:
        """Draw new weights: normal with ``initializer_range``; biases and norms keep their constants."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.normal_(parameter, std=self.config.initializer_range)

    def active_ties(self) -> dict[str, str]:
        """Return the ties that this configuration asks for."""
        return self.tied_weights if getattr(self.config, "tie_word_embeddings", True) else {}

    def tie_weights(self) -> None:
        """Make tied parameters one and the same again."""
        for name, source in self.active_ties().items():
            parent, _, attribute = name.rpartition(".")
            module = self.get_submodule(parent)
            if not isinstance(module, EncodedLinear):
                setattr(module, attribute, self.get_parameter(source))

    def cache_sizes(self) -> tuple[int, int, int]:
        """Return how many layers have keys and values, of how many heads, and a head's elements."""
        raise NotImplementedError(f"{type(self).__name__} keeps no keys and values")

    def train(self, mode: bool = True) -> Self:
        """Set whether the model is trained; on an accelerator, maps that are not are joined: see :meth:`join_maps`."""
        super().train(mode)
        if not mode and is_accelerator(self.device):
            self.join_maps()
        return self

    def join_maps(self) -> None:
        """Move weights of linear maps that take the same input into one piece of memory: one product gives all of them.

        Modules name such maps in ``joined_maps``. Parameters stay the same objects with the same values and shapes.
        """
        join_maps(self)

    def new_cache(self, batch_size: int, capacity: int, padding: Tensor | None = None) -> KeyValueCache:
        """Return an empty cache for sequences of up to ``capacity`` tokens.

        Args:
            batch_size: how many sequences.
            capacity: in tokens.
            padding: int64 [batch], how many tokens at each sequence's start are padding; None if none are.
        """
        layers, heads, dim = self.cache_sizes()
        return KeyValueCache(layers, batch_size, heads, capacity, dim, self.dtype, self.device, padding)

    def step_variant(self, length: int) -> Any:
        """Return what must be equal for two decoding steps, after which ``length`` tokens are seen, to be the same."""
        return None

    def generate(self, input_ids: Tensor, **options: Any) -> Tensor:
        """Continue ``input_ids``; see :func:`webgpu_torch_models.generation.generate`."""
        return generate(self, input_ids, **options)

    def stream(self, input_ids: Tensor, **options: Any) -> Iterator[list[int]]:
        """Give the tokens that continue ``input_ids`` as they come; see :func:`webgpu_torch_models.generation.stream`."""
        return stream(self, input_ids, **options)

    def load_adapter(self, folder: str | Path, merge: bool = False) -> list[str]:
        """Put an adapter of low rank into the model; see :func:`webgpu_torch_models.lora.load_adapter`."""
        return load_adapter(self, folder, merge)

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        config: ModelConfig | None = None,
        dtype: Any = None,
        device: Any = None,
        token: str | None = None,
        revision: str | None = None,
        quantize: str | None = None,
    ) -> Self:
        """Load a model of this class from a local folder or from the Hugging Face hub, in evaluation mode.

        Args:
            name_or_path: a folder, or a hub id such as "openai-community/gpt2".
            config: used in place of the folder's config.json.
            dtype: convert floating-point weights to it; None keeps those of the file.
            device: where the weights go; None is the default device.
            token, revision: for the hub.
            quantize: "int8", "int4", "nf4" or "fp8": linear maps keep their weights in so few bits on the device, but those on
                which most depends, which have more; see :data:`webgpu_torch_models.linear.QUANTIZATIONS`.

        Raises:
            FileNotFoundError: there is no such folder, or a file is missing in it.
            ValueError: the checkpoint's names or shapes are not those of the model.
        """
        folder = find_folder(name_or_path, token=token, revision=revision)
        config = cls.config_class.from_folder(folder) if config is None else config
        target = torch.get_default_device() if device is None else torch.device(device)
        if quantize is not None:
            check_quantization(quantize)
        is_packed = bool(config.extra.get("quantization_config"))
        if quantize is not None and not is_packed:
            model = cls._encoded(config, folder, dtype, target, quantize)
        else:
            # Scales of weights that are encoded already stay as they are.
            weights = checkpoint.load(folder, target, cls.weight_files, None if is_packed else dtype)
            model = cls._from_weights(config, weights, folder, dtype, target, quantize)
        if (folder / GenerationConfig.file_name).is_file():
            model.generation_config = GenerationConfig.from_folder(folder)
        return model

    @classmethod
    def _from_weights(
        cls, config: ModelConfig, weights: dict[str, Tensor], source: Path, dtype: torch.dtype | None,
        device: torch.device, quantize: str | None = None,
    ) -> Self:  # fmt: skip
        """Return a model of a configuration and a checkpoint's weights, in evaluation mode.

        Args:
            config: its sizes.
            weights: by the checkpoint's names.
            source: where they come from, for messages.
            dtype, device, quantize: as :meth:`from_pretrained`'s.

        Raises:
            ValueError: names or shapes are not those of the model.
        """
        model = cls._described(config, source, len(weights))
        model._assign(weights, source, dtype, quantize, device)
        return model.eval()

    @classmethod
    def _encoded(
        cls, config: ModelConfig, folder: Path, dtype: torch.dtype | None, device: torch.device, quantize: str
    ) -> Self:
        """Return a folder's model, in evaluation mode, each of whose weights is encoded before the next one is read.

        Arguments and errors are those of :meth:`from_pretrained`.
        """
        names = checkpoint.names(folder, cls.weight_files)
        model = cls._described(config, folder, len(names))
        places = {name: own for own, name in model._renamed({name: name for name in names}).items()}
        wanted, ties = model.state_dict(keep_vars=True), model.active_ties()
        weights: dict[str, Tensor] = {}
        gone: dict[str, Tensor] = {}
        for name, value in checkpoint.each(folder, device, cls.weight_files, dtype):
            if name not in places:
                continue
            rest = encode_linears(model, {places[name]: value}, quantize, device, ties)
            weights.update(rest)
            if not rest:
                gone[places[name]] = torch.empty_like(value, device="meta")
            # What is only recorded keeps what it reads.
            synchronize()
        weights = model.from_checkpoint(weights)
        drawn = model._check_fits(wanted, {**weights, **gone}, folder)
        model._put(weights, drawn, wanted, folder, quantize, device)
        return model.eval()

    @classmethod
    def _described(cls, config: ModelConfig, folder: Path, count: int) -> Self:
        """Return the model of a configuration, on the meta device, for a checkpoint of so many tensors.

        Raises:
            ValueError: there is no such model, or it has more layers than the checkpoint has tensors.
        """
        path, values = folder / config.file_name, config.to_dict()
        for key in LAYER_KEYS:
            if type(values.get(key)) is int and values[key] > count:
                raise ValueError(f"{path}: {key} is {values[key]}, and the checkpoint has only {count} tensors")
        try:
            with torch.device("meta"):
                return cls(config)  # type: ignore[return-value]
        except (ValueError, TypeError, ArithmeticError, LookupError, RuntimeError) as error:
            raise ValueError(
                f"{path} describes no {cls.__name__} that can be made: {str(error)[:400]}{not_positive(values)}"
            ) from error

    def _assign(
        self,
        weights: dict[str, Tensor],
        folder: Path,
        dtype: torch.dtype | None,
        quantize: str | None,
        device: torch.device,
    ) -> None:
        weights = self.from_checkpoint(self._renamed(self._take_packed(weights, folder)))
        kept = {name for name, module in self.named_modules() if isinstance(module, EncodedLinear)}
        wanted = {
            key: value for key, value in self.state_dict(keep_vars=True).items() if key.rpartition(".")[0] not in kept
        }
        drawn = self._check_fits(wanted, weights, folder)
        if dtype is not None:
            weights = {key: value.to(dtype) if value.is_floating_point() else value for key, value in weights.items()}
        self._put(weights, drawn, wanted, folder, quantize, device)

    def _check_fits(self, wanted: dict[str, Tensor], weights: dict[str, Tensor], folder: Path) -> list[str]:
        """Return the parameters that are to be drawn anew.

        Raises:
            ValueError: weights are not those that the model wants.
        """
        ties = self.active_ties()
        missing = [key for key in wanted if key not in weights and key not in ties]
        drawn = [key for key in missing if any(re.search(pattern, key) for pattern in self.new_keys)]
        missing = [key for key in missing if key not in drawn]
        unexpected = [key for key in weights if key not in wanted]
        problems = [
            f"{key}: the checkpoint has {list(weights[key].shape)}, the model {list(wanted[key].shape)}"
            for key in wanted
            if key in weights and weights[key].shape != wanted[key].shape
        ]
        problems += [
            f"{key}: the checkpoint has {weights[key].dtype}, the model floating-point numbers"
            for key in wanted
            if key in weights and wanted[key].is_floating_point() and not weights[key].is_floating_point()
        ]
        problems += [f"missing in the checkpoint: {key}" for key in missing]
        problems += [f"not in the model: {brief(key)}" for key in unexpected]
        if problems:
            others = [f"and {len(problems) - MOST_SHOWN} more"] if len(problems) > MOST_SHOWN else []
            details = "\n  ".join(problems[:MOST_SHOWN] + others)
            raise ValueError(
                f"the weights in {folder} do not fit {type(self).__name__} as config.json describes it:\n  {details}"
            )
        return drawn

    def _put(
        self, weights: dict[str, Tensor], drawn: list[str], wanted: dict[str, Tensor], folder: Path,
        quantize: str | None, device: torch.device,
    ) -> None:  # fmt: skip
        """Put weights that fit into the model, and encode those that are to be."""
        if drawn:
            warn(f"{folder} has no {', '.join(drawn)}: drawn anew, to be trained")
            weights.update({key: self._drawn(wanted[key], weights) for key in drawn})
        if quantize is not None:
            weights = encode_linears(self, weights, quantize, device, self.active_ties())
        self.load_state_dict(weights, strict=False, assign=True)
        self.tie_weights()

    def _take_packed(self, weights: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
        """Put linear maps that the checkpoint has in a few bits into the model; return its other weights.

        Raises:
            ValueError: the model has no such map, or one of another size.
        """
        config = self.config.extra.get("quantization_config")
        if config is None:
            return weights
        maps, rest = packed_linears(weights, config, str(folder))
        linears = {name: module for name, module in self.named_modules() if isinstance(module, Linear)}
        for name, found in maps.items():
            old = linears.get(name)
            wanted = None if old is None else (old.out_features, old.in_features)
            if found.sizes != wanted:
                raise ValueError(f"{folder}: {name} is {list(found.sizes)}, the model has {wanted or 'none'}")
            parent, _, attribute = name.rpartition(".")
            setattr(self.get_submodule(parent), attribute, found)
        return rest

    def _drawn(self, parameter: Tensor, weights: dict[str, Tensor]) -> Tensor:
        """Return new values for a parameter on the meta device: a matrix is drawn, a bias is zero."""
        like = next(iter(weights.values()))
        result = torch.zeros(parameter.shape, dtype=like.dtype, device=like.device)
        return init.normal_(result, std=self.config.initializer_range) if result.ndim > 1 else result

    def from_checkpoint(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return a checkpoint's weights as the model holds them; an architecture that holds them as they are does nothing."""
        return weights

    def to_checkpoint(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Undo :meth:`from_checkpoint`."""
        return weights

    def _renamed(self, weights: dict[str, V]) -> dict[str, V]:
        """Drop keys without weights, rename others, and put the base model's prefix before the names of a bare checkpoint."""
        patterns = [re.compile(pattern) for pattern in self.ignored_keys]
        kept: dict[str, V] = {}
        for key, value in weights.items():
            for pattern, text in self.renamed_keys.items():
                key = re.sub(pattern, text, key)
            if not any(each.search(key) for each in patterns):
                kept[key] = value
        if self.base_of and any(key.startswith(self.base_of + ".") for key in kept):
            # A checkpoint with a head: the head is left out.
            prefix = self.base_of + "."
            return {key.removeprefix(prefix): value for key, value in kept.items() if key.startswith(prefix)}
        prefix = self.base_model_prefix + "."
        if not self.base_model_prefix or any(key.startswith(prefix) for key in kept):
            return kept
        base = set(self.get_submodule(self.base_model_prefix).state_dict())
        return {(prefix + key if key in base else key): value for key, value in kept.items()}

    def save_pretrained(self, folder: str | Path, max_shard_size: int | str = "5GB") -> None:
        """Write config.json, generation_config.json and the weights as safetensors, as Hugging Face lays them out.

        Args:
            folder: made if it does not exist.
            max_shard_size: bytes per file, as a number or as "200KB", "5GB" and so on.

        Raises:
            ValueError: weights are encoded, which no checkpoint of this layout holds.
        """
        encoded = [name for name, module in self.named_modules() if isinstance(module, EncodedLinear)]
        if encoded:
            raise ValueError(
                f"{len(encoded)} weights are encoded ({encoded[0]}, …): save the model that was loaded without quantize"
            )
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._save_configuration(folder)
        ties = self.active_ties()
        weights = self.to_checkpoint({key: value for key, value in self.state_dict().items() if key not in ties})
        checkpoint.save(weights, folder, max_shard_size, self.weight_files[0])

    def _save_configuration(self, folder: Path) -> None:
        self.config.extra.update(architectures=[type(self).__name__], dtype=str(self.dtype).removeprefix("torch."))
        self.config.save_pretrained(folder)
        self.generation_config.save_pretrained(folder)
