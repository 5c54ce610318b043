// Keeps the library loadable on any manylinux_2_28 system when it is built on a newer one: private definitions of what the
// build machine's headers ask of a newer libstdc++ or glibc. (dynamic_loading.h does the same for dlopen and dlsym.)
#include <ios>
#include <new>
#include <sstream>

#define VOLTA_HIDDEN __attribute__((visibility("hidden")))

// glibc 2.32: whether the process has one thread only. Saying no costs an atomic instruction and is always right.
extern "C" VOLTA_HIDDEN char __libc_single_threaded;
char __libc_single_threaded = 0;

extern "C" {
// libstdc++ 11, called by vector; given under its mangled name because its own declaration says another visibility.
VOLTA_HIDDEN void volta_throw_bad_length() asm("_ZSt28__throw_bad_array_new_lengthv");
void volta_throw_bad_length() { throw std::bad_alloc(); }

// libstdc++ 9: the default constructors of string streams; the ones that take a mode are old.
VOLTA_HIDDEN void volta_make_ostringstream(void*) asm(
    "_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev");
VOLTA_HIDDEN void volta_make_stringstream(void*) asm(
    "_ZNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEC1Ev");
void volta_make_ostringstream(void* at) { new (at) std::ostringstream(std::ios_base::out); }
void volta_make_stringstream(void* at) { new (at) std::stringstream(std::ios_base::in | std::ios_base::out); }
}
