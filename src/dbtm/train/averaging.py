"""Gradients of replicated weights, averaged during the backward pass.

A step backpropagates its objective in parts, and every part adds to the same gradients. So a gradient is ready after
the last part, not the first. DistributedDataParallel wraps one forward pass and would reduce once per part, or not
overlap at all. Here the first step of a phase counts the additions to each gradient; from the second step on, a bucket
is sent as soon as all its gradients have had that many additions.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn

BUCKET = 25 << 20  # bytes, as in DistributedDataParallel


@dataclass
class _Bucket:
    parameters: list[nn.Parameter]
    missing: int = 0  # gradients that are not ready yet
    flat: Tensor | None = None  # the data sent
    work: dist.Work | None = None
    sent: list[nn.Parameter] = field(default_factory=list)


class Averaging:
    """The mean of the gradients over a group of processes, one collective per bucket and step.

    All processes run the same steps and send buckets in the same order. `overlap`: send during the backward pass; not
    possible if it is recorded (a CUDA graph).
    """

    def __init__(self, parameters: list[nn.Parameter], group: dist.ProcessGroup | None, overlap: bool = True):
        self.group, self.size = group, dist.get_world_size(group)
        self.buckets = list(_buckets(parameters))
        self.of = {p: bucket for bucket in self.buckets for p in bucket.parameters}
        self.known: dict[Hashable, dict[nn.Parameter, int]] = {}
        self.seen: dict[nn.Parameter, int] = {}
        self.expected: dict[nn.Parameter, int] = {}
        self.next = 0
        if overlap:
            for p in parameters:
                p.register_post_accumulate_grad_hook(self._arrived)

    def begin(self, phase: Hashable) -> None:
        """Start a step; steps of one phase run the same operations."""
        self.phase, self.seen, self.next = phase, {}, 0
        self.expected = self.known.get(phase, {})
        for bucket in self.buckets:
            bucket.missing = sum(p in self.expected for p in bucket.parameters)
            bucket.work, bucket.flat = None, None

    def _arrived(self, parameter: Tensor) -> None:
        """Called by autograd after each addition to a gradient."""
        assert isinstance(parameter, nn.Parameter)
        self.seen[parameter] = count = self.seen.get(parameter, 0) + 1
        wanted, bucket = self.expected.get(parameter), self.of[parameter]
        if bucket.work is not None:
            raise RuntimeError("a gradient changed after it was averaged: all steps of a phase must be the same")
        if count == wanted:
            bucket.missing -= 1
            self._send_ready()

    def _send_ready(self) -> None:
        while self.next < len(self.buckets) and self.expected and not self.buckets[self.next].missing:
            self._send(self.buckets[self.next])
            self.next += 1

    def _send(self, bucket: _Bucket) -> None:
        bucket.sent = [p for p in bucket.parameters if p.grad is not None]
        if bucket.sent:
            bucket.flat = torch.cat([p.grad.flatten() for p in bucket.sent if p.grad is not None])
            bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)

    def finish(self) -> None:
        """Send the remaining buckets, wait for all, and replace the gradients by their means."""
        for bucket in self.buckets[self.next :]:
            self._send(bucket)
        for bucket in self.buckets:
            if bucket.work is None or bucket.flat is None:
                continue
            bucket.work.wait()
            bucket.flat /= self.size
            gradients = [p.grad for p in bucket.sent if p.grad is not None]
            for gradient, mean in zip(gradients, bucket.flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(mean.view_as(gradient))
            bucket.work, bucket.flat = None, None
        if self.seen and self.phase not in self.known:
            self.known = {self.phase: self._agreed()}  # phases do not recur

    def _agreed(self) -> dict[nn.Parameter, int]:
        """The number of additions to every gradient in this step; empty if processes differ, which disables overlap."""
        counts = torch.tensor([self.seen.get(p, 0) for p in self.of], device=next(iter(self.of)).device)
        lowest, highest = counts.clone(), counts.clone()
        dist.all_reduce(lowest, dist.ReduceOp.MIN, self.group)
        dist.all_reduce(highest, dist.ReduceOp.MAX, self.group)
        return dict(self.seen) if bool((lowest == highest).all()) else {}


def _buckets(parameters: list[nn.Parameter]):
    """Buckets in the order of the backward pass, which computes the last parameters' gradients first."""
    bucket: list[nn.Parameter] = []
    for p in reversed(parameters):
        if bucket and (p.dtype != bucket[0].dtype or sum(q.nbytes for q in bucket) + p.nbytes > BUCKET):
            yield _Bucket(bucket)
            bucket = []
        bucket.append(p)
    if bucket:
        yield _Bucket(bucket)
