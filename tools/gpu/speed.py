"""The parts that measure: our own times, those of the peers, and the counters of the hot kernels."""
import csv
import json
import os
import shlex

from gpu.host import find_tool
from gpu.machine import Cannot, Failed, first_line, tail

# Workloads to compare with others: PyTorch eager and at its fastest, CuPy and JAX (arguments of tools/bench/compare).
PEERS = {
    "deit-tiny-softmax 256": ("deit-tiny-softmax", "--dtype", "bf16", "--batch", "256"),
    "deit-tiny-softmax 32": ("deit-tiny-softmax", "--dtype", "bf16", "--batch", "32"),
    "rpc-operator": ("rpc-operator", "--dtype", "bf16", "--batch", "1024"),
    "rpc-operator sdpa": ("rpc-operator", "--dtype", "bf16", "--batch", "1024", "--variant", "sdpa"),
    "rpc-forward": ("rpc-forward", "--dtype", "bf16", "--batch", "1024"),
    "attention-softmax": ("attention-softmax", "--dtype", "bf16", "--batch", "1024"),
    "attention-forward": ("attention-forward", "--dtype", "bf16", "--batch", "1024"),
    "attention-1025": ("attention-1025", "--dtype", "bf16", "--batch", "192"),
    "language model": ("lm-paper-267735", "--dtype", "bf16", "--batch", "96"),
    "segmenter": ("segment-tiny-512", "--dtype", "bf16", "--batch", "8"),
    "upsampled loss": ("upsample-cross-entropy", "--dtype", "bf16", "--batch", "8"),
    "adamw": ("adamw",),
    "adamw 43.8 million": ("adamw", "--batch", "43800000"),
    "svt gesvda": ("svt", "--batch", "3072", "--variant", "gesvda"),
    "svt cupy": ("svt", "--batch", "3072", "--variant", "cupy"),
    "svt jax": ("svt", "--batch", "3072", "--variant", "jax"),
}
# kernel: (its name, workload, type, batch)
HOT = {
    "attention": ("attention_kernel", "attention-softmax", "bf16", 1024),
    "attention, gradient": ("attention_head_gradient_kernel", "attention-softmax", "bf16", 1024),
    "RPC-Attention": ("rpc_forward_kernel", "rpc-operator", "bf16", 1024),
    "RPC-Attention, gradient": ("rpc_backward_kernel", "rpc-operator", "bf16", 1024),
    "MLP between norms": ("residual_mlp_kernel", "deit-tiny-softmax", "bf16", 256),
    "layer norm, gradient": ("layer_norm_gradient_kernel", "deit-tiny-softmax", "bf16", 256),
}
SECTIONS = ("SpeedOfLight", "LaunchStats", "Occupancy", "MemoryWorkloadAnalysis", "SchedulerStats", "WarpStateStats")


def timed_products(machine):
    """Variables of our benchmarks: cuBLASLt's algorithms are timed once and kept."""
    return {"PURSUIT_GEMM": "timed", "PURSUIT_GEMM_FILE": str(machine.scratch / "gemm-algorithms")}


def bench(machine, section):
    rows = {" ".join(str(word) for word in row if word): row for row in machine.sizes.benchmarks}
    env = machine.env | timed_products(machine)

    def check(item):
        if item == "parts of a step":
            return step_parts(machine, env)
        name, dtype, batch, *variables = rows[item]
        output = machine.good([machine.program("bench"), name, "--dtype", dtype, "--batch", batch, "--device", "cuda",
                               "--seconds", machine.sizes.bench_seconds, "--json"], 120,
                              env | dict(variable.split("=") for variable in variables))
        row = json.loads(output.splitlines()[-1])
        return {"what": f"{row['median_ms']:.4g} ms, {row['items_per_s']:.4g} {row['unit']}/s, "
                        f"{row['pool_peak_bytes'] / 2**20:.0f} MiB", "figures": row}
    return machine.each(section, list(rows) + (["parts of a step"] if machine.sizes.timed else []), check)


def step_parts(machine, env):
    """The times of a step's parts, and what `bench ddp` makes of them for eight such GPUs."""
    file = machine.scratch / "step-times.json"
    machine.good([machine.program("bench"), "ddp", "--measure", file, "--device", "cuda"], 120, env)
    said = machine.good([machine.program("bench"), "ddp", "--times", file], 120)
    return {"what": first_line(said), "figures": json.loads(file.read_text()), "table": said}


