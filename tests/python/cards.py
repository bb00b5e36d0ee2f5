"""What nvidia-ml-py tells of each card, as JSON."""
import ctypes
import json
import re
from pynvml import *

nvmlInit()
cards = []
for index in range(nvmlDeviceGetCount()):
    device = nvmlDeviceGetHandleByIndex(index)
    uuid = nvmlDeviceGetUUID(device)
    assert nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID(uuid)) == index
    binary = bytes.fromhex(uuid[4:].replace("-", ""))
    for form, kind in (binary, NVML_UUID_TYPE_BINARY), (uuid.encode(), NVML_UUID_TYPE_ASCII):
        assert nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUIDV(form, kind)) == index
    pci = nvmlDeviceGetPciInfo(device)
    assert nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId(pci.busId)) == index
    more = nvmlPciInfoExt_v1_t(version=nvmlPciInfoExt_v1)
    nvmlDeviceGetPciInfoExt(device, ctypes.byref(more))
    assert (more.baseClass, more.busId) == (3, pci.busId)
    first, second = nvmlDeviceGetMemoryInfo(device), nvmlDeviceGetMemoryInfo(device, version=nvmlMemory_v2)
    assert first.used == second.used + second.reserved and first.used + first.free == first.total
    processes = nvmlDeviceGetComputeRunningProcesses_v3(device)
    assert nvmlDeviceGetGraphicsRunningProcesses(device) == []
    details = nvmlDeviceGetRunningProcessDetailList(device, nvmlProcessDetailList_v1, 0)
    assert [one.pid for one in details] == [one.pid for one in processes]
    # What cards of these kinds do not have is refused as such.
    for call in nvmlDeviceGetFanSpeed, nvmlDeviceGetGpuFabricInfo:
        try:
            call(device, ctypes.byref(c_nvmlGpuFabricInfo_t())) if call is nvmlDeviceGetGpuFabricInfo else call(device)
            raise AssertionError(call)
        except NVMLError_NotSupported:
            pass
    cards.append({
        "uuid": uuid,
        "name": nvmlDeviceGetName(device),
        "minor": nvmlDeviceGetMinorNumber(device),
        "bus": pci.busId,
        "serial": nvmlDeviceGetSerial(device),
        "total": second.total,
        "used": second.used,
        "processes": [[one.pid, one.usedGpuMemory, one.gpuInstanceId] for one in processes],
        "mig": nvmlDeviceGetMigMode(device),
        "persistence": nvmlDeviceGetPersistenceMode(device),
        "virtualization": nvmlDeviceGetVirtualizationMode(device),
        "compute": nvmlDeviceGetComputeMode(device),
        "temperature": nvmlDeviceGetTemperatureV(device, NVML_TEMPERATURE_GPU),
        "watts": nvmlDeviceGetPowerManagementLimit(device) // 1000,
        "load": nvmlDeviceGetUtilizationRates(device).gpu,
        "clock": nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_SM),
        "ecc": nvmlDeviceGetEccMode(device),
        "width": nvmlDeviceGetMaxPcieLinkWidth(device),
    })
events = nvmlEventSetCreate()
nvmlDeviceRegisterEvents(nvmlDeviceGetHandleByIndex(0), nvmlEventTypeXidCriticalError, events)
try:
    nvmlEventSetWait_v2(events, 10)
    raise AssertionError("an event")
except NVMLError_Timeout:
    pass
nvmlEventSetFree(events)
# The functions that the bindings know and the library of this driver does not have.
library = ctypes.CDLL("libnvidia-ml.so.1")
source = open(__import__("pynvml").__file__).read()
missing = [name for name in set(re.findall(r'_nvmlGetFunctionPointer\("(nvml\w+)"\)', source)) if not hasattr(library, name)]
driver, cuda = nvmlSystemGetDriverVersion(), nvmlSystemGetCudaDriverVersion()
nvmlShutdown()
try:
    nvmlDeviceGetCount()
    raise AssertionError("an answer after the end")
except NVMLError_Uninitialized:
    pass
print(json.dumps({"driver": driver, "cuda": cuda, "missing": missing, "cards": cards}))
