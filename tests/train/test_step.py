"""A step of the trainer, written out: warm-up, clipping, AdamW, the average; evaluations use the average."""

from dataclasses import replace

import pytest
import torch

from dbtm.config import OptimConfig, TrainConfig
from dbtm.train.loop import Trainer
from tests.train.test_resume import tiny_run

OPTIM = OptimConfig(lr=1e-2, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1, warmup=3, ema=0.6, ema_warmup=False)


def trainer_of(tmp_path, clip: float, **train) -> Trainer:
    settings = TrainConfig(steps=4, batch=4, device="cpu", **train)
    return Trainer(tiny_run(optim=replace(OPTIM, clip=clip), train=settings), tmp_path / "run")


@pytest.mark.parametrize("clip", [0.05, 0.0], ids=["clipped", "unclipped"])
def test_steps_are_clipped_adamw_with_warm_up_and_an_average(tmp_path, clip):
    """Gradients are the trainer's; the rest of the step is written out."""
    trainer = trainer_of(tmp_path, clip)
    trainer.model.double()
    trainer.ema.model.double()
    trainer.method.frozen["teacher"].double()
    gradients: dict[str, torch.Tensor] = {}

    def keep(*_) -> None:
        gradients.update((name, p.grad.detach().clone()) for name, p in trainer.model.named_parameters())

    finish = trainer.layout.finish
    trainer.layout.finish = lambda: (finish(), keep())[0]  # before they are clipped
    want = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    average = {name: p.clone() for name, p in want.items()}
    m, v = ({name: torch.zeros_like(p) for name, p in want.items()} for _ in range(2))
    for t, batch in zip(range(1, 5), trainer.batches()):
        terms = trainer._step(batch)
        trainer.step += 1
        assert all(p.grad is None or not p.grad.any() for p in trainer.model.parameters()), "no gradient is left"
        norm = sum((g**2).sum() for g in gradients.values()).sqrt()
        assert terms["grad_norm"].item() == pytest.approx(norm.item())
        assert norm > 0.06, "clipping has an effect"
        share = min(1.0, clip / norm.item()) if clip else 1.0
        lr = 1e-2 * min(1.0, t / 3)
        for name, g in gradients.items():
            m[name] = 0.8 * m[name] + 0.2 * share * g
            v[name] = 0.95 * v[name] + 0.05 * (share * g) ** 2
            direction = (m[name] / (1 - 0.8**t)) / ((v[name] / (1 - 0.95**t)).sqrt() + 1e-4)
            want[name] = want[name] - lr * 0.1 * want[name] - lr * direction
            average[name] = 0.6 * average[name] + 0.4 * want[name]
    for name, p in trainer.model.named_parameters():
        torch.testing.assert_close(p.detach(), want[name], rtol=1e-5, atol=1e-8, msg=name)
    for name, p in trainer.ema.model.named_parameters():
        torch.testing.assert_close(p, average[name], rtol=1e-5, atol=1e-8, msg=name)


def test_the_average_is_what_is_measured(tmp_path):
    """app:reason-exp-details: all numbers use EMA weights."""
    trainer = trainer_of(tmp_path, 1.0, evaluate_every=2)
    measured = []
    trainer.evaluate = lambda sampler, seed: measured.append(sampler.network) or {}
    trainer.run()
    assert len(measured) == 2
    assert all(network is trainer.ema.model for network in measured)
    different = [(a != b).any() for a, b in zip(trainer.ema.model.parameters(), trainer.model.parameters())]
    assert any(different)
