"""What a process sees of cards and MIG devices, and of the memory of each."""
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
        migs.append([nvmlDeviceGetUUID(device), nvmlDeviceGetGpuInstanceId(device), memory(device)])
    cards.append([nvmlDeviceGetUUID(card), memory(card), migs])
print(json.dumps(cards))
