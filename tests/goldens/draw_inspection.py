#!/usr/bin/env python3
"""Writes golden files of what is measured of an attention layer (nn/inspection.h): weights and inputs by a seed, and
every number by the formulas of Teo & Nguyen (2024) written down once more in NumPy, mostly as plain loops.

    tests/goldens/draw_inspection.py tests/goldens/inspection
    build/bin/unit_tests -tc="inspection*"

Needs NumPy.
"""
import argparse
import json
import pathlib
import struct

import numpy as np

BATCH, TOKENS, HEADS, DIM = 2, 9, 3, 12
D = DIM // HEADS
SIGMA = 1 / np.sqrt(D)
RPC = {"iterations": 3, "lambda": 0.6}
SVT = {"iterations": 3}


def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, causal):
    scores = SIGMA * q @ k.T
    return softmax(np.where(np.tril(np.ones_like(scores)) > 0, scores, -np.inf) if causal else scores)


def shrink(x, tau):
    return np.sign(x) * np.maximum(np.abs(x) - tau, 0)


def rpc(q, k, v, causal, prefix):
    """L and S of every iteration, and the keys of the last softmax; q is None where keys serve as queries."""
    counts = np.arange(1, TOKENS + 1) if prefix else np.array([TOKENS])
    sums = np.array([np.abs(k[:n]).sum() for n in counts])
    tau = (RPC["lambda"] * counts * DIM / (4 * sums))[:, None]
    low, dual, steps = np.zeros_like(k), np.zeros_like(k), []
    for _ in range(RPC["iterations"]):
        sparse = shrink(k - low + dual, tau)
        z = k - sparse - dual
        low = attend(z if q is None else q, z, causal) @ v
        dual = dual + k - low - sparse
        steps.append((low, sparse))
    return steps, z


def svt(k):
    mu = k.size / (4 * np.abs(k).sum())
    rate = 1 / np.sqrt(max(k.shape))
    sparse, dual, steps = np.zeros_like(k), np.zeros_like(k), []
    for _ in range(SVT["iterations"]):
        u, s, vt = np.linalg.svd(k - sparse + dual / mu, full_matrices=False)
        low = u @ np.diag(np.maximum(s - 1 / mu, 0)) @ vt
        sparse = shrink(k - low + dual / mu, rate / mu)
        dual = dual + mu * (k - low - sparse)
        steps.append((low, sparse))
    return steps, steps[-1][0]


def layer(kind, w, x, causal):
    """The tensors of one sample x [N, C], head by head."""
    shares = kind in ("symmetric", "rpc", "svt")
    packed = x @ w["qkv.weight"].T + w["qkv.bias"]
    parts = packed.reshape(TOKENS, 2 if shares else 3, HEADS, D)
    heads = []
    for h in range(HEADS):
        k, v = parts[:, -2, h], parts[:, -1, h]
        q = k if shares else parts[:, 0, h]
        t = {"q": q, "k": k, "own": k, "v": v, "own_v": v, "steps": [], "s": None}
        if kind == "rpc":
            t["steps"], t["k"] = rpc(None, k, v, causal, prefix=causal)
            t["q"] = t["k"]
        elif kind == "rpc-asymmetric":
            t["steps"], t["k"] = rpc(q, k, v, causal, prefix=causal)
        elif kind == "svt":
            t["steps"], t["k"] = svt(k)
            t["q"] = t["k"]
        elif kind == "scaled-s":
            t["s"] = w["S"][h]
        elif kind == "scaled-alpha":
            t["s"] = w["alpha"][0] * attend(k, k, causal)
        elif kind == "scaled-alpha-asym":
            t["s"] = w["alpha"][0] * attend(q, k, causal)
        if t["s"] is not None:
            t["v"] = v - t["s"] @ v
        t["p"] = attend(t["q"], t["k"], causal)
        t["u"] = (np.clip(1.06 * t["p"] - 0.03, 0, 1) if kind == "clipped" else t["p"]) @ t["v"]
        if kind == "gated":
            slices = x.reshape(TOKENS, HEADS, D)[:, h]
            gate = 1 / (1 + np.exp(-(slices @ w["gate.weight"][h] + w["gate.bias"][h])))
            t["u"] = t["u"] * gate[:, None]
        heads.append(t)
    merged = np.concatenate([t["u"] for t in heads], 1)
    return heads, merged @ w["proj.weight"].T + w["proj.bias"]


def kernel(a, b):
    return np.exp(SIGMA * a @ b)


