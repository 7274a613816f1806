"""What is served: a language model, a model that embeds texts, or one that draws images, as its folder says."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_models import AutoModel, AutoModelForCausalLM, AutoTokenizer, Tokenizer
from webgpu_torch_models.bert import mean_pooling
from webgpu_torch_models.config import ModelConfig, read_json
from webgpu_torch_models.diffusion import DiffusionPipeline
from webgpu_torch_models.generation import ContinuousBatch
from webgpu_torch_models.generation.continuous import BATCH_SIZES
from webgpu_torch_models.hub import find_folder
from webgpu_torch_models.registry import CAUSAL_LM, MODEL, architecture

TEXT, EMBEDDINGS, IMAGES = "text", "embeddings", "images"
POOLING_FILE = "1_Pooling/config.json"
#: what the folders of embedding models call the ways to make one vector of many, where a model here has them
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first", "pooling_mode_lasttoken": "last"}


@dataclasses.dataclass(frozen=True)
class CacheSizes:
    """Sizes of the key-value cache: its pages, tokens of a page, and how many requests run at once."""

    pages: int = 512
    page_size: int = 16
    most: int = BATCH_SIZES[-1]

    @property
    def tokens(self) -> int:
        """How many tokens there is room for."""
        return self.pages * self.page_size


@dataclasses.dataclass
class Served:
    """A model and what it is asked for.

    Attributes:
        name: by which requests call it.
        kind: "text", "embeddings" or "images".
        model: the network, or the pipeline.
        tokenizer: of texts; a pipeline has its own.
        pooling: "mean", "first" or "last": which tokens' states are a text's embedding.
        sizes: of the key-value cache.
    """

    name: str
    kind: str
    model: Any
    tokenizer: Tokenizer | None = None
    pooling: str = "mean"
    sizes: CacheSizes = CacheSizes()

    def new_batch(self) -> ContinuousBatch | None:
        """Return an empty running batch; None for a model that continues nothing."""
        if self.kind != TEXT:
            return None
        sizes = self.sizes
        rows = [*(each for each in BATCH_SIZES if each < sizes.most), sizes.most]
        return ContinuousBatch(
            self.model, self.tokenizer, pages=sizes.pages, page_size=sizes.page_size, batch_sizes=rows
        )

    def room(self, tokens: int) -> int:
        """Return how many tokens may follow so many, as far as the model and its cache reach."""
        limit = getattr(self.model.config, "n_positions", None) or self.sizes.tokens
        return min(limit, self.sizes.tokens) - tokens

    def embed(self, rows: list[list[int]]) -> list[list[float]]:
        """Return a vector of length one for each text.

        Args:
            rows: the texts' tokens.

        Raises:
            ValueError: a text is longer than the model can read.
        """
        device, longest = self.model.device, max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device)
        with torch.no_grad():
            vectors = self._pooled(ids, mask)
            return (vectors / vectors.norm(dim=-1, keepdim=True).clamp(min=1e-12)).tolist()

    def _pooled(self, ids: Tensor, mask: Tensor) -> Tensor:
        if hasattr(self.model, "hidden"):
            states = self.model.hidden(ids, self.model.default_positions(ids, mask), mask, None)
        else:
            states = self.model(ids, attention_mask=mask).last_hidden_state
        if self.pooling == "mean":
            return mean_pooling(states.float(), mask, normalize=False)
        if self.pooling == "first":
            return states[:, 0].float()
        last = (mask.sum(1) - 1)[:, None, None].expand(-1, 1, states.shape[-1])
        return states.gather(1, last).squeeze(1).float()


def _pooling_of(folder: Path) -> str | None:
    """Return how a folder says that states are pooled; None where it is no embedding model's.

    Raises:
        ValueError: in a way that is not supported.
    """
    path = folder / POOLING_FILE
    if not path.is_file():
        return None
    values = read_json(path)
    wanted = [key for key in values if key.startswith("pooling_mode_") and values[key] is True]
    if len(wanted) != 1 or wanted[0] not in POOLINGS:
        raise ValueError(
            f"{path} asks for {', '.join(wanted) or 'nothing'}; supported is one of: {', '.join(POOLINGS)}"
        )
    return POOLINGS[wanted[0]]


def load(
    model: str | Path, *, name: str | None = None, device: torch.device | str | None = None,
    dtype: torch.dtype | None = None, quantize: str | None = None, sizes: CacheSizes = CacheSizes(),
) -> Served:  # fmt: skip
    """Load what a folder, or a hub id, holds.

    Args:
        model: the folder or id.
        name: by which requests call it; by default the folder's own name, or the id.
        device, dtype, quantize: as a model's ``from_pretrained`` takes them.
        sizes: of the key-value cache.

    Raises:
        FileNotFoundError: there is no such model, or a file is missing in it.
        ValueError: it is no model that is served.
    """
    folder = find_folder(model)
    name = name or (folder.name if Path(model).is_dir() else str(model))
    if (folder / "model_index.json").is_file():
        pipeline = DiffusionPipeline.from_pretrained(folder, device=device, dtype=dtype, quantize=quantize)
        return Served(name, IMAGES, pipeline, sizes=sizes)
    path = folder / ModelConfig.file_name
    found, pooling = architecture(read_json(path).get("model_type"), path), _pooling_of(folder)
    options = {"device": device, "dtype": dtype, "quantize": quantize}
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if CAUSAL_LM in found.tasks:
        network = AutoModelForCausalLM.from_pretrained(folder, **options)
        return Served(name, EMBEDDINGS if pooling else TEXT, network, tokenizer, pooling or "mean", sizes=sizes)
    if MODEL not in found.tasks or not _reads_texts(found.module):
        raise ValueError(f"{model} is a {found.name}: served are decoders, encoders of texts, and diffusion pipelines")
    return Served(
        name,
        EMBEDDINGS,
        AutoModel.from_pretrained(folder, **options),
        tokenizer,
        pooling or "mean",
        sizes=sizes,
    )


def _reads_texts(module: str) -> bool:
    return module in ("bert", "distilbert")
