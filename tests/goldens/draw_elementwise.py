#!/usr/bin/env python3
"""Writes golden files of elementwise operators and of those that pick, turn and add up along a dimension: random inputs
by a seed, and what PyTorch's own functions make of them in float64.

    tests/goldens/draw_elementwise.py FOLDER --seeds 0 1 2
    build/bin/goldens FOLDER

The files of tests/goldens/draws were made by

    tests/goldens/draw_elementwise.py tests/goldens/draws --seeds 0 1 2

Needs PyTorch and NumPy.
"""
import argparse
import pathlib

import torch
import torch.nn.functional as F

from draw import Case, computed, normal, write


def elementwise(g):
    inputs = {"a": normal(g, 3, 1, 7), "b": normal(g, 2, 7), "p": normal(g, 3, 5).abs().add(0.5).float().double()}
    function = lambda x: {
        "silu": F.silu(x["a"]), "sin": torch.sin(x["a"]), "cos": torch.cos(x["a"]),
        "maximum": torch.maximum(x["a"], x["b"]), "minimum": torch.minimum(x["a"], x["b"]),
        "pow": x["p"] ** 1.5, "pow_tensor": x["p"] ** x["p"].flip(0),
        "reciprocal": 2 / x["p"], "difference": 1.0 - x["a"],
    }
    return computed(g, Case({"case": "elementwise"}, inputs, function, list(function(inputs))))


def along(g):
    index = torch.randint(0, 6, (4, 9, 3), generator=g)
    condition = torch.randint(0, 2, (4, 6, 1), generator=g)
    inputs = {"x": normal(g, 4, 6, 3), "y": normal(g, 6, 3)}
    function = lambda x: {
        "gather": torch.gather(x["x"], 1, index), "flip": torch.flip(x["x"], (0, 2)),
        "cumsum": torch.cumsum(x["x"], 1), "where": torch.where(condition > 0, x["x"], x["y"]),
        "max": x["x"].max(1).values, "min": x["x"].min(-1, keepdim=True).values,
    }
    tensors, attributes = computed(g, Case({"case": "along"}, inputs, function, list(function(inputs))))
    return {**tensors, "in.index": index, "in.condition": condition}, attributes


CASES = {"elementwise": elementwise, "along": along}


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
