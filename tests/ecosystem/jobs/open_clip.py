import open_clip
import torch


def clip():
    model = open_clip.CLIP(
        embed_dim=16,
        vision_cfg={"image_size": 32, "layers": 2, "width": 64, "patch_size": 8},
        text_cfg={"context_length": 10, "vocab_size": 50, "width": 32, "heads": 2, "layers": 2},
    )
    images, texts, scale = model(torch.randn(2, 3, 32, 32), torch.randint(0, 50, (2, 10)))
    loss = open_clip.ClipLoss()(images, texts, scale)
    loss.backward()
    return [
        images,
        texts,
        scale,
        loss,
        torch.stack([each.grad.norm() for each in model.parameters() if each.grad is not None]),
    ]


def coca():
    from open_clip.coca_model import CoCa

    model = CoCa(
        embed_dim=16,
        multimodal_cfg={"context_length": 10, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1},
        text_cfg={
            "context_length": 10,
            "vocab_size": 50,
            "width": 32,
            "heads": 2,
            "layers": 1,
            "embed_cls": True,
            "output_tokens": True,
        },
        vision_cfg={
            "image_size": 32,
            "layers": 1,
            "width": 64,
            "patch_size": 8,
            "attentional_pool": True,
            "attn_pooler_heads": 2,
            "output_tokens": True,
        },
    )
    return dict(model(torch.randn(2, 3, 32, 32), torch.randint(1, 50, (2, 10))))
