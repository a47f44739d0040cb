"""What compare, loader and their twins share: variants of workloads, checks of options, machine, commit, files."""
import argparse
import json
import math
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_VENV = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pursuit" / "torch"

VARIANTS = {
    "eager": "PyTorch as it is",
    "compile": "torch.compile",
    "sdpa": "scaled_dot_product_attention where PyTorch's code has products and a softmax",
    "onednn": "the f32 products of linear layers by oneDNN instead of MKL",
    "onnx": "ONNX Runtime, the model exported from PyTorch",
    "gesvda": "that driver of torch.linalg.svd",
    "cupy": "CuPy, eigenvalues of the Gram matrix",
    "jax": "JAX, the same",
}
# What each workload of `bench` can be compared with.
WORKLOADS = {
    "deit-tiny-softmax": ["eager", "compile", "onednn"],
    "deit-tiny-symmetric": ["eager", "compile", "onednn"],
    "deit-tiny-rpc": ["eager", "compile", "sdpa", "onednn"],
    "deit-tiny-rpc-all": ["eager", "compile", "sdpa", "onednn"],
    "vit32-softmax": ["eager", "compile", "onednn"],
    "vit32-rpc": ["eager", "compile", "sdpa", "onednn"],
    "segment-tiny": ["eager", "compile", "onednn"],
    "segment-tiny-512": ["eager", "compile", "onednn"],
    "lm-paper": ["eager", "compile", "onednn"],
    "lm-paper-adaptive": ["eager", "compile", "onednn"],
    "lm-paper-267735": ["eager", "compile", "onednn"],
    "lm-paper-rpc": ["eager", "compile", "sdpa", "onednn"],
    "lehd": ["eager", "compile", "onednn"],
    "pomo": ["eager", "sdpa", "onednn"],
    "deit-tiny-forward": ["eager", "compile", "onednn", "onnx"],
    "deit-tiny-forward-1": ["eager", "compile", "onednn", "onnx"],
    "deit-tiny-int8": ["eager", "compile", "onnx"],
    "deit-tiny-int8-1": ["eager", "compile", "onnx"],
    "lm-forward": ["eager", "compile", "onednn", "onnx"],
    "lm-int8": ["eager", "compile", "onnx"],
    "lm-generate": ["eager", "onednn"],
    "lm-generate-int8": ["eager"],
    "attention-softmax": ["eager", "compile"],
    "attention-symmetric": ["eager", "compile"],
    "attention-forward": ["eager", "compile"],
    "attention-1025": ["eager", "compile"],
    "attention-causal-1024": ["eager", "compile"],
    "product-qkv": ["eager", "compile", "onednn"],
    "product-fc1": ["eager", "compile", "onednn"],
    "product-fc2": ["eager", "compile", "onednn"],
    "rpc-operator": ["eager", "compile", "sdpa"],
    "rpc-forward": ["eager", "compile", "sdpa"],
    "svt": ["eager", "gesvda", "cupy", "jax"],
    "svt-grad": ["eager"],
    "layer-norm": ["eager", "compile"],
    "mlp": ["eager", "compile", "onednn"],
    "upsample-cross-entropy": ["eager", "compile"],
    "conv-3x3-56": ["eager", "compile"],
    "conv-3x3-28": ["eager", "compile"],
    "conv-3x3-14": ["eager", "compile"],
    "conv-3x3-7": ["eager", "compile"],
    "conv-depthwise-56": ["eager", "compile"],
    "conv-depthwise-28": ["eager", "compile"],
    "conv-depthwise-14": ["eager", "compile"],
    "conv-depthwise-7": ["eager", "compile"],
    "adamw": ["eager"],
    "copy": ["eager"],
}


def why_not(name, variant, device, dtype):
    """Why a workload cannot be compared with the variant there, or ""."""
    if variant not in WORKLOADS[name]:
        return f"{name} has no variant {variant}, but {', '.join(WORKLOADS[name])}"
    if device == "cuda" and (variant in ("onednn", "onnx") or "int8" in name):
        return f"{name} by {variant} is of a CPU"
    if device == "cpu" and variant in ("gesvda", "cupy", "jax"):
        return f"{name} by {variant} is of a GPU"
    if dtype != "f32" and variant in ("onednn", "onnx"):
        return f"{variant} is of f32"
    return ""


def at_least(least, kind=int):
    """The type of an option: a finite number."""
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            raise argparse.ArgumentTypeError(f"got '{text}', need {'an integer' if kind is int else 'a number'}, "
                                             f"{least} or more")
        return value
    return parse


def add_python(parser, modules):
    parser.add_argument("--python", help=f"a Python with {modules} (default: $PURSUIT_TORCH_PYTHON, "
                                         f"{DEFAULT_VENV}/bin/python, python3)")


def find_python(tool, asked, modules, packages=()):
    """The Python that was asked for, else the first of the usual ones, that has the modules, of these packages."""
    wanted = asked or os.environ.get("PURSUIT_TORCH_PYTHON")
    candidates = [wanted] if wanted else [str(DEFAULT_VENV / "bin/python"), sys.executable]
    for python in candidates:
        try:
            if subprocess.run([python, "-c", f"import {', '.join(modules)}"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode == 0:
                return python
        except OSError:
            pass
    install = " ".join(["install", *modules, "numpy", *packages])
    sys.exit(f"{tool}: no {', '.join(modules)} in {' or '.join(candidates)}. Install them outside the repository "
             f"with\n\n  python3 -m venv {DEFAULT_VENV}\n  {DEFAULT_VENV}/bin/pip {install}\n\n"
             "(Debian: apt-get install python3-venv) or name a Python that has them by --python or "
             "$PURSUIT_TORCH_PYTHON.")


def add_bench(parser):
    parser.add_argument("--bench", type=Path, default=ROOT / "build/bin/bench", help="default: build/bin/bench")


def check_bench(tool, bench):
    if not os.access(bench, os.X_OK) or bench.is_dir():
        sys.exit(f"{tool}: {bench} is no program; build it with\n\n  cmake --preset default && "
                 "cmake --build --preset default --target bench")


def processor():
    """Name, family and model of the first processor. Processors of several kinds may have the same name."""
    text = Path("/proc/cpuinfo").read_text()

    def field(name):
        found = re.search(rf"^{name}\s*: (.*)$", text, re.M)
        return found[1].strip() if found else None
    return {"name": field("model name") or platform.machine(), "family": field("cpu family"), "model": field("model")}


def commit():
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout.strip()
    try:
        return git("rev-parse", "--short", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def results_file(kind, device):
    return ROOT / "tools/results" / (f"{kind}-" + re.sub(r"[^a-z0-9.]+", "-", device.lower()).strip("-") + ".json")


def write_json(path, content):
    """Writes the file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)
