#!/usr/bin/env python3
"""A counter in GPU memory, by NVIDIA's own bindings (PyPI: cuda-bindings), that answers as `workload` does.

usage: count.py [--interval-ms N] [--steps N] [--socket PATH] [--ptx PATH]
       count.py status [--socket PATH]
       count.py wait STEP [--socket PATH]
"""

import argparse
import ctypes
import json
import os
import pathlib
import socket
import struct
import sys
import threading
import time

PLACES = ["/run/workload.sock", "/tmp/workload.sock", "/workload.sock"]
HERE = pathlib.Path(__file__).resolve().parent
PTX = [HERE / "baton.ptx", HERE.parent / "kernels" / "baton.ptx"]
MASK = (1 << 64) - 1


def mix(checksum, step):
    """splitmix64's finalizer of (checksum ^ step) + 0x9e3779b97f4a7c15."""
    mixed = ((checksum ^ step) + 0x9E3779B97F4A7C15) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
    return mixed ^ (mixed >> 31)


def expected(steps):
    checksum = 0
    for step in range(1, steps + 1):
        checksum = mix(checksum, step)
    return checksum


class Counter:
    """The count: on the card, and how far it must be."""

    def __init__(self, ptx):
        from cuda.bindings import driver

        self.driver = driver
        self.call(driver.cuInit(0))
        self.device = self.call(driver.cuDeviceGet(0))
        self.context = self.call(driver.cuDevicePrimaryCtxRetain(self.device))
        self.call(driver.cuCtxSetCurrent(self.context))
        module = self.call(driver.cuModuleLoadData(ptx + b"\0"))
        self.kernel = self.call(driver.cuModuleGetFunction(module, b"baton_count_step"))
        self.state = self.call(driver.cuMemAlloc(16))
        self.call(driver.cuMemsetD8(self.state, 0, 16))
        self.step, self.right = 0, 0
        self.changed = threading.Condition()

    def call(self, outcome):
        error, *values = outcome
        if error != self.driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the driver said {error.name} ({int(error)})")
        return values[0] if len(values) == 1 else values

    def count(self):
        with self.changed:
            parameters = ((int(self.state),), (ctypes.c_void_p,))
            self.call(self.driver.cuLaunchKernel(self.kernel, 1, 1, 1, 1, 1, 1, 0, 0, parameters, 0))
            self.call(self.driver.cuCtxSynchronize())
            self.step += 1
            self.right = mix(self.right, self.step)
            self.changed.notify_all()

    def report(self):
        """What is found on the card, as a line: `count STEP 0 0 0 STEP:CHECKSUM:RIGHT:GPU`."""
        with self.changed:
            self.call(self.driver.cuCtxSetCurrent(self.context))
            found = bytearray(16)
            self.call(self.driver.cuMemcpyDtoH(found, self.state, 16))
            uuid = bytes(self.call(self.driver.cuDeviceGetUuid(self.device)).bytes).hex()
            step, checksum = struct.unpack("<QQ", found)
            if step != self.step:
                checksum = ~self.right & MASK
            gpu = "GPU-" + "-".join([uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]])
            return f"count {self.step} 0 0 0 {self.step}:{checksum:016x}:{self.right:016x}:{gpu}"

    def answer(self, stream):
        with stream, stream.makefile("rw") as text:
            try:
                question = text.readline().split()
                if len(question) == 2 and question[0] == "wait":
                    with self.changed:
                        self.changed.wait_for(lambda: self.step >= int(question[1]))
                elif question != ["status"]:
                    raise ValueError(f"unknown question {question}")
                line = self.report()
            except (RuntimeError, ValueError) as why:
                line = f"error {why}"
            print(line, file=text, flush=True)


def listen(asked):
    for path in [asked] if asked else PLACES:
        try:
            if os.path.exists(path):
                os.unlink(path)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen()
            return listener
        except OSError as why:
            last = why
    raise SystemExit(f"count.py: nowhere to listen: {last}")


def run(options):
    text = [options.ptx] if options.ptx else [path for path in PTX if path.exists()]
    counter = Counter(pathlib.Path(text[0]).read_bytes())
    listener = listen(options.socket)

    def accept():
        while True:
            threading.Thread(target=counter.answer, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    while options.steps is None or counter.step < options.steps:
        counter.count()
        time.sleep(options.interval_ms / 1000)
    return show(counter.report())


def ask(options, question):
    for path in [options.socket] if options.socket else PLACES:
        try:
            stream = socket.socket(socket.AF_UNIX)
            stream.connect(path)
        except OSError:
            continue
        with stream, stream.makefile("rw") as text:
            print(question, file=text, flush=True)
            return show(text.readline())
    print("count.py: no workload answers", file=sys.stderr)
    return 1


def show(line):
    """Prints a report as JSON; the exit code is the verdict, judged by what the count must be and not by what is said."""
    words = line.split()
    if len(words) != 6:
        print(f"count.py: it answers {line!r}", file=sys.stderr)
        return 1
    step, checksum, right, gpu = words[5].split(":")
    part = {"step": int(step), "checksum": checksum, "expected": right, "gpu": gpu}
    whole = {"workload": words[0], **part, "memory": 0, "damaged": 0, "refused": 0, "parts": [part]}
    print(json.dumps(whole), flush=True)
    return 0 if int(checksum, 16) == expected(int(step)) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", metavar="status | wait STEP")
    parser.add_argument("--interval-ms", type=float, default=10)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--socket")
    parser.add_argument("--ptx")
    options = parser.parse_args()
    match options.words:
        case []:
            return run(options)
        case ["status"]:
            return ask(options, "status")
        case ["wait", step]:
            return ask(options, f"wait {int(step)}")
    parser.error(f"cannot read {options.words}")


if __name__ == "__main__":
    sys.exit(main())
