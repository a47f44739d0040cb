#!/usr/bin/env python3
"""Plants a spill and a missing ldmatrix into a copy of the headers, compiles one kernel of attention by nvcc, and wants
tools/kernel-code to find both by cuda/kernel_limits.txt: planted_kernel.py SOURCE

nvcc, cuobjdump and nvdisasm are on PATH."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KERNEL = "attention_kernel<bf16,64>"
PROGRAM = f"""#include "cuda/attention.cuh"
using namespace pursuit;
void* kernel = reinterpret_cast<void*>(cuda::{KERNEL});
"""
# (file, what it has, what is planted)
PLANTED = [
    # Registers for seven blocks on a processor, of which three blocks take all.
    ("cuda/attention.cuh", "most_threads, forward_blocks<T, D>)", "most_threads, 7)"),
    ("cuda/tile.h", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ld.shared.v4.u32"),
    ("cuda/tile.h", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "ld.shared.v4.u32"),
]
WANTED = ["has no ldmatrix", "local memory in a loop of products", "bytes of local memory, need at most"]


def main(source):
    with tempfile.TemporaryDirectory() as name:
        at = Path(name)
        shutil.copytree(source / "cuda", at / "cuda")
        for file, has, planted in PLANTED:
            text = (at / file).read_text()
            assert has in text, f"{file} has no '{has}'"
            (at / file).write_text(text.replace(has, planted))
        (at / "kernel.cu").write_text(PROGRAM)
        subprocess.run(["nvcc", "-std=c++20", "--expt-relaxed-constexpr", "--extended-lambda", "-DPURSUIT_GPU=1", f"-I{at}",
                        f"-I{source}", "-arch=sm_90a", "-cubin", "-o", at / "kernel.cubin", at / "kernel.cu"], check=True)
        limits = [line for line in (source / "cuda/kernel_limits.txt").read_text().splitlines()
                  if line.split()[:2] == ["sm_90a", KERNEL]]
        (at / "limits").write_text("\n".join(limits) + "\n")
        done = subprocess.run([source / "tools/kernel-code", at / "limits", at / "kernel.cubin"], capture_output=True,
                              text=True, check=False)
        print(done.stdout + done.stderr)
        missing = [want for want in WANTED if want not in done.stderr]
        assert done.returncode == 1 and not missing, f"not found: {missing}"
    print("the planted spill and the missing ldmatrix are found")


main(Path(sys.argv[1]).resolve())
