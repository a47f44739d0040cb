#!/usr/bin/env python3
"""Compares the robust accuracy that classify's attacks leave with what other libraries leave.

The libraries are foolbox, torchattacks and the published AutoAttack (the package of github.com/fra31/auto-attack). All
attack the same model, pictures and budget. Takes runs of `classify train` with softmax attention on Fashion-MNIST or
MNIST, exports them, loads them into timm's VisionTransformer, and attacks N pictures of the test set, spread evenly, in
l_inf or, for attacks ending in -l2, in l2. Budgets are in 1/255 of the range of pixels, and the normalisation is part
of the attacked model. Square is a random search: its figures are means over --seeds of both sides.

Needs PyTorch, timm, safetensors and the libraries to compare with; a library that is missing is left out and named.
Exit code 0: within a point of every peer, 1: not, 2: wrong use.

    tools/attack_check.py --classify build/bin/classify --data fashion-mnist --pictures 1000 RUN:8 RUN:40
"""
import argparse
import gzip
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

BAR = 1.0  # points of robust accuracy
QUERIES = 1000  # of Square
ATTACKS = ("fgsm", "pgd", "mim", "pgd-l2", "apgd-ce", "apgd-t", "fab-t", "square", "apgd-ce-l2", "apgd-t-l2",
           "fab-t-l2", "square-l2")


def peers():
    """{name of classify's attack: [(library, attack, classify's options)]}, attack(model, x, y, eps, seed) -> changed"""
    found = {}

    def add(attack, library, run, options=()):
        found.setdefault(attack, []).append((library, run, options))

    def has(module):
        try:
            importlib.import_module(module)
            return True
        except ImportError:
            print(f"attack_check: {module} is missing and left out")
            return False

    if has("foolbox"):
        import foolbox
        linf, l2 = foolbox.attacks.LinfPGD, foolbox.attacks.L2PGD

        def of_foolbox(attack):
            return lambda m, x, y, eps, seed: attack(foolbox.PyTorchModel(m, bounds=(0, 1)), x, y, epsilons=eps)[1]

        add("fgsm", "foolbox", of_foolbox(foolbox.attacks.LinfFastGradientAttack()))
        add("pgd", "foolbox", of_foolbox(linf(rel_stepsize=0.15, steps=20)))
        add("pgd-l2", "foolbox", of_foolbox(l2(rel_stepsize=0.15, steps=20)))
    if has("torchattacks"):
        import torchattacks
        add("fgsm", "torchattacks", lambda m, x, y, eps, seed: torchattacks.FGSM(m, eps)(x, y))
        add("pgd", "torchattacks", lambda m, x, y, eps, seed: torchattacks.PGD(m, eps, eps * 0.15, 20)(x, y))
        add("mim", "torchattacks", lambda m, x, y, eps, seed: torchattacks.MIFGSM(m, eps, eps / 10, 10)(x, y))
    if has("autoattack"):
        from autoattack.autopgd_base import APGDAttack, APGDAttack_targeted
        from autoattack.fab_pt import FABAttack_PT
        from autoattack.square import SquareAttack

        class EveryWindow(SquareAttack):
            """No window of the published code reaches the last row or column (--square-inner-windows)."""

            def random_int(self, low=0, high=1, shape=(1,)):
                return super().random_int(low, high + 1, shape)

        for end, norm in (("", "Linf"), ("-l2", "L2")):
            def apgd(m, x, y, eps, seed, norm=norm):
                return APGDAttack(m, norm=norm, eps=eps, seed=seed, device="cpu").perturb(x, y)

            def targeted(m, x, y, eps, seed, norm=norm):
                classes = m(x[:1]).shape[1]
                return APGDAttack_targeted(m, norm=norm, eps=eps, seed=seed, device="cpu",
                                           n_target_classes=min(9, classes - 1)).perturb(x, y)

            def fab(m, x, y, eps, seed, norm=norm):
                classes = m(x[:1]).shape[1]
                return FABAttack_PT(m, norm=norm, eps=eps, n_restarts=1, n_iter=100, seed=seed, targeted=True,
                                    n_target_classes=min(9, classes - 1), device="cpu").perturb(x, y)

            def square(m, x, y, eps, seed, norm=norm, attack=SquareAttack):
                return attack(m, norm=norm, eps=eps, n_queries=QUERIES, p_init=0.8, resc_schedule=False, seed=seed,
                              device="cpu").perturb(x, y)

            def square_everywhere(m, x, y, eps, seed, square=square):
                return square(m, x, y, eps, seed, attack=EveryWindow)

            add("apgd-ce" + end, "auto-attack", apgd)
            add("apgd-t" + end, "auto-attack", targeted)
            add("fab-t" + end, "auto-attack", fab)
            add("square" + end, "auto-attack", square, (f"--square{end}-inner-windows", "true"))
            add("square" + end, "auto-attack with every window", square_everywhere)
    return found


def read_idx(folder, name):
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            raw = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
            rank = raw[3]
            shape = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(rank)]
            return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)
    raise SystemExit(f"attack_check: there is no {name} in {folder}")


