/* Loads the compiled kernels with the loader of musl, and calls two of them: musl LIBRARY

The library names functions of Python. None of the calls here reaches them, so anything may have their names. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

char PyArg_UnpackTuple, PyErr_Occurred, PyEval_RestoreThread, PyEval_SaveThread, PyImport_ImportModule, PyLong_FromLong,
    PyLong_FromUnsignedLong, PyLong_FromVoidPtr, PyObject_CallMethod, PyObject_Free, PyObject_Malloc, _Py_Dealloc,
    _Py_NoneStruct;
enum { COUNT = 10, WIDTH = 8 };

int main(int count, char **arguments)
{
    void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (library == NULL)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    uint32_t (*crc32c)(const uint8_t *, size_t);
    void (*row_ones)(const uint8_t *, size_t, size_t, int64_t *);
    *(void **)&crc32c = dlsym(library, "crc32c");
    *(void **)&row_ones = dlsym(library, "row_ones");
    uint8_t rows[COUNT * WIDTH];
    for (int i = 0; i < COUNT * WIDTH; i++)
        rows[i] = (uint8_t)i;
    int64_t ones[COUNT];
    row_ones(rows, COUNT, WIDTH, ones);
    printf("%#x", (unsigned)crc32c((const uint8_t *)"123456789", 9));
    for (int i = 0; i < COUNT; i++)
        printf(" %d", (int)ones[i]);
    printf("\n");
    return 0;
}
