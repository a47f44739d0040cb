#!/usr/bin/env python3
"""Writes golden files of the norms: random inputs by a seed, and what PyTorch's own functions make of them in float64.

    tests/goldens/draw_normalisation.py FOLDER --seeds 0 1 2
    build/bin/goldens FOLDER

Values, gradients and, of batch norm, the running statistics after the call. The files of tests/goldens/draws were made by

    tests/goldens/draw_normalisation.py tests/goldens/draws --seeds 0 1 2

Needs PyTorch 2.4 or newer and NumPy.
"""
import argparse
import pathlib

import torch
import torch.nn.functional as F

from draw import Case, computed, normal, write


def drawn(g, channels, *shape):
    weight = (1 + normal(g, channels, std=0.3)).float().double()
    return {"x": (normal(g, *shape, std=2.0) + 1).float().double(), "weight": weight, "bias": normal(g, channels)}


def batch_norm(g, training):
    attributes = {"case": "batch_norm", "training": int(training), "eps": 1e-3, "momentum": 0.2}
    inputs = drawn(g, 3, 4, 3, 5, 7)
    mean, variance = normal(g, 3), normal(g, 3).square().add(0.5).float().double()

    def function(x):
        kept = [t.to(x["x"].dtype).clone() for t in (mean, variance)]
        y = F.batch_norm(x["x"], *kept, x["weight"], x["bias"], training, attributes["momentum"], attributes["eps"])
        return {"y": y, "running_mean": kept[0], "running_var": kept[1]}

    tensors, attributes = computed(g, Case(attributes, inputs, function, ["y"]))
    return {**tensors, "in.running_mean": mean, "in.running_var": variance}, attributes


def group_norm(g, groups):
    attributes = {"case": "group_norm", "groups": groups, "eps": 1e-3}
    inputs = drawn(g, 6, 2, 6, 5, 3)
    function = lambda x: {"y": F.group_norm(x["x"], groups, x["weight"], x["bias"], attributes["eps"])}
    return computed(g, Case(attributes, inputs, function, ["y"]))


def instance_norm(g):
    attributes = {"case": "instance_norm", "eps": 1e-3}
    inputs = drawn(g, 4, 3, 4, 5, 3)
    function = lambda x: {"y": F.instance_norm(x["x"], None, None, x["weight"], x["bias"], eps=attributes["eps"])}
    return computed(g, Case(attributes, inputs, function, ["y"]))


def rms_norm(g):
    attributes = {"case": "rms_norm", "eps": 1e-3}
    inputs = drawn(g, 37, 3, 5, 37)
    del inputs["bias"]
    function = lambda x: {"y": F.rms_norm(x["x"], (37,), x["weight"], attributes["eps"])}
    return computed(g, Case(attributes, inputs, function, ["y"]))


CASES = {
    "batch_norm_training": lambda g: batch_norm(g, True),
    "batch_norm_evaluation": lambda g: batch_norm(g, False),
    "group_norm_2": lambda g: group_norm(g, 2),
    "group_norm_1": lambda g: group_norm(g, 1),
    "instance_norm": instance_norm,
    "rms_norm": rms_norm,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    o = parser.parse_args()
    o.folder.mkdir(parents=True, exist_ok=True)
    for number, (name, case) in enumerate(CASES.items()):
        for seed in o.seeds:
            g = torch.Generator().manual_seed(seed * len(CASES) + number)
            write(o.folder / f"{name}-{seed}.safetensors", *case(g))


if __name__ == "__main__":
    main()
