/* The core of hubbub's clients: what one device answers. */
#ifndef HUBBUB_H
#define HUBBUB_H
#include <stddef.h>
#include <stdint.h>
#define HUBBUB_KEY 32 /* bytes of a device key */
#endif
