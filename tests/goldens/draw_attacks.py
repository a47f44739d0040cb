#!/usr/bin/env python3
"""Writes golden files of attacks: a small network, pictures, labels, and the pictures that foolbox's L2CarliniWagnerAttack
finds, untargeted, with a confidence, and towards given classes.

    tests/goldens/draw_attacks.py tests/goldens/attacks
    build/bin/unit_tests -tc="cw*"

Needs PyTorch, foolbox and safetensors.
"""
import argparse
import json
import pathlib

import foolbox
import torch
from safetensors.torch import save_file

PICTURES, CLASSES, HIDDEN = 8, 4, 24
SHAPE = (2, 5, 5)
CASES = {
    "untargeted": {"confidence": 0, "lr": 0.01, "steps": 60, "searches": 6, "c": 0.01},
    "confident": {"confidence": 0.5, "lr": 0.05, "steps": 40, "searches": 5, "c": 0.1},
    "second": {"confidence": 0, "lr": 0.02, "steps": 60, "searches": 5, "c": 0.1},
    "least": {"confidence": 0.2, "lr": 0.05, "steps": 60, "searches": 5, "c": 0.1},
    "unsuccessful": {"confidence": 0, "lr": 0.001, "steps": 5, "searches": 2, "c": 1e-6},
}


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("folder", type=pathlib.Path)
    folder = args.parse_args().folder
    torch.manual_seed(3)
    entries = SHAPE[0] * SHAPE[1] * SHAPE[2]
    weights = {"w1": torch.randn(HIDDEN, entries) * 0.3, "b1": torch.randn(HIDDEN) * 0.1,
               "w2": torch.randn(CLASSES, HIDDEN) * 0.5, "b2": torch.randn(CLASSES) * 0.1}

    class Net(torch.nn.Module):
        def forward(self, x):
            hidden = torch.tanh(x.flatten(1) @ weights["w1"].T + weights["b1"])
            return hidden @ weights["w2"].T + weights["b2"]

    x = torch.rand(PICTURES, *SHAPE)
    with torch.no_grad():
        order = Net()(x).argsort(-1, descending=True)
    labels = order[:, 0].clone()
    # Two pictures are wrong from the start, so that even their first form succeeds.
    labels[-2:] = order[-2:, 2]
    second = torch.where(order[:, 0] == labels, order[:, 1], order[:, 0])
    least = torch.where(order[:, -1] == labels, order[:, -2], order[:, -1])
    model = foolbox.PyTorchModel(Net().eval(), bounds=(0, 1))
    folder.mkdir(parents=True, exist_ok=True)
    for name, o in CASES.items():
        attack = foolbox.attacks.L2CarliniWagnerAttack(
            binary_search_steps=o["searches"], steps=o["steps"], stepsize=o["lr"], confidence=o["confidence"],
            initial_const=o["c"], abort_early=False)
        aims = {"second": second, "least": least}.get(name)
        criterion = foolbox.criteria.Misclassification(labels) if aims is None else \
            foolbox.criteria.TargetedMisclassification(aims)
        found = attack.run(model, x, criterion)
        # Where nothing is found foolbox's pictures are black.
        succeeded = found.flatten(1).abs().sum(1) > 0
        moved = (found - x).flatten(1).norm(dim=1)
        print(name, "found", succeeded.int().tolist(), "lengths", [round(v, 4) for v in moved.tolist()])
        save_file({**weights, "x": x, "labels": labels.clone(), "found": found.contiguous(),
                   "succeeded": succeeded.float()},
                  folder / f"cw_{name}.safetensors",
                  metadata={"options": json.dumps(o), "target": name if aims is not None else "none"})


if __name__ == "__main__":
    main()
