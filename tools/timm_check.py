#!/usr/bin/env python3
"""Checks that classify's weights and timm's are the same thing, in both directions.

export: a model trained here for a few steps is exported, loaded into timm's VisionTransformer with
        load_state_dict(strict=True), and both give the same logits for the same pictures.
import: random weights of deit_tiny_patch16_224, resnet18 and resnet50 as timm names them, imported and exported again:
        the logits are equal, and the exported file loads into timm's model with load_state_dict(strict=True);
        random weights of other sizes made by timm (also with the prefix that DistributedDataParallel adds) are imported, and
        both give the same logits.
timm has no attention without queries; for the kinds symmetric and rpc the check swaps in the PyTorch module below.

Needs PyTorch, timm, safetensors and Pillow. Exit code 0: all agree; 1: something differs; 2: something is missing.

    tools/timm_check.py --classify build/bin/classify
"""
import argparse
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile

missing = []
for module in ("torch", "timm", "safetensors", "PIL", "numpy"):
    try:
        importlib.import_module(module)
    except ImportError:
        missing.append({"PIL": "pillow"}.get(module, module))
if missing:
    print("timm_check: missing " + ", ".join(missing) + "; install with: pip install " + " ".join(missing), file=sys.stderr)
    sys.exit(2)

import numpy as np
import timm
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from timm.models.vision_transformer import VisionTransformer

BAR = 1e-4  # largest difference of logits
MODELS = ("deit_tiny_patch16_224", "resnet18", "resnet50")  # timm's, of 224 pixels


