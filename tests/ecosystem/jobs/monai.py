import torch
from monai.inferers import SlidingWindowInferer
from monai.losses import DiceCELoss, DiceLoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.transforms import Compose, RandFlip, RandGaussianNoise, ScaleIntensity


def unet():
    net = UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,), num_res_units=1)
    out = net(torch.randn(2, 1, 16, 16))
    loss = DiceCELoss(softmax=True, to_onehot_y=True)(out, torch.randint(0, 2, (2, 1, 16, 16)))
    loss.backward()
    return [out, loss, torch.stack([each.grad.norm() for each in net.parameters() if each.grad is not None])]


def losses():
    return DiceLoss(sigmoid=True)(torch.randn(2, 1, 8, 8, 8), torch.randint(0, 2, (2, 1, 8, 8, 8)))


def metric():
    found = DiceMetric()
    found(torch.randint(0, 2, (2, 1, 8, 8)), torch.randint(0, 2, (2, 1, 8, 8)))
    return found.aggregate()


def transforms():
    chain = Compose([ScaleIntensity(), RandFlip(prob=1.0), RandGaussianNoise(prob=0.0)])
    return torch.as_tensor(chain(torch.rand(1, 8, 8)))


def windows():
    return SlidingWindowInferer((8, 8), overlap=0.25)(torch.randn(1, 1, 20, 20), torch.nn.Conv2d(1, 2, 3, padding=1))
