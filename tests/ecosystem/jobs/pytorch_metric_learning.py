import torch
from pytorch_metric_learning import distances, losses, miners


def _run(loss):
    x = torch.randn(12, 8, requires_grad=True)
    value = loss(x, torch.arange(12) % 4)
    value.backward()
    return [value, x.grad]


def triplet():
    return _run(losses.TripletMarginLoss())


def contrastive():
    return _run(losses.ContrastiveLoss())


def circle():
    return _run(losses.CircleLoss())


def multi_similarity():
    return _run(losses.MultiSimilarityLoss())


def arcface():
    return _run(losses.ArcFaceLoss(4, 8))


def ntxent():
    return _run(losses.NTXentLoss())


def proxies():
    return _run(losses.ProxyAnchorLoss(4, 8))


def mined():
    x = torch.randn(12, 8)
    labels = torch.arange(12) % 3
    return losses.TripletMarginLoss(distance=distances.CosineSimilarity())(
        x, labels, miners.BatchHardMiner()(x, labels)
    )
