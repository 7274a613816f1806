import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet


def train_and_sample():
    net = Unet(dim=8, dim_mults=(1, 2), flash_attn=False)
    model = GaussianDiffusion(net, image_size=16, timesteps=20, sampling_timesteps=3)
    loss = model(torch.rand(2, 3, 16, 16))
    loss.backward()
    return [
        loss,
        torch.stack([each.grad.norm() for each in net.parameters() if each.grad is not None]),
        model.sample(batch_size=1),
    ]
