import roma
import torch


def conversions():
    vector = torch.randn(5, 3)
    matrix, quaternion = roma.rotvec_to_rotmat(vector), roma.rotvec_to_unitquat(vector)
    angles = roma.rotmat_to_euler("xyz", matrix, degrees=True)
    return [
        matrix,
        quaternion,
        angles,
        roma.rotmat_to_rotvec(matrix),
        roma.euler_to_rotmat("xyz", angles, degrees=True),
    ]


def projection():
    matrix = torch.randn(4, 3, 3, requires_grad=True)
    rotation = roma.special_procrustes(matrix)
    (rotation * torch.arange(9.0).view(3, 3)).sum().backward()
    return [rotation, matrix.grad, roma.special_gramschmidt(torch.randn(2, 3, 2))]


def registration():
    points = torch.randn(2, 10, 3)
    moved = points @ roma.random_rotmat(2).mT + torch.tensor([1.0, 2.0, 3.0])
    return [roma.rigid_points_registration(points, moved), roma.rigid_vectors_registration(points, moved)]


def interpolation():
    one, other = roma.random_unitquat(3), roma.random_unitquat(3)
    steps = torch.linspace(0, 1, 4)
    return [roma.unitquat_slerp(one, other, steps), roma.unitquat_geodesic_distance(one, other)]


def transformations():
    rigid, other = (roma.Rigid(roma.random_rotmat(4), torch.randn(4, 3)) for _ in range(2))
    return [rigid.inverse().compose(other).to_homogeneous(), rigid.apply(torch.randn(4, 3))]
