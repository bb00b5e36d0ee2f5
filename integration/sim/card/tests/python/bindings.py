"""A program on NVIDIA's own bindings (PyPI: cuda-bindings). It is checkpointed between two launches, first by another
process, which it lets know with a line, then by itself through the same bindings."""

import ctypes
import os
import struct
import sys

from cuda.bindings import driver


def call(outcome):
    error, *values = outcome
    assert error == driver.CUresult.CUDA_SUCCESS, error
    return values[0] if len(values) == 1 else values


def add(numbers, others):
    """The sums, as the card makes them."""
    count = len(numbers)
    for pointer, floats in ((first, numbers), (second, others)):
        call(driver.cuMemcpyHtoDAsync(pointer, struct.pack(f"{count}f", *floats), 4 * count, stream))
    parameters = ((int(first), int(second), int(sums), count), (ctypes.c_void_p,) * 3 + (ctypes.c_uint32,))
    call(driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, 0))
    back = bytearray(4 * count)
    call(driver.cuMemcpyDtoHAsync(back, sums, len(back), stream))
    call(driver.cuStreamSynchronize(stream))
    return list(struct.unpack(f"{count}f", back))


call(driver.cuInit(0))
device = call(driver.cuDeviceGet(0))
name = call(driver.cuDeviceGetName(64, device)).rstrip(b"\0").decode()
context = call(driver.cuDevicePrimaryCtxRetain(device))
call(driver.cuCtxSetCurrent(context))
stream = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
first, second, sums = (call(driver.cuMemAlloc(1024)) for _ in range(3))
with open(sys.argv[1], "rb") as text:
    module = call(driver.cuModuleLoadData(text.read() + b"\0"))
kernel = call(driver.cuModuleGetFunction(module, b"baton_add"))

assert add([1.0, 2.5], [0.5, -2.5]) == [1.5, 0.0]
print("added on", name, flush=True)
sys.stdin.readline()

kept = bytearray(8)
call(driver.cuMemcpyDtoH(kept, sums, len(kept)))
assert struct.unpack("2f", kept) == (1.5, 0.0)
assert add([3.0], [4.0]) == [7.0]

state = driver.CUprocessState
own = os.getpid()
steps = [
    (driver.cuCheckpointProcessLock, driver.CUcheckpointLockArgs(), state.CU_PROCESS_STATE_LOCKED),
    (driver.cuCheckpointProcessCheckpoint, driver.CUcheckpointCheckpointArgs(), state.CU_PROCESS_STATE_CHECKPOINTED),
    (driver.cuCheckpointProcessRestore, driver.CUcheckpointRestoreArgs(), state.CU_PROCESS_STATE_LOCKED),
    (driver.cuCheckpointProcessUnlock, driver.CUcheckpointUnlockArgs(), state.CU_PROCESS_STATE_RUNNING),
]
for step, arguments, reached in steps:
    call(step(own, arguments))
    assert call(driver.cuCheckpointProcessGetState(own)) == reached

assert add([5.0], [6.0]) == [11.0]
print("done", flush=True)
