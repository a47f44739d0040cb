#!/usr/bin/env python3
"""Plants a defect of each kind into a kernel's machine code and wants tools/kernel-code to find it: kernel_code.py TOOL

A stand-in for cuobjdump prints the code, so no toolkit is needed."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

GOOD = """	code for sm_90a
		Function : _Z8multiplyPf
        /*0000*/                   LDGSTS.E.BYPASS.128 [R1], [R2.64] ;  /* 0x00 */
        /*0010*/                   LDG.E R5, [R2.64] ;  /* 0x00 */
        /*0020*/                   LDSM.16.M88.4 R4, [R0] ;  /* 0x00 */
        /*0030*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;  /* 0x00 */
        /*0040*/               @P0 BRA 0x20 ;  /* 0x00 */
        /*0050*/                   STG.E [R2.64], R4 ;  /* 0x00 */
        /*0060*/              @!P1 BRA 0x10 ;  /* 0x00 */
        /*0070*/                   EXIT ;  /* 0x00 */
"""
REGISTERS = "Resource usage:\n Function _Z8multiplyPf:\n  REG:168 STACK:0 SHARED:0 LOCAL:0\n"
LIMITS = "sm_90a multiply 168 mma ldmatrix cp.async\n"
OUTER = GOOD.replace("LDG.E R5, [R2.64]", "LDL R5, [R1]")
LOCAL = REGISTERS.replace("STACK:0", "STACK:16")


def run(tool, sass=GOOD, registers=REGISTERS, limits=LIMITS):
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        (at / "sass").write_text(sass)
        (at / "registers").write_text(registers)
        (at / "limits").write_text(limits)
        (at / "cuobjdump").write_text(f'#!/bin/sh\n[ "$1" = -sass ] && exec cat {at}/sass\nexec cat {at}/registers\n')
        (at / "cuobjdump").chmod(0o755)
        done = subprocess.run([tool, at / "limits", at / "sass"], capture_output=True, text=True, check=False,
                              env=os.environ | {"PATH": f"{at}:{os.environ['PATH']}"})
        return done.returncode, done.stderr


def main(tool):
    code, said = run(tool)
    assert code == 0 and not said, said
    # What the limits allow: local memory, in an outer loop as well; and one block, by registers, by shared memory.
    code, said = run(tool, OUTER, LOCAL, LIMITS.replace("168", "168 local=16 around=1"))
    assert code == 0 and not said, said
    for block in ("block=384x0", "block=32x232448"):
        code, said = run(tool, limits=LIMITS.replace("168", f"168 {block} blocks=1"))
        assert code == 0 and not said, said
    planted = {
        "1 loads and stores of local memory": {"sass": GOOD.replace("LDSM.16.M88.4 R4, [R0]", "LDSM R4, [R0] ; \n"
                                               "        /*0028*/                   LDL R4, [R1]")},
        "1 loads and stores of local memory in loops around products, need at most 0": {"sass": OUTER},
        "has 16 bytes of local memory, need at most 8": {"registers": LOCAL, "limits": LIMITS.replace("168", "168 local=8")},
        "has 1 mma, need 2": {"limits": LIMITS.replace("mma", "mma=2")},
        "leaves room for 1 blocks a multiprocessor, need 2": {"limits": LIMITS.replace("168", "168 block=384x0 blocks=2")},
        "for 2 blocks a multiprocessor, need 4": {"limits": LIMITS.replace("168", "168 block=32x100000 blocks=4")},
        "leaves room for 2 blocks a multiprocessor, need 3": {"registers": REGISTERS.replace("168", "16"),
                                                              "limits": LIMITS.replace("168", "168 block=1024x0 blocks=3")},
        "for 0 blocks a multiprocessor, need 1": {"limits": LIMITS.replace("168", "168 block=1024x0 blocks=1")},
        "has no mma": {"sass": GOOD.replace("HMMA", "FFMA")},
        "has no ldmatrix": {"sass": GOOD.replace("LDSM", "LDS")},
        "has no cp.async": {"sass": GOOD.replace("LDGSTS", "LDG")},
        "takes 176 registers, need at most 168": {"registers": REGISTERS.replace("168", "176")},
        "no kernel divide": {"limits": LIMITS + "sm_90a divide 64\n"},
        "no kernel multiply for sm_80": {"limits": LIMITS + "sm_80 multiply 168\n"},
        "says no registers": {"registers": "Resource usage:\n"},
        "need ARCH KERNEL REGISTERS": {"limits": "sm_90a multiply many\n"},
        "got 'sm_90a multiply 168 locale=3', need": {"limits": "sm_90a multiply 168 locale=3\n"},
    }
    for want, change in planted.items():
        code, said = run(tool, **change)
        assert code != 0 and want in said, f"'{want}' was not found: status {code}, {said!r}"
    print(f"{len(planted)} planted defects found")


main(sys.argv[1])
