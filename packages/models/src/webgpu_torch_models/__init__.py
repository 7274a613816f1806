"""Pretrained models on webgpu-torch: Hugging Face checkpoints, tokenizers and text generation."""

from __future__ import annotations

from webgpu_torch_models.audio import SpeechFeatures as SpeechFeatures
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
from webgpu_torch_models.bert import BertConfig as BertConfig
from webgpu_torch_models.bert import BertForMaskedLM as BertForMaskedLM
from webgpu_torch_models.bert import BertForQuestionAnswering as BertForQuestionAnswering
from webgpu_torch_models.bert import BertForSequenceClassification as BertForSequenceClassification
from webgpu_torch_models.bert import BertForTokenClassification as BertForTokenClassification
from webgpu_torch_models.bert import BertModel as BertModel
from webgpu_torch_models.cache import KeyValueCache as KeyValueCache
from webgpu_torch_models.clip import CLIPConfig as CLIPConfig
from webgpu_torch_models.clip import CLIPModel as CLIPModel
from webgpu_torch_models.clip import CLIPTextConfig as CLIPTextConfig
from webgpu_torch_models.clip import CLIPTextModel as CLIPTextModel
from webgpu_torch_models.clip import CLIPTextModelWithProjection as CLIPTextModelWithProjection
from webgpu_torch_models.clip import CLIPVisionConfig as CLIPVisionConfig
from webgpu_torch_models.clip import CLIPVisionModel as CLIPVisionModel
from webgpu_torch_models.clip import SiglipConfig as SiglipConfig
from webgpu_torch_models.clip import SiglipModel as SiglipModel
from webgpu_torch_models.clip import SiglipTextConfig as SiglipTextConfig
from webgpu_torch_models.clip import SiglipTextModel as SiglipTextModel
from webgpu_torch_models.clip import SiglipVisionConfig as SiglipVisionConfig
from webgpu_torch_models.clip import SiglipVisionModel as SiglipVisionModel
from webgpu_torch_models.decoder_families import Gemma2Config as Gemma2Config
from webgpu_torch_models.decoder_families import Gemma2ForCausalLM as Gemma2ForCausalLM
from webgpu_torch_models.decoder_families import Gemma3ForCausalLM as Gemma3ForCausalLM
from webgpu_torch_models.decoder_families import Gemma3TextConfig as Gemma3TextConfig
from webgpu_torch_models.decoder_families import GemmaConfig as GemmaConfig
from webgpu_torch_models.decoder_families import GemmaForCausalLM as GemmaForCausalLM
from webgpu_torch_models.decoder_families import LlamaConfig as LlamaConfig
from webgpu_torch_models.decoder_families import LlamaForCausalLM as LlamaForCausalLM
from webgpu_torch_models.decoder_families import MistralConfig as MistralConfig
from webgpu_torch_models.decoder_families import MistralForCausalLM as MistralForCausalLM
from webgpu_torch_models.decoder_families import Olmo2Config as Olmo2Config
from webgpu_torch_models.decoder_families import Olmo2ForCausalLM as Olmo2ForCausalLM
from webgpu_torch_models.decoder_families import Phi3Config as Phi3Config
from webgpu_torch_models.decoder_families import Phi3ForCausalLM as Phi3ForCausalLM
from webgpu_torch_models.decoder_families import Qwen2Config as Qwen2Config
from webgpu_torch_models.decoder_families import Qwen2ForCausalLM as Qwen2ForCausalLM
from webgpu_torch_models.decoder_families import Qwen3Config as Qwen3Config
from webgpu_torch_models.decoder_families import Qwen3ForCausalLM as Qwen3ForCausalLM
from webgpu_torch_models.distilbert import DistilBertConfig as DistilBertConfig
from webgpu_torch_models.distilbert import DistilBertForMaskedLM as DistilBertForMaskedLM
from webgpu_torch_models.distilbert import DistilBertForQuestionAnswering as DistilBertForQuestionAnswering
from webgpu_torch_models.distilbert import DistilBertForSequenceClassification as DistilBertForSequenceClassification
from webgpu_torch_models.distilbert import DistilBertForTokenClassification as DistilBertForTokenClassification
from webgpu_torch_models.distilbert import DistilBertModel as DistilBertModel
from webgpu_torch_models.experts import MixtralConfig as MixtralConfig
from webgpu_torch_models.experts import MixtralForCausalLM as MixtralForCausalLM
from webgpu_torch_models.experts import Qwen3MoeConfig as Qwen3MoeConfig
from webgpu_torch_models.experts import Qwen3MoeForCausalLM as Qwen3MoeForCausalLM
from webgpu_torch_models.generation import GenerationConfig as GenerationConfig
from webgpu_torch_models.generation import generate as generate
from webgpu_torch_models.generation import stream as stream
from webgpu_torch_models.gpt2 import GPT2Config as GPT2Config
from webgpu_torch_models.gpt2 import GPT2LMHeadModel as GPT2LMHeadModel
from webgpu_torch_models.gpt_neox import GPTNeoXConfig as GPTNeoXConfig
from webgpu_torch_models.gpt_neox import GPTNeoXForCausalLM as GPTNeoXForCausalLM
from webgpu_torch_models.image_processor import ImageProcessor as ImageProcessor
from webgpu_torch_models.output import CausalLMOutput as CausalLMOutput
from webgpu_torch_models.pipelines import pipeline as pipeline
from webgpu_torch_models.pretrained import PreTrainedModel as PreTrainedModel
from webgpu_torch_models.roberta import RobertaConfig as RobertaConfig
from webgpu_torch_models.roberta import RobertaForMaskedLM as RobertaForMaskedLM
from webgpu_torch_models.roberta import RobertaForQuestionAnswering as RobertaForQuestionAnswering
from webgpu_torch_models.roberta import RobertaForSequenceClassification as RobertaForSequenceClassification
from webgpu_torch_models.roberta import RobertaForTokenClassification as RobertaForTokenClassification
from webgpu_torch_models.roberta import RobertaModel as RobertaModel
from webgpu_torch_models.t5 import T5Config as T5Config
from webgpu_torch_models.t5 import T5EncoderModel as T5EncoderModel
from webgpu_torch_models.t5 import T5ForConditionalGeneration as T5ForConditionalGeneration
from webgpu_torch_models.tokenizer import AutoTokenizer as AutoTokenizer
from webgpu_torch_models.tokenizer import TextStream as TextStream
from webgpu_torch_models.tokenizer import Tokenizer as Tokenizer
from webgpu_torch_models.vit import DeiTConfig as DeiTConfig
from webgpu_torch_models.vit import DeiTForImageClassification as DeiTForImageClassification
from webgpu_torch_models.vit import DeiTForImageClassificationWithTeacher as DeiTForImageClassificationWithTeacher
from webgpu_torch_models.vit import DeiTModel as DeiTModel
from webgpu_torch_models.vit import Dinov2Config as Dinov2Config
from webgpu_torch_models.vit import Dinov2ForImageClassification as Dinov2ForImageClassification
from webgpu_torch_models.vit import Dinov2Model as Dinov2Model
from webgpu_torch_models.vit import ViTConfig as ViTConfig
from webgpu_torch_models.vit import ViTForImageClassification as ViTForImageClassification
from webgpu_torch_models.vit import ViTModel as ViTModel
from webgpu_torch_models.whisper import WhisperConfig as WhisperConfig
from webgpu_torch_models.whisper import WhisperForConditionalGeneration as WhisperForConditionalGeneration

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
    "BertConfig",
    "BertForMaskedLM",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertModel",
    "CLIPConfig",
    "CLIPModel",
    "CLIPTextConfig",
    "CLIPTextModel",
    "CLIPTextModelWithProjection",
    "CLIPVisionConfig",
    "CLIPVisionModel",
    "CausalLMOutput",
    "DeiTConfig",
    "DeiTForImageClassification",
    "DeiTForImageClassificationWithTeacher",
    "DeiTModel",
    "Dinov2Config",
    "Dinov2ForImageClassification",
    "Dinov2Model",
    "DistilBertConfig",
    "DistilBertForMaskedLM",
    "DistilBertForQuestionAnswering",
    "DistilBertForSequenceClassification",
    "DistilBertForTokenClassification",
    "DistilBertModel",
    "GPT2Config",
    "GPT2LMHeadModel",
    "GPTNeoXConfig",
    "GPTNeoXForCausalLM",
    "Gemma2Config",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "Gemma3TextConfig",
    "GemmaConfig",
    "GemmaForCausalLM",
    "GenerationConfig",
    "ImageProcessor",
    "KeyValueCache",
    "LlamaConfig",
    "LlamaForCausalLM",
    "MistralConfig",
    "MistralForCausalLM",
    "MixtralConfig",
    "MixtralForCausalLM",
    "Olmo2Config",
    "Olmo2ForCausalLM",
    "Phi3Config",
    "Phi3ForCausalLM",
    "PreTrainedModel",
    "Qwen2Config",
    "Qwen2ForCausalLM",
    "Qwen3Config",
    "Qwen3ForCausalLM",
    "Qwen3MoeConfig",
    "Qwen3MoeForCausalLM",
    "RobertaConfig",
    "RobertaForMaskedLM",
    "RobertaForQuestionAnswering",
    "RobertaForSequenceClassification",
    "RobertaForTokenClassification",
    "RobertaModel",
    "SiglipConfig",
    "SiglipModel",
    "SiglipTextConfig",
    "SiglipTextModel",
    "SiglipVisionConfig",
    "SiglipVisionModel",
    "SpeechFeatures",
    "T5Config",
    "T5EncoderModel",
    "T5ForConditionalGeneration",
    "TextStream",
    "Tokenizer",
    "ViTConfig",
    "ViTForImageClassification",
    "ViTModel",
    "WhisperConfig",
    "WhisperForConditionalGeneration",
    "generate",
    "pipeline",
    "stream",
]
