import torch
import torchmetrics


def classification():
    scores, labels = torch.randn(40, 5).softmax(-1), torch.randint(5, (40,))
    metrics = torchmetrics.MetricCollection(
        {
            "accuracy": torchmetrics.Accuracy("multiclass", num_classes=5),
            "f1": torchmetrics.F1Score("multiclass", num_classes=5, average="macro"),
            "auroc": torchmetrics.AUROC("multiclass", num_classes=5),
            "confusion": torchmetrics.ConfusionMatrix("multiclass", num_classes=5),
        }
    )
    metrics.update(scores[:20], labels[:20])
    metrics.update(scores[20:], labels[20:])
    return metrics.compute()


def regression():
    one, other = torch.randn(50), torch.randn(50)
    return [
        metric(one, other)
        for metric in (
            torchmetrics.MeanSquaredError(),
            torchmetrics.PearsonCorrCoef(),
            torchmetrics.R2Score(),
            torchmetrics.SpearmanCorrCoef(),
        )
    ]


def images():
    from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure

    one, other = torch.rand(2, 3, 24, 24), torch.rand(2, 3, 24, 24)
    return [
        PeakSignalNoiseRatio(data_range=1.0)(one, other),
        StructuralSimilarityIndexMeasure(data_range=1.0)(one, other),
    ]


def retrieval():
    from torchmetrics.retrieval import RetrievalMAP

    return RetrievalMAP()(torch.rand(12), torch.randint(2, (12,)), indexes=torch.arange(12) // 4)
