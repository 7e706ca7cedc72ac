/* An example of a host: a device whose store is one file. It prints the frames that wait, in hex, and sends nothing.
   usage: device FOLDER LISTING QUERY VALUE
   FOLDER must exist. LISTING is a file with the body of GET /v1/queries. For POSIX systems. */
#define _POSIX_C_SOURCE 200809L
#include "hubbub.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROOM (1 << 20)
#define FRAME_ROOM 66000
#define HEAD (HUBBUB_KEY + 4)

static uint8_t state_bytes[ROOM], frame_bytes[FRAME_ROOM], work_bytes[ROOM * 2], store[ROOM * 2];

static void fail(const char *problem) {
  fprintf(stderr, "%s\n", problem);
  exit(2);
}

/* Read a file, and return its bytes. A missing file has none. */
static size_t read_file(const char *path, void *to, size_t room) {
  FILE *file = fopen(path, "rb");
  if (!file) return 0;

  size_t size = fread(to, 1, room, file);
  if (ferror(file) || size == room) fail("A file cannot be read, or is too large.");
  fclose(file);
  return size;
}

/* Replace a file in one durable step: after a crash it has the old bytes or the new ones. */
static void replace_file(const char *path, const void *bytes, size_t size) {
  int file = open("new", O_WRONLY | O_CREAT | O_TRUNC, 0600), folder = open(".", O_RDONLY);
  if (file < 0 || folder < 0 || write(file, bytes, size) != (ssize_t)size || fsync(file) != 0) fail("No disk space.");

  close(file);
  if (rename("new", path) != 0 || fsync(folder) != 0) fail("The store cannot be replaced.");
  close(folder);
}

/* Let no other process work on the store until this one ends. */
static void lock_store(void) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int file = open("lock", O_RDWR | O_CREAT, 0600);

  if (file < 0 || fcntl(file, F_SETLKW, &lock) != 0) fail("The store cannot be locked.");
}

static void draw_key(uint8_t key[HUBBUB_KEY]) {
  int entropy = open("/dev/urandom", O_RDONLY);

  if (entropy < 0 || read(entropy, key, HUBBUB_KEY) != HUBBUB_KEY) fail("The system gives no entropy.");
  close(entropy);
}

static hubbub_text text_of(const char *text) {
  hubbub_text result = {text, strlen(text)};
  return result;
}

/* The store is the key, the size of the state in four bytes, the state, and the frame that waits. */
static void commit(const uint8_t *key, const hubbub_buffer *state, const hubbub_buffer *frame) {
  memcpy(store, key, HUBBUB_KEY);
  for (int i = 0; i < 4; i++) store[HUBBUB_KEY + i] = (uint8_t)(state->size >> (8 * i));
  memcpy(store + HEAD, state->at, state->size);
  memcpy(store + HEAD + state->size, frame->at, frame->size);
  replace_file("store", store, HEAD + state->size + frame->size);
}

/* Read the store, and return whether there is one. */
static int load(uint8_t *key, hubbub_buffer *state) {
  size_t size = read_file("store", store, sizeof store);
  const uint8_t *length = store + HUBBUB_KEY;
  if (size == 0) return 0;

  state->size = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
  if (size < HEAD || state->size > size - HEAD || state->size > state->room) fail("The store is cut.");
  memcpy(key, store, HUBBUB_KEY);
  memcpy(state->at, store + HEAD, state->size);
  return 1;
}

int main(int count, char **arguments) {
  static hubbub_query query;
  static char body[ROOM];
  uint8_t key[HUBBUB_KEY];
  hubbub_buffer state = {state_bytes, 0, sizeof state_bytes}, frame = {frame_bytes, 0, sizeof frame_bytes};
  hubbub_buffer work = {work_bytes, 0, sizeof work_bytes};
  hubbub_device device = {.key = key, .now = (int64_t)time(NULL), .max_epsilon = 8.0, .first = 1};
  if (count != 5) fail("usage: device FOLDER LISTING QUERY VALUE");
  hubbub_text listing = {body, read_file(arguments[2], body, sizeof body)}, none = {NULL, 0};
  if (chdir(arguments[1]) != 0) fail("The folder is missing.");

  lock_store();
  device.first = !load(key, &state);
  if (device.first) draw_key(key);
  int code = hubbub_open(&query, listing, text_of(arguments[3]), none);
  if (code == HUBBUB_OK) code = hubbub_bind(&state, &device);
  hubbub_value value = {.kind = HUBBUB_TEXT, .text = text_of(arguments[4])};
  if (code == HUBBUB_OK) code = hubbub_answer(&query, &device, &value, 1, &state, &frame, &work);

  /* State and frame are one file, so no crash comes between them. */
  if (code == HUBBUB_OK || code == HUBBUB_REPORT_ERROR) commit(key, &state, &frame);
  for (size_t i = 0; code == HUBBUB_OK && i < frame.size; i++) printf("%02x", frame.at[i]);
  printf("%s%s\n", code == HUBBUB_OK ? "\n" : "", hubbub_message(code));
  return code;
}
