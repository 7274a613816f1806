import torch
from coral_pytorch.dataset import levels_from_labelbatch, proba_to_label
from coral_pytorch.layers import CoralLayer
from coral_pytorch.losses import CornLoss, coral_loss, corn_loss


def ordinal():
    features = torch.randn(6, 5, requires_grad=True)
    labels = torch.tensor([0, 3, 1, 2, 3, 0])
    logits = CoralLayer(size_in=5, num_classes=4)(features)
    loss = coral_loss(logits, levels_from_labelbatch(labels, num_classes=4))
    conditional = corn_loss(torch.nn.Linear(5, 3)(features), labels, 4) + CornLoss(4)(logits, labels)
    (loss + conditional).backward()
    return [loss, conditional, features.grad, proba_to_label(torch.sigmoid(logits))]
