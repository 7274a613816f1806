import torch
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper, ViTransformerWrapper


def _run(**options):
    model = AutoregressiveWrapper(
        TransformerWrapper(num_tokens=32, max_seq_len=24, attn_layers=Decoder(dim=32, depth=2, heads=2, **options))
    )
    loss = model(torch.randint(0, 32, (2, 20)))
    loss.backward()
    return [loss, torch.stack([each.grad.norm() for each in model.parameters() if each.grad is not None])]


def plain():
    return _run()


def rotary():
    return _run(rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True)


def alibi():
    return _run(alibi_pos_bias=True)


def grouped():
    return _run(attn_kv_heads=1)


def generated():
    model = AutoregressiveWrapper(
        TransformerWrapper(num_tokens=32, max_seq_len=24, attn_layers=Decoder(dim=32, depth=1, heads=2))
    )
    return model.generate(torch.randint(0, 32, (2, 3)), 6, temperature=0.0)


def image():
    return ViTransformerWrapper(
        image_size=16, patch_size=8, num_classes=3, attn_layers=Encoder(dim=16, depth=1, heads=2)
    )(torch.randn(1, 3, 16, 16))