def peer_env(machine):
    """The environment of the peers, which ask for a user's name and home where none may be known."""
    return {"HOME": str(machine.scratch), "USER": "gpu-check"} | os.environ


def require(machine, module):
    """Cannot, where Python lacks a module or the module sees no GPU."""
    sees = {"torch": "assert torch.cuda.is_available(), 'PyTorch sees no GPU'",
            "cupy": "cupy.zeros(1)",
            "jax": "assert jax.default_backend() == 'gpu', 'JAX sees no GPU'"}[module]
    status, output = machine.run([machine.python, "-c", f"import {module}\n{sees}"], 120, peer_env(machine))
    if status:
        raise Cannot(f"{machine.python}: {tail(output, 1)}")


def beside(machine, words, limit):
    """A row of tools/bench/compare. Its Python must not see our libraries, so `bench` is a script that names them."""
    wrapper, out = machine.scratch / "bench", machine.scratch / "peers.json"
    ours = {"LD_LIBRARY_PATH": machine.env["LD_LIBRARY_PATH"]} | timed_products(machine)
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in ours.items())
    wrapper.write_text(f'#!/bin/sh\n{variables} exec {shlex.quote(str(machine.program("bench")))} "$@"\n')
    wrapper.chmod(0o755)
    out.unlink(missing_ok=True)
    status, output = machine.run(
        [machine.python, machine.root / "tools/bench/compare", "--python", machine.python, "--device", "cuda", "--bench",
         wrapper, "--rounds", "1", "--steps", "20", "--commit", machine.results.commit, "--out", out, *words],
        limit, peer_env(machine))
    if status:
        raise Failed(f"compare ended with {status}:\n{tail(output)}")
    row = json.loads(out.read_text())["results"][-1]
    peer = row["variant"]
    return {"what": f"{row['pursuit_ms']:.4g} ms, {peer} {row['torch_ms']:.4g} ms: {row['ratio']:.2f} times as fast; "
                    f"{row['pursuit_pool_mib']:.0f} MiB, {peer} {row['torch_pool_mib']:.0f} MiB",
            "figures": row}


def peers(machine, section):
    require(machine, "torch")

    def check(item):
        if item.endswith(("cupy", "jax")):
            require(machine, item.split()[-1])
        return beside(machine, PEERS[item], 200)
    return machine.each(section, list(PEERS), check)


def compiled(item):
    """The part of one workload under torch.compile, whose search for the fastest kernels takes minutes."""
    def part(machine, section):
        require(machine, "torch")
        machine.each(section, [item], lambda _: beside(machine, (*PEERS[item], "--variant", "compile"), 420))
        return section["items"][item]["what"]
    return part


def counters(machine, section):
    """What ncu counts of one launch of each hot kernel, past the first ones. The clocks are left as they are."""
    ncu = find_tool("ncu", "/opt/nvidia/nsight-compute/*")

    def check(item):
        kernel, workload, dtype, batch = HOT[item]
        status, output = machine.run(
            [ncu, "--kernel-name", f"regex:{kernel}", "--launch-skip", "2", "--launch-count", "1", "--clock-control", "none",
             "--csv", "--page", "details", *(word for s in SECTIONS for word in ("--section", s)), machine.program("bench"),
             workload, "--dtype", dtype, "--batch", batch, "--steps", "1", "--seconds", "0", "--device", "cuda"], 150)
        errors = [line for line in output.splitlines() if line.startswith("==ERROR==")]
        if errors:
            raise Cannot(f"ncu: {errors[0]}")
        if status:
            raise Failed(f"ncu ended with {status}:\n{tail(output)}")
        rows = list(csv.DictReader(line for line in output.splitlines() if line.startswith('"')))
        figures = {row["Metric Name"]: f"{row['Metric Value']} {row['Metric Unit']}".strip()
                   for row in rows if row.get("Metric Name")}
        if not figures:
            raise Failed(f"ncu counted nothing of {kernel}:\n{tail(output)}")
        shown = [f"{name} {figures[name]}" for name in ("Duration", "Memory Throughput", "Compute (SM) Throughput",
                                                        "Registers Per Thread", "Achieved Occupancy") if name in figures]
        return {"what": ", ".join(shown), "figures": figures}
    return machine.each(section, list(HOT), check)
