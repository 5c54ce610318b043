// dlopen, dlsym and dlerror under the versions that every glibc since 2.2.5 has (glibc 2.34 gave them new ones).
#pragma once

#include <dlfcn.h>

__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
__asm__(".symver dlerror, dlerror@GLIBC_2.2.5");
