/* The targets of the fuzzer. */
#ifndef HUBBUB_FUZZ_H
#define HUBBUB_FUZZ_H
#include <stddef.h>
#include <stdint.h>

void fuzz_add_query(const char *text, size_t size);
void fuzz_texts(const uint8_t *data, size_t size);
void fuzz_lives(const uint8_t *data, size_t size);

#endif
