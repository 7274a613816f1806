"""Pretrained models on webgpu-torch: Hugging Face checkpoints, tokenizers and text generation."""

from __future__ import annotations

from webgpu_torch_models.auto import AutoConfig as AutoConfig
from webgpu_torch_models.auto import AutoModel as AutoModel
from webgpu_torch_models.auto import AutoModelForCausalLM as AutoModelForCausalLM
from webgpu_torch_models.auto import AutoModelForImageClassification as AutoModelForImageClassification
from webgpu_torch_models.auto import AutoModelForMaskedLM as AutoModelForMaskedLM
from webgpu_torch_models.auto import AutoModelForQuestionAnswering as AutoModelForQuestionAnswering
from webgpu_torch_models.auto import AutoModelForSeq2SeqLM as AutoModelForSeq2SeqLM
from webgpu_torch_models.auto import AutoModelForSequenceClassification as AutoModelForSequenceClassification
from webgpu_torch_models.auto import AutoModelForSpeechSeq2Seq as AutoModelForSpeechSeq2Seq
from webgpu_torch_models.auto import AutoModelForTokenClassification as AutoModelForTokenClassification
from webgpu_torch_models.cache import KeyValueCache as KeyValueCache
from webgpu_torch_models.generation import GenerationConfig as GenerationConfig
from webgpu_torch_models.generation import generate as generate
from webgpu_torch_models.generation import stream as stream
from webgpu_torch_models.gpt2 import GPT2Config as GPT2Config
from webgpu_torch_models.gpt2 import GPT2LMHeadModel as GPT2LMHeadModel
from webgpu_torch_models.output import CausalLMOutput as CausalLMOutput
from webgpu_torch_models.pipelines import pipeline as pipeline
from webgpu_torch_models.pretrained import PreTrainedModel as PreTrainedModel
from webgpu_torch_models.tokenizer import AutoTokenizer as AutoTokenizer
from webgpu_torch_models.tokenizer import TextStream as TextStream
from webgpu_torch_models.tokenizer import Tokenizer as Tokenizer

__all__ = [
    "AutoConfig",
    "AutoModel",
    "AutoModelForCausalLM",
    "AutoModelForImageClassification",
    "AutoModelForMaskedLM",
    "AutoModelForQuestionAnswering",
    "AutoModelForSeq2SeqLM",
    "AutoModelForSequenceClassification",
    "AutoModelForSpeechSeq2Seq",
    "AutoModelForTokenClassification",
    "AutoTokenizer",
    "CausalLMOutput",
    "GPT2Config",
    "GPT2LMHeadModel",
    "GenerationConfig",
    "KeyValueCache",
    "PreTrainedModel",
    "TextStream",
    "Tokenizer",
    "generate",
    "pipeline",
    "stream",
]
