import torch
from ultralytics.nn.tasks import ClassificationModel, DetectionModel, SegmentationModel


def _run(kind, name, size=64):
    model = kind(name, verbose=False).eval()
    with torch.no_grad():
        out = model(torch.rand(1, 3, size, size))
    return out[0] if isinstance(out, (list, tuple)) else out


def v8():
    return _run(DetectionModel, "yolov8n.yaml")


def v11():
    return _run(DetectionModel, "yolo11n.yaml")


def segmentation():
    return _run(SegmentationModel, "yolov8n-seg.yaml")


def classification():
    return _run(ClassificationModel, "yolov8n-cls.yaml")
