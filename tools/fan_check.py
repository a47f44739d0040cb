#!/usr/bin/env python3
"""Checks that classify's FAN and the published code (github.com/NVlabs/FAN, models/fan.py) are the same model.

For FAN-tiny at 224 pixels, for its RPC form, and for smaller forms with every patch size: random weights of the published
model are imported, and both give the same logits for the same pictures, in f32; the run is exported again, and the file
loads into the published model with load_state_dict(strict=True). Small models trained here for a few steps are exported
and loaded alike. Names, shapes and the number of parameters are compared
on the way. The published code has no form without queries; the check swaps in the PyTorch modules below.

The published code's licence is for non-commercial use: it is read from a folder that you name, nothing of it is kept here.

    git clone https://github.com/NVlabs/FAN
    tools/fan_check.py FAN --classify build/bin/classify

Needs PyTorch, timm, safetensors, NumPy and Pillow. Exit code 0: all agree; 1: something differs; 2: something is missing.
"""
import argparse
import copy
import json
import pathlib
import sys
import tempfile
import types
import warnings

from timm_check import Checker, load_file, save_file, timm_logits, torch, write_pictures

BAR = 1e-5  # largest difference of logits relative to their spread
TINY = {"patch_size": 16, "embed_dim": 192, "depth": 12, "num_heads": 4, "img_size": 224, "num_classes": 1000}


def published_code(folder):
    """The module models/fan.py. Two changes while it is read: its other backbones (ConvNeXt, Swin), which want old versions
    of timm, are left out, and positions are made in the dtype of the weights, not in float32."""
    name = "published_fan"
    path = pathlib.Path(folder) / "models" / "fan.py"
    source = path.read_text()
    asked = "dtype=torch.float32"
    assert asked in source, f"{path}: the published code has changed, '{asked}' is not there"
    package = types.ModuleType(name)
    package.__path__ = []
    for part, function in (("convnext_utils", "_create_hybrid_backbone"), ("swin_utils", "_create_fan_swin_transformer")):
        stub = types.ModuleType(f"{name}.{part}")
        setattr(stub, function, None)
        sys.modules[stub.__name__] = stub
    module = types.ModuleType(f"{name}.fan")
    module.__package__ = name
    sys.modules.update({name: package, module.__name__: module})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old names of timm's modules
        exec(compile(source.replace(asked, "dtype=self.token_projection.weight.dtype"), path, "exec"), module.__dict__)
    return module


