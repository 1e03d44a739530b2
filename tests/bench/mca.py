#!/usr/bin/env python3
"""Inner loops of the AArch64 kernels as llvm-mca sees them: cycles for 64 products, on cores that are not here.

    make CROSS=aarch64 all && tests/bench/mca.py [BUILD_FOLDER] [LLVM_MCA]

The script takes the innermost loop with the most multiplications of each function named below, counts the cycles of one
turn in llvm-mca, and divides. The limit is what the same multiplications take alone, with a register each: nothing but
the core's multipliers. A core that lacks the instruction has no figure."""
import glob
import re
import subprocess
import sys

CORES = {"neoverse-n1": "dotprod", "neoverse-n2": "dotprod i8mm", "neoverse-v1": "dotprod i8mm", "neoverse-v2": "dotprod i8mm"}
# object in a room of common/kernels, function, how its multiplications begin, products of each, what the core must have
LOOPS = [
    ("int_matmul_neon", ".*", r"smull2?\b|smlal2?\b", 8, ""),
    ("int_matmul_dotprod", ".*", r"sdot\b", 16, "dotprod"),
    ("int_matmul_i8mm", ".*", r"smmla\b", 32, "i8mm"),
    ("matmul_neon", "many_f16", r"fmla\b", 4, ""),
    ("matmul_neon", "few_f16", r"fmla\b", 4, ""),
    ("matmul_neon", "few_int8", r"fmla\b", 4, ""),
    ("attn_neon", ".*", r"fmla\b", 4, ""),
]
ATTRIBUTES = "+neon,+dotprod,+i8mm,+fullfp16"


def functions(path):
    """Name and [(address, text)] of each function of an object."""
    out = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", path], check=True, text=True,
                         capture_output=True).stdout
    name, body = None, []
    for line in out.splitlines():
        head = re.match(r"[0-9a-f]+ <(.+)>:$", line)
        step = re.match(r" *([0-9a-f]+):\s+(.*)$", line)
        if head:
            if name:
                yield name, body
            name, body = head.group(1), []
        elif step:
            body.append((int(step.group(1), 16), re.sub(r"\s*(//.*)$", "", step.group(2))))
    if name:
        yield name, body


def loops(body):
    """The bodies of innermost loops: from the target of a branch back to it, no other branch between."""
    at = {address: i for i, (address, _) in enumerate(body)}
    for i, (address, text) in enumerate(body):
        back = re.match(r"(b\.\w+|cbn?z|tbn?z)\s+(?:.*,\s*)?([0-9a-f]+) <", text)
        if not back or int(back.group(2), 16) >= address or int(back.group(2), 16) not in at:
            continue
        turn = [t for _, t in body[at[int(back.group(2), 16)]:i]]
        if not any(re.match(r"(b|b\.\w+|cbn?z|tbn?z|ret|bl|br)\s", t + " ") for t in turn):
            yield turn


def cycles(mca, core, turn, times=200):
    """The cycles of one turn, in the steady state; None where llvm-mca cannot tell."""
    run = subprocess.run([mca, "-mtriple=aarch64", "-mcpu=" + core, "-mattr=" + ATTRIBUTES, f"-iterations={times}"],
                         input="\n".join(turn) + "\n", text=True, capture_output=True)
    total = re.search(r"Total Cycles:\s+(\d+)", run.stdout)
    if run.returncode or not total:
        sys.exit(f"{mca} -mcpu={core}: {run.stderr.strip()[:400]}")
    return int(total.group(1)) / times


def alone(turn, multiplies):
    """The multiplications of a turn, each into a register of its own, from registers that nothing writes."""
    into = 0
    for text in turn:
        if not re.match(multiplies, text):
            continue
        name, operands = text.split(None, 1)
        shapes = re.findall(r"v\d+\.(\w+(?:\[\d+\])?)", operands)
        yield f"{name} v{into % 24}.{shapes[0]}, v30.{shapes[1]}, v{31 if '[' not in shapes[2] else 15}.{shapes[2]}"
        into += 1


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build/aarch64"
    mca = sys.argv[2] if len(sys.argv) > 2 else "llvm-mca-19"
    print("| loop | products | instructions | " + " | ".join(f"{c[9:].upper()}: cycles, limit" for c in CORES) + " |")
    print("|---|---|---|" + "---|" * len(CORES))
    for stem, wanted, multiplies, each, needs in LOOPS:
        best = max(((sum(bool(re.match(multiplies, t)) for t in turn), -len(turn), name, turn)
                    for name, body in functions(*glob.glob(f"{build}/common/kernels/*/{stem}.o")) if re.fullmatch(wanted, name)
                    for turn in loops(body)), default=None)
        if not best or not best[0]:
            sys.exit(f"{stem}: no loop with {multiplies}")
        count, _, name, turn = best
        products, row = count * each, []
        for core, has in CORES.items():
            if needs and needs not in has.split():
                row.append("-")
                continue
            row.append("{:.2f}, {:.2f}".format(*(64 / products * c for c in (
                cycles(mca, core, turn), cycles(mca, core, list(alone(turn, multiplies)))))))
        what = stem if wanted == ".*" else f"{stem} {name.split('.')[0]}"
        print(f"| `{what}` | {products} | {len(turn)} | " + " | ".join(row) + " |")


main()
