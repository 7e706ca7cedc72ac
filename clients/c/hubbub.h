/* The core of hubbub's clients: what one device answers. It computes, and never waits. It has no allocation, no thread,
   no clock, no randomness of its own and no global that changes. The host keeps the key, the store, the time, the
   network and Unicode's normal form C. README.md beside this file says how. */
#ifndef HUBBUB_H
#define HUBBUB_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define HUBBUB_API 1 /* of this header: a change that breaks a host raises it */
#define HUBBUB_STATE_VERSION 1
#define HUBBUB_KEY 32   /* bytes of a device key */
#define HUBBUB_PARTS 64 /* most attributes and pairs of a query */
#define HUBBUB_NAME 255 /* most bytes of the name of a query, an attribute or a pair */
#define HUBBUB_QUERY_BYTES 32768

enum hubbub_code {
  HUBBUB_OK = 0,
  HUBBUB_NOT_YET = 1,      /* this period has its answer */
  HUBBUB_BUDGET_SPENT = 2, /* the next charge does not fit */
  HUBBUB_NOT_ALLOWED = 3,  /* the definition is malformed, unknown, altered, or not as pinned */
  HUBBUB_REPORT_ERROR = 4, /* the value is no answer; the charge stays */
  HUBBUB_STORE_ERROR = 5,  /* the state is missing, damaged, of a newer version, or of another key */
  HUBBUB_NO_SPACE = 6,     /* a buffer is too small */
  HUBBUB_MISUSE = 7,       /* a null pointer, or a limit that cannot be */
  HUBBUB_NEW_KEY = 8       /* a state without history is of another machine: draw a new key, begin an empty state */
};

enum hubbub_kind { HUBBUB_TEXT, HUBBUB_INTEGER, HUBBUB_NUMBER };

typedef struct {
  const char *at; /* UTF-8, not ended by a zero; null: not given */
  size_t size;
} hubbub_text;

typedef struct {
  uint8_t *at;
  size_t size, room; /* bytes in it, and bytes that it can hold */
} hubbub_buffer;

typedef struct {
  hubbub_text attribute; /* empty if the query has one question */
  enum hubbub_kind kind;
  hubbub_text text; /* a name, "(other)", the digits of a position, or an unknown string */
  int64_t integer;  /* a position, or a number in bins */
  double number;    /* a number in bins */
} hubbub_value;

/* Writes the normal form C of a text to `to`, at most `room` bytes, and returns its length (more than room: too small). */
typedef size_t (*hubbub_normal)(const char *text, size_t size, char *to, size_t room);

typedef struct {
  const uint8_t *key;   /* of the streams, HUBBUB_KEY bytes: see hubbub_derive */
  int64_t now;          /* Unix seconds, not negative */
  double max_epsilon;   /* over all queries of the state */
  int64_t per;          /* seconds after which a charge expires, by the application's rule; 0: never */
  hubbub_text machine;  /* bytes that name this machine, or empty */
  int moved;            /* not 0: accept a state of another machine, this once */
  hubbub_text group;    /* the person's value of the query's groups, or empty */
  hubbub_normal normal; /* null: texts are in normal form C already */
  double sample;        /* must be 0 */
  hubbub_text kept;     /* the item of the key store (hubbub_keep), or empty */
  int first;            /* not 0: a missing state is a first start */
} hubbub_device;

typedef struct {
  uint64_t opaque[HUBBUB_QUERY_BYTES / 8];
} hubbub_query;

typedef struct {
  double spent, remaining; /* epsilon, of the present round */
  double counted, life;    /* epsilon that counts against max_epsilon, and of all charges ever */
  double due;              /* a time in the next open period */
  int64_t round;
  int lengthened; /* not 0: the round is longer than renew says */
  uint8_t digest[8];
  uint32_t group; /* its number; 0: none */
} hubbub_account;

uint32_t hubbub_api(void);

/* A sentence about a code, without any part of a value or key. */
const char *hubbub_message(int code);

/* The key of the streams, of a device's secret and the bytes that name an installation. Without an installation it is
   the secret itself. */
void hubbub_derive(const uint8_t secret[HUBBUB_KEY], const uint8_t *installation, size_t size, uint8_t key[HUBBUB_KEY]);

/* Read a query: `body` is the body of GET /v1/queries or one item of it. Body and name must outlive the query. `pinned`
   is any part of the JSON that `hubbub pin` prints, or a null text. */
int hubbub_open(hubbub_query *query, hubbub_text body, hubbub_text name, hubbub_text pinned);

/* The item of the query in `body`: what a host stores for the time without a connection. */
hubbub_text hubbub_item(const hubbub_query *query);

size_t hubbub_frame_room(const hubbub_query *query); /* bytes of a frame */
size_t hubbub_work_room(const hubbub_query *query);  /* bytes of work memory: 0 but for ss */

/* Begin a state (size 0) or check one that was read, once after each start. */
int hubbub_bind(hubbub_buffer *state, const hubbub_device *device);

/* The item for the key store, which notices a lost or old state later. */
int hubbub_keep(const hubbub_device *device, const hubbub_buffer *state, hubbub_buffer *item);

/* Charge and answer. OK: state and frame are new. REPORT_ERROR: the state is new, there is no frame. Else nothing
   changed. Commit the state, and the frame with it, before you send. */
int hubbub_answer(const hubbub_query *query, const hubbub_device *device, const hubbub_value *values, size_t count,
                  hubbub_buffer *state, hubbub_buffer *frame, hubbub_buffer *work);

int hubbub_account_of(const hubbub_query *query, const hubbub_device *device, const hubbub_buffer *state,
                      hubbub_account *account);

#ifdef __cplusplus
}
#endif
#endif