class KeyAttention(torch.nn.Module):
    """Attention whose keys serve as queries, with timm's names; iterations > 0: principal attention pursuit
    (Teo & Nguyen 2024, as their code computes it): tau = lambda N C / (4 |K|_1)."""

    def __init__(self, dim, heads, iterations=0, weight=4.0):
        super().__init__()
        self.heads, self.iterations, self.weight = heads, iterations, weight
        self.qkv = torch.nn.Linear(dim, 2 * dim)
        self.proj = torch.nn.Linear(dim, dim)

    def forward(self, x, **_):
        b, n, dim = x.shape
        k, v = self.qkv(x).reshape(b, n, 2, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        attend = lambda z: torch.softmax(z @ z.transpose(-1, -2) / (dim // self.heads) ** 0.5, -1) @ v
        if self.iterations == 0:
            low = attend(k)
        else:
            tau = self.weight * n * dim / (4 * k.abs().sum((-1, -2), keepdim=True))
            low = dual = torch.zeros_like(k)
            for _ in range(self.iterations):
                shifted = k - low + dual
                sparse = shifted.sign() * (shifted.abs() - tau).clamp(min=0)
                low = attend(k - sparse - dual)
                dual = dual + k - low - sparse
        return self.proj(low.transpose(1, 2).reshape(b, n, dim))


def build(config):
    """timm's model for a config of classify."""
    model = VisionTransformer(
        img_size=config["image-size"], patch_size=config["patch"], in_chans=config["channels"],
        num_classes=len(config["classes"]), embed_dim=config["dim"], depth=config["depth"],
        num_heads=config["heads"], mlp_ratio=config["mlp-ratio"])
    if config["attention"] in ("symmetric", "rpc"):
        for i, block in enumerate(model.blocks):
            layers = "0" if config["layers"] == "auto" else config["layers"]
            iterated = config["attention"] == "rpc" and layers in ("all", str(i))
            block.attn = KeyAttention(config["dim"], config["heads"], config["iterations"] if iterated else 0,
                                      config["lambda"])
    return model.eval()


def write_pictures(folder, size, channels, count=4):
    """Smooth random pictures of the model's own size, so that no resizing comes between the two."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for i in range(count):
        coarse = rng.integers(0, 256, (5, 5, channels), dtype=np.uint8)
        picture = Image.fromarray(coarse if channels == 3 else coarse[:, :, 0]).resize((size, size), Image.BICUBIC)
        picture.save(folder / f"{i}.png")
    return sorted(folder.glob("*.png"))


def timm_logits(model, pictures, config):
    mean, std = (np.array(config[name], np.float32) for name in ("mean", "std"))
    batch = []
    for path in pictures:
        pixels = np.asarray(Image.open(path), np.float32).reshape(config["image-size"], config["image-size"], -1)
        batch.append(((pixels / 255 - mean) / std).transpose(2, 0, 1))
    with torch.no_grad():
        return model(torch.from_numpy(np.stack(batch)))


class Checker:
    def __init__(self, classify, folder):
        self.classify, self.folder = classify, folder
        self.rows = []

    def run(self, *arguments):
        done = subprocess.run([self.classify, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{self.classify} {' '.join(map(str, arguments))}: exit code {done.returncode}\n"
                               f"{done.stderr[-2000:]}")
        return done.stdout

    def logits(self, checkpoint, pictures, classes):
        text = self.run("predict", "--checkpoint", checkpoint, *pictures, "--json", "--top", classes,
                        "--out", self.folder / "attention")
        rows = torch.empty(len(pictures), classes)
        for row, picture in zip(rows, json.loads(text)):
            for p in picture["predictions"]:
                row[p["index"]] = p["logit"]
        return rows

    def record(self, name, ours, theirs):
        difference = (ours - theirs).abs().max().item()
        spread = (theirs.max(1).values - theirs.min(1).values).mean().item()
        good = difference < BAR and bool(torch.isfinite(theirs).all())
        self.rows.append((name, difference, good))
        print(f"{name:30s} max |difference| {difference:.2e}, spread of the logits {spread:.3f}: "
              f"{'equal' if good else 'DIFFERENT'}", flush=True)

    def check_export(self, kind):
        folder = self.folder / f"export-{kind}"
        folder.mkdir()
        run, file = folder / "run", folder / "model.safetensors"
        self.run("train", "--out", run, "--attention", kind, "--dim", 48, "--depth", 3, "--heads", 3, "--patch", 8,
                 "--limit", 256, "--test-limit", 32, "--batch-size", 32, "--steps", 8, "--warmup-epochs", 0,
                 "--lr", 3e-3, "--seed", 3, "--device", "cpu", "--quiet")
        self.run("export", "--checkpoint", run, file)
        with safe_open(file, "pt") as f:
            config = json.loads(f.metadata()["config"])
            assert f.metadata()["format"] == "pt"
        model = build(config)
        model.load_state_dict(load_file(file), strict=True)
        pictures = write_pictures(folder / "pictures", config["image-size"], config["channels"])
        self.record(f"export {kind}", self.logits(run, pictures, len(config["classes"])),
                    timm_logits(model, pictures, config))

    def check_import(self, kind, prefix="", **sizes):
        folder = self.folder / f"import-{kind}{len(self.rows)}"
        folder.mkdir()
        config = {"attention": kind, "image-size": 40, "patch": 8, "channels": 3, "dim": 48, "depth": 3, "heads": 3,
                  "mlp-ratio": 3.0, "classes": [str(i) for i in range(7)], "iterations": 4, "layers": "0", "lambda": 4.0}
        config.update(sizes)
        torch.manual_seed(1)
        model = build(config)
        with torch.no_grad():  # larger than at the start of a training, so that the logits tell pictures apart
            for name, p in model.named_parameters():
                p.copy_(torch.randn_like(p) * (0.1 if p.ndim > 1 else 0.3) + (1 if "norm" in name and "weight" in name else 0))
        file = folder / "timm.safetensors"
        save_file({prefix + name: t.contiguous() for name, t in model.state_dict().items()}, file)
        self.run("import", file, "--out", folder / "run", "--attention", kind, "--heads", config["heads"])
        config.update(json.loads((folder / "run" / "config.json").read_text()))
        pictures = write_pictures(folder / "pictures", config["image-size"], config["channels"])
        self.record(f"import {kind}{', prefix ' + prefix if prefix else ''}",
                    self.logits(folder / "run", pictures, len(config["classes"])),
                    timm_logits(model, pictures, config))


    def check_model(self, name):
        folder = self.folder / name
        folder.mkdir()
        torch.manual_seed(2)
        model = timm.create_model(name, pretrained=False).eval()
        with torch.no_grad():
            for layer in model.modules():
                if isinstance(layer, torch.nn.BatchNorm2d):  # the last of a block starts at 0, which hides the block
                    layer.weight.uniform_(0.25, 0.75)
                    layer.bias.normal_(0, 0.1)
                    layer.momentum = None  # the running statistics become those of the one pass below
            model.train()(torch.randn(2, 3, 224, 224))
            model.eval()
        file, run, back = folder / "timm.safetensors", folder / "run", folder / "back.safetensors"
        save_file({key: t.contiguous() for key, t in model.state_dict().items()}, file)
        self.run("import", file, "--out", run)
        config = json.loads((run / "config.json").read_text())
        pictures = write_pictures(folder / "pictures", config["image-size"], config["channels"])
        ours = self.logits(run, pictures, len(config["classes"]))
        self.record(f"import {name}", ours, timm_logits(model, pictures, config))
        self.run("export", "--checkpoint", run, back)
        again = timm.create_model(name, pretrained=False).eval()
        again.load_state_dict(load_file(back), strict=True)
        self.record(f"export {name}", ours, timm_logits(again, pictures, config))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--classify", default="build/bin/classify", help="the program (default: %(default)s)")
    classify = parser.parse_args().classify
    if not pathlib.Path(classify).is_file():
        print(f"timm_check: there is no program {classify}; build it or name it with --classify", file=sys.stderr)
        sys.exit(2)
    torch.set_num_threads(2)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(str(pathlib.Path(classify).resolve()), pathlib.Path(folder))
        plan = {name: [lambda name=name: checker.check_model(name)] for name in MODELS}
        for kind in ("softmax", "symmetric", "rpc"):
            checks = plan[kind] = [lambda kind=kind: checker.check_export(kind),
                                   lambda kind=kind: checker.check_import(kind)]
            if kind == "softmax":
                checks.append(lambda: checker.check_import("softmax", "module._orig_mod."))
                checks.append(lambda: checker.check_import("softmax", channels=1, dim=128, heads=2, patch=4))
        for name, checks in plan.items():
            for check in checks:
                try:
                    check()
                except (RuntimeError, AssertionError, KeyError, OSError, ValueError) as error:
                    failed = True
                    print(f"{name}: FAILED\n{error}", flush=True)
    failed = failed or not all(good for _, _, good in checker.rows)
    if failed:
        print("verdict: classify and timm DIFFER")
    else:
        largest = max(difference for _, difference, _ in checker.rows)
        print(f"verdict: classify and timm agree in all {len(checker.rows)} checks, largest difference {largest:.1e}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
