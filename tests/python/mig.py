"""Cuts the first card, an A100 of 40 GB, as an administrator's program does, and makes it whole again."""
import ctypes
import json
from pynvml import *


def refused(kind, call, *arguments):
    try:
        call(*arguments)
    except kind:
        return
    raise AssertionError(f"{call} was not refused with {kind}")


def places(call, of, profile):
    count = ctypes.c_uint()
    call(of, profile, None, ctypes.byref(count))
    room = (c_nvmlGpuInstancePlacement_t * count.value)()
    call(of, profile, room, ctypes.byref(count))
    return [(place.start, place.size) for place in room]


def listed(call, of, profile, kind):
    count, room = ctypes.c_uint(), (kind * 8)()
    call(of, profile, room, ctypes.byref(count))
    return [room[index] for index in range(count.value)]


nvmlInit()
card = nvmlDeviceGetHandleByIndex(0)
uuid = nvmlDeviceGetUUID(card)
assert nvmlDeviceGetMaxMigDeviceCount(card) == 0
refused(NVMLError_NotSupported, nvmlDeviceCreateGpuInstance, card, 9)
refused(NVMLError_InvalidArgument, nvmlDeviceSetMigMode, card, 2)
nvmlDeviceSetMigMode(card, NVML_DEVICE_MIG_ENABLE)
assert nvmlDeviceGetMigMode(card) == [1, 1]
refused(NVMLError_NotSupported, nvmlDeviceSetComputeMode, card, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
refused(NVMLError_NotSupported, nvmlDeviceGetUtilizationRates, card)

# What it can be cut into.
profiles = {}
for index in range(NVML_GPU_INSTANCE_PROFILE_COUNT):
    try:
        profile = nvmlDeviceGetGpuInstanceProfileInfo(card, index, version=2)
    except NVMLError_NotSupported:
        continue
    plain = nvmlDeviceGetGpuInstanceProfileInfo(card, index, version=1)
    assert (plain.id, plain.memorySizeMB) == (profile.id, profile.memorySizeMB)
    assert nvmlDeviceGetGpuInstanceProfileInfoById(card, profile.id).memorySizeMB == profile.memorySizeMB
    profiles[profile.id] = [
        index, profile.name if isinstance(profile.name, str) else profile.name.decode(), profile.sliceCount,
        profile.instanceCount, profile.multiprocessorCount, profile.memorySizeMB,
        places(nvmlDeviceGetGpuInstancePossiblePlacements, card, profile.id),
        nvmlDeviceGetGpuInstanceRemainingCapacity(card, profile.id),
    ]
refused(NVMLError_InvalidArgument, nvmlDeviceGetGpuInstanceProfileInfo, card, 99)

# Two GPU instances: the second where it is wanted.
quarter = nvmlDeviceCreateGpuInstanceWithPlacement(card, 14, ctypes.byref(c_nvmlGpuInstancePlacement_t(0, 2)))
info = nvmlGpuInstanceGetInfo(quarter)
assert (info.id, info.profileId, info.placement.start, info.placement.size) == (3, 14, 0, 2)
assert nvmlDeviceGetUUID(info.device) == uuid
half = nvmlDeviceCreateGpuInstance(card, 9)
assert nvmlGpuInstanceGetInfo(half).id == 2
refused(NVMLError_InsufficientResources, nvmlDeviceCreateGpuInstance, card, 9)
refused(NVMLError_InsufficientResources, nvmlDeviceCreateGpuInstanceWithPlacement, card, 14, ctypes.byref(c_nvmlGpuInstancePlacement_t(0, 2)))
refused(NVMLError_InvalidArgument, nvmlDeviceCreateGpuInstanceWithPlacement, card, 14, ctypes.byref(c_nvmlGpuInstancePlacement_t(1, 2)))
assert nvmlDeviceGetGpuInstanceRemainingCapacity(card, 19) == 2
assert [nvmlGpuInstanceGetInfo(one).id for one in listed(nvmlDeviceGetGpuInstances, card, 9, c_nvmlGpuInstance_t)] == [2]
assert nvmlGpuInstanceGetInfo(nvmlDeviceGetGpuInstanceById(card, 3)).placement.size == 2
refused(NVMLError_NotFound, nvmlDeviceGetGpuInstanceById, card, 5)
refused(NVMLError_NotFound, nvmlDeviceGetMigDeviceHandleByIndex, card, 0)

# Compute instances: all of the quarter, the half in parts.
kinds = {}
for index in range(NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
    try:
        kind = nvmlGpuInstanceGetComputeInstanceProfileInfo(half, index, 0, version=2)
    except NVMLError_NotSupported:
        continue
    kinds[kind.id] = [kind.name if isinstance(kind.name, str) else kind.name.decode(), kind.sliceCount, kind.instanceCount, kind.multiprocessorCount]
assert places(nvmlGpuInstanceGetComputeInstancePossiblePlacements, half, 0) == [(0, 1), (1, 1), (2, 1)]
assert nvmlGpuInstanceGetComputeInstanceRemainingCapacity(half, 0) == 3
nvmlGpuInstanceCreateComputeInstance(quarter, 1)
part = nvmlGpuInstanceCreateComputeInstance(half, 0)
refused(NVMLError_NotSupported, nvmlGpuInstanceCreateComputeInstance, half, 3)
refused(NVMLError_InsufficientResources, nvmlGpuInstanceCreateComputeInstance, half, 2)
nvmlGpuInstanceCreateComputeInstanceWithPlacement(half, 1, ctypes.byref(c_nvmlComputeInstancePlacement_t(1, 2)))
made = nvmlComputeInstanceGetInfo(part)
assert (made.id, made.profileId, made.placement.start, made.placement.size) == (0, 0, 0, 1)
assert nvmlGpuInstanceGetComputeInstanceRemainingCapacity(half, 0) == 0
assert len(listed(nvmlGpuInstanceGetComputeInstances, half, 1, c_nvmlComputeInstance_t)) == 1
refused(NVMLError_InUse, nvmlGpuInstanceDestroy, half)

# The MIG devices: by GPU instance, then by compute instance.
assert nvmlDeviceGetMaxMigDeviceCount(card) == 7
devices = []
for index in range(3):
    device = nvmlDeviceGetMigDeviceHandleByIndex(card, index)
    assert nvmlDeviceIsMigDeviceHandle(device) and not nvmlDeviceIsMigDeviceHandle(card)
    name = nvmlDeviceGetUUID(device)
    numbers = nvmlDeviceGetGpuInstanceId(device), nvmlDeviceGetComputeInstanceId(device)
    for form in name, f"MIG-{uuid}/{numbers[0]}/{numbers[1]}":
        found = nvmlDeviceGetHandleByUUID(form)
        assert nvmlDeviceGetUUID(found) == name and nvmlDeviceGetIndex(found) == index
    assert nvmlDeviceGetUUID(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)) == uuid
    attributes = nvmlDeviceGetAttributes(device)
    memory = nvmlDeviceGetMemoryInfo(device)
    assert nvmlDeviceGetComputeRunningProcesses(device) == []
    refused(NVMLError_InvalidArgument, nvmlDeviceGetMinorNumber, device)
    refused(NVMLError_NotSupported, nvmlDeviceGetUtilizationRates, device)
    devices.append([
        name, nvmlDeviceGetName(device), numbers, memory.total >> 20, attributes.multiprocessorCount,
        attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount, attributes.memorySizeMB,
    ])
refused(NVMLError_NotFound, nvmlDeviceGetMigDeviceHandleByIndex, card, 3)
refused(NVMLError_InvalidArgument, nvmlDeviceGetMigDeviceHandleByIndex, card, 7)
refused(NVMLError_NotSupported, nvmlDeviceGetGpuInstanceId, card)
refused(NVMLError_NotFound, nvmlDeviceGetHandleByUUID, f"MIG-{uuid}/3/5")

# Whole again.
stale = nvmlDeviceGetMigDeviceHandleByIndex(card, 0)
for gpu in half, quarter:
    for profile in range(3):
        try:
            found = listed(nvmlGpuInstanceGetComputeInstances, gpu, profile, c_nvmlComputeInstance_t)
        except NVMLError_NotSupported:
            continue
        for compute in found:
            nvmlComputeInstanceDestroy(compute)
    nvmlGpuInstanceDestroy(gpu)
refused(NVMLError_InvalidArgument, nvmlGpuInstanceGetInfo, half)
refused(NVMLError_InvalidArgument, nvmlDeviceGetUUID, stale)
nvmlDeviceSetMigMode(card, NVML_DEVICE_MIG_DISABLE)
assert nvmlDeviceGetMigMode(card) == [0, 0]

# What else an administrator sets.
nvmlDeviceSetComputeMode(card, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
assert nvmlDeviceGetComputeMode(card) == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
nvmlDeviceSetComputeMode(card, NVML_COMPUTEMODE_DEFAULT)
refused(NVMLError_InvalidArgument, nvmlDeviceSetComputeMode, card, 1)
nvmlDeviceSetPersistenceMode(card, 0)
assert nvmlDeviceGetPersistenceMode(card) == 0
nvmlDeviceSetPersistenceMode(card, 1)

# Who is not root administers nothing.
import os
os.setuid(65534)
refused(NVMLError_NoPermission, nvmlDeviceSetPersistenceMode, card, 0)
refused(NVMLError_NoPermission, nvmlDeviceSetMigMode, card, 1)
print(json.dumps({"uuid": uuid, "profiles": profiles, "kinds": kinds, "devices": devices}))
