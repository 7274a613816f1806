import normflows as nf
import torch


def real_nvp():
    flows = [nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2], init_zeros=True)), nf.flows.Permute(2, mode="swap")]
    model = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), flows)
    loss = model.forward_kld(torch.randn(16, 2))
    loss.backward()
    return [loss, torch.stack([each.grad.norm() for each in model.parameters() if each.grad is not None])]


def spline():
    model = nf.NormalizingFlow(
        nf.distributions.DiagGaussian(2, trainable=False), [nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8)]
    )
    return model.log_prob(torch.randn(5, 2))
