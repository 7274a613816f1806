import torch
from curated_transformers.layers import AttentionMask
from curated_transformers.models import BERTConfig, BERTEncoder, LlamaConfig, LlamaDecoder


def _mask():
    return AttentionMask(torch.ones(2, 5, dtype=torch.bool))


def bert():
    config = BERTConfig(
        embedding_width=16, hidden_width=16, intermediate_width=24, n_attention_heads=2, n_hidden_layers=2, n_pieces=30
    )
    return BERTEncoder(config).eval()(torch.randint(0, 30, (2, 5)), _mask()).last_hidden_layer_state


def llama():
    config = LlamaConfig(
        hidden_width=16, intermediate_width=24, n_query_heads=2, n_key_value_heads=2, n_hidden_layers=2, n_pieces=30
    )
    return LlamaDecoder(config).eval()(torch.randint(0, 30, (2, 5)), _mask()).last_hidden_layer_state
