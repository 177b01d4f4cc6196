"""A bug that breaks a proof without breaking a score is caught by the audit of a canary.

The audit passes on the code as it is (docs/privacy.md §10).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from private_graphs.attacks.audit import run_audit
from private_graphs.attacks.canary import Design, label_scores
from private_graphs.training.torch_backend import TorchBackend

BALANCED = Design("paper", 8.0, runs=400, clip_norm=0.003, feature=1.0, device="torch-cpu")
"""A canary whose gradients of last layer and last bias are alike in norm, and both above the clip
norm: clipped one by one, they are longer together by sqrt(2)."""


def plant_clipping_per_tensor(monkeypatch) -> None:
    honest = TorchBackend._clipped

    def per_tensor(backend, *visits):
        rule = backend.rule
        backend.rule = rule._replace(clip=np.inf)
        gradients = honest(backend, *visits)
        backend.rule = rule
        f, h, k = gradients.shape[1], backend.hidden, 2
        used = backend.used
        ends = [used - h * k - k - h, h, h * k, k, f - used]
        return torch.cat(
            [
                tensor
                * (rule.clip / tensor.norm(dim=1, keepdim=True).clamp(min=1e-30)).clamp(max=1)
                for tensor in gradients.split(ends, dim=1)
            ],
            dim=1,
        )

    monkeypatch.setattr(TorchBackend, "_clipped", per_tensor)


def test_clipping_per_tensor_is_caught_by_the_audit_of_a_balanced_canary(monkeypatch):
    few = replace(BALANCED, runs=20)
    assert label_scores(few, 0.0, 1).max() <= 0.3 * (1 + 1e-5)
    assert not run_audit(BALANCED).breaks_proof
    plant_clipping_per_tensor(monkeypatch)
    assert label_scores(few, 0.0, 1).mean() > 0.3 * 1.3
    assert run_audit(BALANCED).verdict == "proof_broken"
