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
        /*0010*/                   STL [R1], R4 ;  /* 0x00 */
        /*0020*/                   LDSM.16.M88.4 R4, [R0] ;  /* 0x00 */
        /*0030*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;  /* 0x00 */
        /*0040*/               @P0 BRA 0x20 ;  /* 0x00 */
        /*0050*/                   LDL R4, [R1] ;  /* 0x00 */
        /*0060*/              @!P1 BRA 0x10 ;  /* 0x00 */
        /*0070*/                   EXIT ;  /* 0x00 */
"""
REGISTERS = "Resource usage:\n Function _Z8multiplyPf:\n  REG:168 STACK:0 SHARED:0 LOCAL:0\n"
LIMITS = "sm_90a multiply 168 mma ldmatrix cp.async\n"


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
    assert code == 0 and not said, said  # local memory in an outer loop may be
    planted = {
        "1 loads and stores of local memory": {"sass": GOOD.replace("LDSM.16.M88.4 R4, [R0]", "LDSM R4, [R0] ; \n"
                                               "        /*0028*/                   LDL R4, [R1]")},
        "has no mma": {"sass": GOOD.replace("HMMA", "FFMA")},
        "has no ldmatrix": {"sass": GOOD.replace("LDSM", "LDS")},
        "has no cp.async": {"sass": GOOD.replace("LDGSTS", "LDG")},
        "takes 176 registers, need at most 168": {"registers": REGISTERS.replace("168", "176")},
        "no kernel divide": {"limits": LIMITS + "sm_90a divide 64\n"},
        "no kernel multiply for sm_80": {"limits": LIMITS + "sm_80 multiply 168\n"},
        "says no registers": {"registers": "Resource usage:\n"},
        "need ARCH KERNEL REGISTERS": {"limits": "sm_90a multiply many\n"},
    }
    for want, change in planted.items():
        code, said = run(tool, **change)
        assert code != 0 and want in said, f"'{want}' was not found: status {code}, {said!r}"
    print(f"{len(planted)} planted defects found")


main(sys.argv[1])