def gram_of(k):
    g = np.array([sum(kernel(a, b) for b in k) for a in k])
    phi = np.array([[kernel(k[i], k[j]) / (g[i] * g[j]) for j in range(TOKENS)] for i in range(TOKENS)])
    ones = np.full((TOKENS, TOKENS), 1 / TOKENS)
    return phi - ones @ phi - phi @ ones + ones @ phi @ ones, g


def predicted(gram, g):
    w, e = np.linalg.eigh(gram)
    w, e = w[::-1], e[:, ::-1]
    count = min(D, int((w > TOKENS * np.finfo(float).eps * w[0]).sum()))
    a = e[:, :count] / np.sqrt(w[:count])
    a *= np.sign(a[np.abs(a).argmax(0), np.arange(count)])
    values = np.diag(1 / g) @ (np.eye(TOKENS) - 1 / TOKENS) @ a
    return w, values


def eigenvector_check(gram, a):
    spreads, deviations, relatives, cosines = [], [], [], []
    for column in a.T:
        image = gram @ column
        gamma = image / (TOKENS * column)
        pairs = [abs(gamma[i] - gamma[j]) for i in range(TOKENS) for j in range(i)]
        spreads.append(np.mean(pairs))
        deviations.append(np.std(pairs))
        relatives.append(np.mean(pairs) / np.abs(gamma).mean())
        cosines.append(abs(column @ image) / np.linalg.norm(column) / np.linalg.norm(image))
    return [np.mean(x) for x in (spreads, deviations, relatives, cosines)]


def cka(a, b):
    a, b = a - a.mean(0), b - b.mean(0)
    hsic = lambda x, y: np.trace(x @ x.T @ y @ y.T)
    return hsic(a, b) / np.sqrt(hsic(a, a) * hsic(b, b))


def numbers_of(t, causal, control):
    """In the order of nn::for_each_number; the eigenvalues beside them."""
    q, k, v, u, p = t["q"], t["k"], t["v"], t["u"], t["p"]
    entropy = -np.mean([sum(x * np.log(x) for x in row if x > 0) for row in p])
    residual = np.linalg.norm(u - u.mean(0)) / np.linalg.norm(u)
    cosines = [u[i] @ u[j] / np.linalg.norm(u[i]) / np.linalg.norm(u[j]) for i in range(TOKENS) for j in range(i)]
    phi2, code = [], []
    for i in range(TOKENS):
        g = sum(kernel(q[i], k[j]) for j in range(i + 1 if causal else TOKENS))
        phi2.append(kernel(q[i], q[i]) / g**2)
        code.append(np.exp(q[i] @ q[i]) * p[i, 0] ** 2 / np.exp(2 * q[i] @ k[0]))
    phi2, code, h2 = np.array(phi2), np.array(code), (u**2).sum(1)
    gram, g = gram_of(k)
    w, values = predicted(gram, g)
    implied = g[:, None] * v
    exact = np.nan if causal else np.mean(phi2) - np.mean(((p @ values) ** 2).sum(1))
    checks = eigenvector_check(gram, implied - implied.mean(0)) + eigenvector_check(gram, control - control.mean(0))
    numbers = [entropy, residual, np.mean(cosines), np.mean(phi2 - h2), np.mean(code - h2), np.mean(abs(phi2 - h2)),
               np.mean(phi2), np.mean(h2), exact, np.trace(gram), *checks, cka(v, values)]
    # The published code's form with sigma in its exponents is the paper's.
    again = np.exp(SIGMA * ((q * q).sum(1) - 2 * q @ k[0])) * p[:, 0] ** 2
    assert np.allclose(again, phi2), "the two forms of the query's norm differ"
    return numbers, w[:D]


def scaled(t):
    s, v = t["s"], t["own_v"]
    g = np.array([sum(kernel(a, b) for b in t["own"]) for a in t["own"]])
    theirs = np.array([[g[j] / g[i] for j in range(TOKENS)] for i in range(TOKENS)]) / TOKENS
    # The published form of the same (E.1): A / (N A^T), entry by entry.
    a = attend(t["own"], t["own"], False)
    assert np.allclose(theirs, a / a.T / TOKENS), "the two forms of remark 3's S differ"
    size = np.linalg.norm
    return [size(s @ v) / size(v), size(theirs @ v) / size(v), size(s - theirs) / size(theirs),
            (s * theirs).sum() / size(s) / size(theirs)]


