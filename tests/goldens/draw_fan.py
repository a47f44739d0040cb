#!/usr/bin/env python3
"""Writes golden files of a small FAN as the published code (github.com/NVlabs/FAN) computes it, and of its RPC form as
tools/fan_check.py has it, with the contents of draw_picture_nets.py. All in float64.

The files of tests/goldens/draws were made by

    tests/goldens/draw_fan.py tests/goldens/draws --published FAN

Needs PyTorch, timm, safetensors, NumPy and Pillow.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))

import torch
from draw import write
from draw_picture_nets import drawn
from fan_check import build, published_code

SIZES = {"embed_dim": 8, "depth": 2, "num_heads": 2, "patch_size": 4, "img_size": 12, "mlp_ratio": 2.0, "num_classes": 5}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--published", required=True, help="folder of the published code, with models/fan.py")
    parser.add_argument("--seed", type=int, default=0)
    o = parser.parse_args()
    code = published_code(o.published)
    for kind in ("softmax", "rpc"):
        g = torch.Generator().manual_seed(o.seed)
        model = build(code, kind, **SIZES)
        attributes = {"case": "fan", "kind": kind, "dim": 8, "depth": 2, "heads": 2, "patch": 4, "image": 12, "mlp_ratio": 2}
        tensors, attributes = drawn(model, attributes, g, (3, 3, 12, 12), SIZES["num_classes"])
        # Adding a number to all scores of a softmax changes nothing: the gradients of these biases are rounding errors. The
        # parameters after the step, which are compared, tell that they are 0.
        for name in [name for name, t in tensors.items() if name.startswith("grad.") and t.abs().max() < 1e-12]:
            assert name.endswith(("mlp.q.bias", "attn.k.bias")), name
            del tensors[name], attributes["f32_err"][name]
        name = "fan" if kind == "softmax" else f"fan_{kind}"
        write(o.folder / f"{name}-{o.seed}.safetensors", tensors, attributes)


if __name__ == "__main__":
    main()
