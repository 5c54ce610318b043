// A libcuda.so.1 of a made-up GPU, for machines without one. STUB_CAPABILITY is its compute capability, such as 6.1.
// STUB_LOADED is a file that gets a line for each module: its context's device and the kind of code. With STUB_REJECTS it
// takes no module, and writes that text into the log of its compiler.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INVALID_PTX 218
#define MAJOR 75
#define CONTEXT(device) ((void*)(size_t)(1 + (device)))

static void* current;

int cuInit(unsigned flags) { return (int)flags; }
int cuGetErrorName(int error, const char** name) {
  *name = error == INVALID_PTX ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR_OTHER";
  return 0;
}
int cuGetErrorString(int error, const char** text) {
  *text = error == INVALID_PTX ? "a PTX JIT compilation failed" : "something else";
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const char* capability = getenv("STUB_CAPABILITY");
  *value = device < 0 ? -1 : atoi(attribute == MAJOR ? capability : strchr(capability, '.') + 1);
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = CONTEXT(device);
  return 0;
}
int cuCtxGetCurrent(void** context) {
  *context = current;
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  current = context;
  return 0;
}
int cuCtxPopCurrent_v2(void** context) {
  *context = current;
  current = 0;
  return 0;
}
int cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
  const char* rejects = getenv("STUB_REJECTS");
  if (rejects && count == 2 && options[0] == 5 && options[1] == 6) {
    snprintf(values[0], (size_t)values[1], "%s", rejects);
    return INVALID_PTX;
  }
  FILE* file = fopen(getenv("STUB_LOADED"), "a");
  fprintf(file, "%zu %s\n", (size_t)current - 1, memcmp(image, "\177ELF", 4) ? strstr(image, ".version") ? "ptx" : "?" : "cubin");
  fclose(file);
  *module = current;
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = module;
  return name[0] == 0;
}
#ifndef OLD
int cuLaunchKernel() { return 0; }
#endif
int cuThreadExchangeStreamCaptureMode(int* mode) { return *mode < 0; }
int cuMemHostGetDevicePointer_v2() { return 0; }
int cuPointerGetAttribute() { return 0; }
int cuMemcpyAsync() { return 0; }