def load_model(classify, run, folder):
    import timm_check
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file

    file = pathlib.Path(folder) / "model.safetensors"
    file.unlink(missing_ok=True)
    subprocess.run([classify, "export", "--checkpoint", run, file], check=True, capture_output=True)
    with safe_open(file, "pt") as f:
        config = json.loads(f.metadata()["config"])
    network = timm_check.build(config)
    network.load_state_dict(load_file(file), strict=True)
    network.requires_grad_(False)
    mean, std = (torch.tensor(config[n]).reshape(1, -1, 1, 1) for n in ("mean", "std"))

    class OfPixels(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x):
            return self.network((x - mean) / std)

    return OfPixels().eval()


def run_and_budgets(text):
    """RUN:BUDGET or RUN:BUDGET:L2 -> (run, [budgets])"""
    run, *budgets = text.rsplit(":", 2 if text.count(":") > 1 else 1)
    try:
        budgets = [float(b) for b in budgets]
    except ValueError:
        budgets = []
    if not run or not budgets or not all(0 < b < float("inf") for b in budgets):
        raise argparse.ArgumentTypeError(f"'{text}' is not RUN:BUDGET or RUN:BUDGET:L2")
    return run, budgets


def attack_names(text):
    names = text.split(",")
    for name in names:
        if name not in ATTACKS:
            raise argparse.ArgumentTypeError(f"there is no '{name}'; known are {', '.join(ATTACKS)}")
    return names


def ours(o, run, attack, budget, seed, options):
    """Robust accuracy in % that classify's attack leaves"""
    l2 = attack.endswith("-l2")
    done = subprocess.run([o.classify, "eval", "--checkpoint", run, "--limit", str(o.pictures), "--attack", attack,
                           "--attack-space", "pixel", "--l2-budgets" if l2 else "--budgets",
                           str(budget / 255 if l2 else budget), "--seed", str(seed), "--quiet", "--json",
                           *([f"--{attack}-queries", str(QUERIES)] if attack.startswith("square") else []),
                           *options],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"attack_check: {attack}: {done.stderr.strip()}")
    return 100 * [a for a in json.loads(done.stdout)["attacked"] if a["attack"] == attack][-1]["top1"]


def theirs(model, x, y, attack, budget, seed):
    """The same of a peer: attack(model, x, y, eps, seed) -> changed pictures"""
    import torch
    torch.manual_seed(seed)
    changed = torch.cat([attack(model, a, b, budget / 255, seed).detach() for a, b in zip(x.split(250), y.split(250))])
    return changed, accuracy(model, changed, y)


def accuracy(model, x, y):
    import torch
    with torch.no_grad():
        return 100 * sum(int((model(a).argmax(1) == b).sum()) for a, b in zip(x.split(250), y.split(250))) / len(y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=run_and_budgets, metavar="RUN:BUDGET",
                        help="a run and its l_inf budget; RUN:BUDGET:L2 for -l2")
    parser.add_argument("--classify", default="build/bin/classify")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3, help="of Square")
    parser.add_argument("--attacks", type=attack_names, default=ATTACKS, metavar="NAME,...",
                        help="of " + ", ".join(ATTACKS) + " (default: all)")
    o = parser.parse_args()
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import torch
    known, failed, compared = peers(), False, 0
    pixels, labels = read_idx(o.data, "t10k-images-idx3-ubyte"), read_idx(o.data, "t10k-labels-idx1-ubyte")
    chosen = [i * len(labels) // o.pictures for i in range(o.pictures)]
    x = torch.from_numpy(pixels[chosen].astype(np.float32) / 255)[:, None]
    y = torch.from_numpy(labels[chosen].astype(np.int64))
    print(f"{o.pictures} pictures; robust accuracy in %, seconds in brackets")
    for run, budgets in o.runs:
        with tempfile.TemporaryDirectory() as folder:
            model = load_model(o.classify, run, folder)
        print(f"{run}: clean {accuracy(model, x, y):.1f}", flush=True)
        for attack in o.attacks:
            l2 = attack.endswith("-l2")
            if l2 and len(budgets) < 2:
                continue
            budget = budgets[1 if l2 else 0]
            seeds = range(o.seeds) if attack.startswith("square") else range(1)
            left, line = {}, []
            for library, attack_of, options in known.get(attack, []):
                if options not in left:
                    start = time.time()
                    left[options] = np.mean([ours(o, run, attack, budget, seed, options) for seed in seeds])
                    line.append(f"{' '.join(['ours', *options])} {left[options]:.1f} ({time.time() - start:.0f})")
                start, peer = time.time(), []
                for seed in seeds:
                    changed, robust = theirs(model, x, y, attack_of, budget, seed)
                    moved = (changed - x).flatten(1)
                    size = moved.norm(dim=1).max() if l2 else moved.abs().max()
                    if not size <= budget / 255 * 1.001:
                        raise SystemExit(f"attack_check: {library} left the ball: {size}")
                    peer.append(robust)
                compared += 1
                good = abs(left[options] - np.mean(peer)) <= BAR
                failed |= not good
                line.append(f"{library} {np.mean(peer):.1f} ({time.time() - start:.0f}){'' if good else ' DIFFERENT'}")
            print(f"  {attack:10s} {budget:g}/255: {', '.join(line) or 'no library to compare with'}", flush=True)
    if not compared:
        print("verdict: nothing was compared")
        sys.exit(2)
    print(f"verdict: {'NOT ' if failed else ''}within {BAR:g} point in all {compared} comparisons")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
