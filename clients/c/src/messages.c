/* Sentences about codes. */
#include "core.h"

const char *hubbub_message(int code) {
  switch (code) {
    case HUBBUB_OK: return "The call succeeded.";
    case HUBBUB_NOT_YET: return "This period has its answer.";
    case HUBBUB_BUDGET_SPENT: return "The next charge does not fit budget or max_epsilon.";
    case HUBBUB_NOT_ALLOWED: return "The definition is malformed, unknown or not as pinned.";
    case HUBBUB_REPORT_ERROR: return "The value is no answer. The charge stays.";
    case HUBBUB_STORE_ERROR: return "The state is missing, damaged, newer, or of another key or machine.";
    case HUBBUB_NO_SPACE: return "A buffer is too small.";
    case HUBBUB_MISUSE: return "A pointer is null, a limit is impossible, or the query is not open.";
    case HUBBUB_NEW_KEY: return "The state is of another machine. Draw a new key.";
    default: return "This code is unknown.";
  }
}
