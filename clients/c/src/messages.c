/* Sentences about codes. */
#include "core.h"

const char *hubbub_message(int code) {
  switch (code) {
    case HUBBUB_OK: return "The call succeeded.";
    case HUBBUB_NOT_YET: return "This period has its answer. Answer again when it is due.";
    case HUBBUB_BUDGET_SPENT: return "The next charge does not fit the budget of the query or max_epsilon.";
    case HUBBUB_NOT_ALLOWED: return "The definition is malformed, unknown, altered, or not as the application pinned it.";
    case HUBBUB_REPORT_ERROR: return "The value is no answer to this query. The charge stays.";
    case HUBBUB_STORE_ERROR: return "The state is missing, damaged, of a newer version, or of another key or machine.";
    case HUBBUB_NO_SPACE: return "A buffer is too small.";
    case HUBBUB_MISUSE: return "A pointer is null, a limit is impossible, or the query is not open.";
    case HUBBUB_NEW_KEY: return "The state has no history and is of another machine. Draw a new key, and begin an empty state.";
    default: return "This code is unknown.";
  }
}
