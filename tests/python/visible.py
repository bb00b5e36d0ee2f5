"""What a process sees of cards and MIG devices, of the memory of each, and of who uses the MIG devices."""
import json
from pynvml import *


def memory(device):
    try:
        return nvmlDeviceGetMemoryInfo(device).total >> 20
    except NVMLError_NoPermission:
        return "no permission"


nvmlInit()
cards = []
for index in range(nvmlDeviceGetCount()):
    card = nvmlDeviceGetHandleByIndex(index)
    migs = []
    for place in range(nvmlDeviceGetMaxMigDeviceCount(card)):
        try:
            device = nvmlDeviceGetMigDeviceHandleByIndex(card, place)
        except NVMLError_NotFound:
            continue
        users = [one.usedGpuMemory >> 20 for one in nvmlDeviceGetComputeRunningProcesses(device)]
        migs.append([nvmlDeviceGetUUID(device), nvmlDeviceGetGpuInstanceId(device), memory(device), users])
    cards.append([nvmlDeviceGetUUID(card), memory(card), migs])
print(json.dumps(cards))