class KeyMixing(torch.nn.Module):
    """Token mixing whose keys serve as queries, named as published; iterations > 0: principal attention pursuit (Teo &
    Nguyen 2024, as their code computes it): tau = lambda N C / (4 |K|_1)."""

    def __init__(self, dim, heads, iterations=0, weight=4.0):
        super().__init__()
        self.heads, self.iterations, self.weight = heads, iterations, weight
        self.kv = torch.nn.Linear(dim, 2 * dim)
        self.proj = torch.nn.Linear(dim, dim)

    def forward(self, x, rows, cols):
        b, n, dim = x.shape
        k, v = self.kv(x).reshape(b, n, 2, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        attend = lambda z: torch.softmax(z @ z.transpose(-1, -2) / (dim // self.heads) ** 0.5, -1) @ v
        low = dual = torch.zeros_like(k)
        tau = self.weight * n * dim / (4 * k.abs().sum((-1, -2), keepdim=True))
        for _ in range(self.iterations):
            shifted = k - low + dual
            sparse = shifted.sign() * (shifted.abs() - tau).clamp(min=0)
            low = attend(k - sparse - dual)
            dual = dual + k - low - sparse
        if self.iterations == 0:
            low = attend(k)
        return self.proj(low.transpose(1, 2).reshape(b, n, dim)), None


class KeyClassAttention(torch.nn.Module):
    """Class attention whose query is the class token's key, named as timm's ClassAttn."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.k, self.v, self.proj = (torch.nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        b, n, dim = x.shape
        k, v = (f(x).reshape(b, n, self.heads, -1).transpose(1, 2) for f in (self.k, self.v))
        p = torch.softmax(k[:, :, :1] @ k.transpose(-1, -2) / (dim // self.heads) ** 0.5, -1)
        return self.proj((p @ v).transpose(1, 2).reshape(b, 1, dim))


def build(code, kind, iterations=4, **sizes):
    """The published model; for the kind symmetric or rpc (in block 0) without queries."""
    sizes = {"eta": 1.0, "tokens_norm": True, "sharpen_attn": False, "sr_ratio": [1] * sizes["depth"], **sizes}
    model = code.FAN(**sizes)
    if kind != "softmax":
        dim, heads = sizes["embed_dim"], sizes["num_heads"]
        for i, block in enumerate(model.blocks):
            block.attn = KeyMixing(dim, heads, iterations if kind == "rpc" and i == 0 else 0)
        for block in model.cls_attn_blocks:
            block.attn = KeyClassAttention(dim, heads)
    return model


def randomise(model, channels, size):
    """Weights larger than at the start of a training, so that the logits tell pictures apart and every parameter counts;
    running statistics are those of one pass over noise."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            ones = any(part in name for part in ("norm", "gamma", "temperature", ".bn", "patch_embed.proj")) and p.ndim != 4
            noise = torch.randn_like(p) * (p[0].numel() ** -0.5 if p.ndim == 4 or p.ndim == 2 else 0.2)
            p.copy_(1 + noise if ones and not name.endswith("bias") else noise)
        for layer in model.modules():
            if isinstance(layer, torch.nn.BatchNorm2d):
                layer.momentum = None  # the running statistics become those of the one pass below
        model.train()(torch.randn(2, channels, size, size))
    return model.eval()


class FanChecker(Checker):
    def __init__(self, classify, folder, code):
        super().__init__(classify, folder)
        self.code = code

    def record(self, name, ours, theirs):
        spread = (theirs.max(1).values - theirs.min(1).values).mean().item()
        difference = (ours - theirs).abs().max().item() / spread
        good = difference < BAR and bool(torch.isfinite(theirs).all())
        self.rows.append((name, difference, good))
        print(f"{name:44s} max |difference| / spread {difference:.2e}, spread {spread:.2f}: "
              f"{'equal' if good else 'DIFFERENT'}", flush=True)

    def check(self, name, kind, channels=3, **sizes):
        folder = self.folder / name.replace(" ", "-")
        folder.mkdir()
        torch.manual_seed(3)
        model = build(self.code, kind, in_chans=channels, **sizes)
        randomise(model, channels, sizes["img_size"])
        file, run, back = folder / "published.safetensors", folder / "run", folder / "back.safetensors"
        save_file({key: t.contiguous() for key, t in model.state_dict().items()}, file)
        self.run("import", file, "--out", run, "--attention", kind, "--image-size", sizes["img_size"],
                 "--iterations", 4, "--lambda", 4)
        config = json.loads((run / "config.json").read_text())
        pictures = write_pictures(folder / "pictures", config["image-size"], channels)
        ours = self.logits(run, pictures, sizes["num_classes"])
        theirs = timm_logits(model, pictures, config)
        self.record(f"import {name}", ours, theirs)
        self.run("export", "--checkpoint", run, back)
        exported = load_file(back)
        other = build(self.code, kind, in_chans=channels, **sizes).eval()
        other.load_state_dict(exported, strict=True)
        self.record(f"export {name}", ours, timm_logits(other, pictures, config))
        trained = sum(exported[key].numel() for key, _ in other.named_parameters())
        count = sum(p.numel() for p in model.parameters())
        same = trained == count and {key: t.shape for key, t in exported.items()} == {
            key: t.shape for key, t in model.state_dict().items()}
        self.rows.append((f"names of {name}", 0.0, same))
        print(f"{'names of ' + name:44s} {len(exported)} tensors, {trained} parameters, published {count}: "
              f"{'equal' if same else 'DIFFERENT'}", flush=True)
        return model

    def check_trained(self, kind):
        folder = self.folder / f"trained-{kind}"
        folder.mkdir()
        run, file = folder / "run", folder / "model.safetensors"
        self.run("train", "--out", run, "--model", "fan-tiny", "--attention", kind, "--dim", 48, "--depth", 3, "--heads", 3,
                 "--patch", 8, "--limit", 256, "--test-limit", 32, "--batch-size", 32, "--steps", 8, "--warmup-epochs", 0,
                 "--lr", 3e-3, "--seed", 3, "--device", "cpu", "--quiet")
        self.run("export", "--checkpoint", run, file)
        config = json.loads((run / "config.json").read_text())
        model = build(self.code, kind, img_size=config["image-size"], patch_size=8, embed_dim=48, depth=3, num_heads=3,
                      in_chans=config["channels"], num_classes=len(config["classes"])).eval()
        model.load_state_dict(load_file(file), strict=True)
        pictures = write_pictures(folder / "pictures", config["image-size"], config["channels"])
        self.record(f"export {kind} after training", self.logits(run, pictures, len(config["classes"])),
                    timm_logits(model, pictures, config))

    def check_attention_changes_logits(self, model, size):
        """Guards the check itself: without the iterations the logits are others."""
        plain, x = copy.deepcopy(model), torch.randn(2, 3, size, size)
        plain.blocks[0].attn.iterations = 0
        with torch.no_grad():
            changed = (plain(x) - model(x)).abs().max().item() > 1e-2
        self.rows.append(("iterations change the logits", 0.0, changed))
        print(f"{'iterations change the logits':44s} {'yes' if changed else 'NO'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("published", help="folder of the published code, with models/fan.py")
    parser.add_argument("--classify", default="build/bin/classify", help="the program (default: %(default)s)")
    o = parser.parse_args()
    for needed in (pathlib.Path(o.published) / "models" / "fan.py", pathlib.Path(o.classify)):
        if not needed.is_file():
            print(f"fan_check: there is no {needed}", file=sys.stderr)
            sys.exit(2)
    torch.set_num_threads(2)
    code = published_code(o.published)
    small = {"embed_dim": 48, "depth": 3, "num_heads": 3, "num_classes": 7, "mlp_ratio": 2.0}
    with tempfile.TemporaryDirectory() as folder:
        checker = FanChecker(str(pathlib.Path(o.classify).resolve()), pathlib.Path(folder), code)
        checker.check("FAN-tiny", "softmax", **TINY)
        checker.check("FAN-tiny symmetric", "symmetric", **TINY)
        rpc = checker.check("FAN-tiny rpc", "rpc", **TINY)
        checker.check_attention_changes_logits(rpc, 224)
        for kind in ("softmax", "symmetric", "rpc"):
            checker.check_trained(kind)
            checker.check(f"small {kind} patch 4", kind, patch_size=4, img_size=28, **small)
        checker.check("small rpc patch 8", "rpc", patch_size=8, img_size=40, **small)
        checker.check("small softmax patch 16 grey", "softmax", channels=1, patch_size=16, img_size=64, **small)
    if not all(good for _, _, good in checker.rows):
        print("verdict: classify and the published code DIFFER")
        sys.exit(1)
    largest = max(difference for _, difference, _ in checker.rows)
    print(f"verdict: classify and the published code agree in all {len(checker.rows)} checks, "
          f"largest relative difference {largest:.1e}")


if __name__ == "__main__":
    main()
