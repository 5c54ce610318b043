// A libnvidia-ml.so.1 for tests: as many GPUs as VOLTA_TEST_GPUS lists capabilities ("7.0,7.0"), each with 32 GiB.
// The struct is NVML's nvmlMemory_t; handles are small integers in a pointer. Everything else is "not supported" (3).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } Memory;

static int capability(unsigned index, int *major, int *minor) {
  const char *text = getenv("VOLTA_TEST_GPUS");
  for (unsigned at = 0; text && *text; ++at) {
    if (sscanf(text, "%d.%d", major, minor) != 2) return 0;
    if (at == index) return 1;
    text = strchr(text, ',');
    if (text) ++text;
  }
  return 0;
}

int nvmlInit_v2(void) { return getenv("VOLTA_TEST_GPUS") ? 0 : 9; }
int nvmlInit(void) { return nvmlInit_v2(); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int error) { return error == 2 ? "Invalid Argument" : "Stub"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
  int a, b;
  for (*count = 0; capability(*count, &a, &b);) ++*count;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  int a, b;
  *handle = (void *)(size_t)(index + 1);
  return capability(index, &a, &b) ? 0 : 2;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
  unsigned index;
  if (sscanf(uuid, "GPU-%u", &index) != 1) return 6;
  return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

int nvmlDeviceGetIndex(void *handle, unsigned *index) { *index = (unsigned)(size_t)handle - 1; return 0; }
int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
  return capability((unsigned)(size_t)handle - 1, major, minor) ? 0 : 2;
}
int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
  (void)handle; snprintf(name, length, "Tesla V100-SXM2-32GB (test)"); return 0;
}
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
  snprintf(uuid, length, "GPU-%u", (unsigned)(size_t)handle - 1); return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, Memory *memory) {
  (void)handle; memory->total = 34359738368ULL; memory->used = 1ULL << 30; memory->free = memory->total - memory->used; return 0;
}
int nvmlDeviceGetP2PStatus(void *a, void *b, int index, int *status) { (void)a; (void)b; (void)index; *status = 0; return 0; }