def draw(kind, causal, seed):
    r = np.random.default_rng(seed)
    normal = lambda *shape, std=1.0: (std * r.standard_normal(shape)).astype(np.float32).astype(np.float64)
    parts = 2 if kind in ("symmetric", "rpc", "svt") else 3
    w = {"qkv.weight": normal(parts * DIM, DIM, std=0.4), "qkv.bias": normal(parts * DIM, std=0.2),
         "proj.weight": normal(DIM, DIM, std=0.4), "proj.bias": normal(DIM, std=0.2)}
    if kind == "scaled-s":
        w["S"] = normal(HEADS, TOKENS, TOKENS, std=0.1)
    elif kind.startswith("scaled"):
        w["alpha"] = np.array([np.float64(np.float32(0.3))])
    elif kind == "gated":
        w |= {"gate.weight": normal(HEADS, D, std=0.5), "gate.bias": normal(HEADS, std=0.5)}
    x, control = normal(BATCH, TOKENS, DIM), normal(TOKENS, D)
    out = {"numbers": [], "spectrum": [], "keys": []}
    largest, kurtosis = 0, []
    for sample in x:
        heads, output = layer(kind, w, sample, causal)
        found = [numbers_of(t, causal, control) for t in heads]
        out["numbers"].append([n for n, _ in found])
        out["spectrum"].append([s for _, s in found])
        singular = lambda m: np.linalg.svd(m, compute_uv=False)
        out["keys"].append([singular(t["own"]) for t in heads])
        if heads[0]["steps"]:
            of_steps = lambda f: [[f(t, l, s) for l, s in t["steps"]] for t in heads]
            out.setdefault("low_rank", []).append(of_steps(lambda t, l, s: singular(l)))
            out.setdefault("sparse", []).append(of_steps(lambda t, l, s: singular(s)))
            out.setdefault("share", []).append(of_steps(lambda t, l, s: np.count_nonzero(s) / s.size))
            out.setdefault("residual", []).append(
                of_steps(lambda t, l, s: np.linalg.norm(t["own"] - l - s) / np.linalg.norm(t["own"])))
        if heads[0]["s"] is not None and not causal:
            out.setdefault("scaled", []).append([scaled(t) for t in heads])
        largest = max(largest, abs(output).max())
        kurtosis.append(((output - output.mean()) ** 4).mean() / output.var() ** 2)
    out = {name: np.mean(values, 0) for name, values in out.items()}
    out["layer"] = np.array([largest, np.mean(kurtosis)])
    out["published_log"] = np.array([np.log(out["numbers"][:, 4].mean())])
    rows = lambda first: w["qkv.weight"].reshape(parts, HEADS, D, DIM)[first]
    matrices = [rows(0)[h].T @ rows(parts - 2)[h] for h in range(HEADS)]
    trace, square, size = (np.array([f(m) for m in matrices]) for f in (np.trace, lambda m: np.trace(m @ m),
                                                                         np.linalg.norm))
    out["qk"] = np.stack([trace / size, np.where(square > 0, trace / np.sqrt(np.abs(square)), np.nan)], 1)
    values = np.array([sorted(np.linalg.eigvals(m), key=lambda z: -abs(z))[:D] for m in matrices])
    out["moduli"] = np.abs(values)
    return {f"param.{name}": t for name, t in w.items()} | {"in.x": x, "in.control": control} | {
        f"out.{name}": t for name, t in out.items()}


def write(path, tensors, metadata):
    header, at, data = {"__metadata__": metadata}, 0, b""
    for name, t in tensors.items():
        raw = np.ascontiguousarray(t, dtype="<f8").tobytes()
        header[name] = {"dtype": "F64", "shape": list(np.shape(t)), "data_offsets": [at, at + len(raw)]}
        at, data = at + len(raw), data + raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    o = parser.parse_args()
    o.folder.mkdir(parents=True, exist_ok=True)
    cases = ["softmax", "symmetric", "rpc", "rpc-asymmetric", "svt", "scaled-s", "scaled-alpha", "scaled-alpha-asym",
             "gated", "clipped"]
    for seed, (kind, causal) in enumerate([(k, False) for k in cases] + [("softmax", True), ("rpc", True)]):
        options = RPC if kind.startswith("rpc") else SVT if kind == "svt" else {}
        if kind == "rpc" and causal:
            options = options | {"mu-scope": "prefix"}
        name = kind.replace("-", "_") + ("_causal" if causal else "")
        write(o.folder / f"{name}.safetensors", draw(kind, causal, seed),
              {"kind": kind, "causal": str(int(causal)), "options": json.dumps(options)})


if __name__ == "__main__":
    main()
