"""Cuts card N into GPU instances with the profiles that are named, each with one compute instance; their UUIDs."""
import json
import sys
from pynvml import *

nvmlInit()
card = nvmlDeviceGetHandleByIndex(int(sys.argv[1]))
nvmlDeviceSetMigMode(card, 1)
for profile in sys.argv[2:]:
    gpu = nvmlDeviceCreateGpuInstance(card, int(profile))
    slices = {19: 0, 14: 1, 9: 2}[int(profile)]
    nvmlGpuInstanceCreateComputeInstance(gpu, slices)
devices = [nvmlDeviceGetMigDeviceHandleByIndex(card, index) for index in range(len(sys.argv) - 2)]
print(json.dumps([[nvmlDeviceGetUUID(device), nvmlDeviceGetGpuInstanceId(device)] for device in devices]))
