import torch

from dbtm.train.muon import Muon, orthogonalise


def test_it_is_torchs_muon():
    """Several steps on matrices of several shapes, against torch.optim.Muon (which works on one matrix at a time)."""
    torch.manual_seed(0)
    shapes = [(24, 8), (8, 24), (24, 8), (16, 16), (8, 24)]
    ours = [torch.randn(s).requires_grad_() for s in shapes]
    theirs = [p.detach().clone().requires_grad_() for p in ours]
    optimizers = [
        Muon(ours, lr=0.02, momentum=0.9, weight_decay=0.1),
        torch.optim.Muon(theirs, lr=0.02, momentum=0.9, weight_decay=0.1),
    ]
    for _ in range(4):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).abs().max() < 0.02 * 4 * 0.02  # only the order of bfloat16 sums differs


def test_orthogonalise_brings_singular_values_near_one():
    torch.manual_seed(1)
    for shape in ((3, 20, 12), (2, 12, 20)):
        values = torch.linalg.svdvals(orthogonalise(torch.randn(shape)).float())
        assert values.min() > 0.5
        assert values.max() < 1.3
