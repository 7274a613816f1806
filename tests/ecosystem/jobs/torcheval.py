import torch
from torcheval import metrics
from torcheval.metrics import functional


def classification():
    scores, labels = torch.rand(40, 4), torch.randint(4, (40,))
    found = []
    for metric in (
        metrics.MulticlassAccuracy(), metrics.MulticlassF1Score(num_classes=4, average="macro"), metrics.MulticlassAUROC(num_classes=4),
        metrics.MulticlassConfusionMatrix(4), metrics.MulticlassAUPRC(num_classes=4),
    ):  # fmt: skip
        metric.update(scores[:20], labels[:20]).update(scores[20:], labels[20:])
        found.append(metric.compute())
    return found


def binary():
    scores, labels = torch.rand(40), torch.randint(2, (40,))
    return [
        functional.binary_auroc(scores, labels), functional.binary_precision_recall_curve(scores, labels),
        functional.binary_normalized_entropy(scores, labels.float()), functional.binary_confusion_matrix(scores, labels),
    ]  # fmt: skip


def merged():
    one, other = metrics.R2Score(), metrics.R2Score()
    one.update(torch.randn(10), torch.randn(10))
    other.update(torch.randn(10), torch.randn(10))
    return [one.merge_state([other]).compute(), one.state_dict()]


def texts():
    return [
        functional.word_error_rate(["a b c d"], ["a x c"]), functional.bleu_score(["a b c d e"], [["a b c d f"]], n_gram=2),
        functional.perplexity(torch.randn(1, 5, 7), torch.randint(7, (1, 5))),
    ]  # fmt: skip
