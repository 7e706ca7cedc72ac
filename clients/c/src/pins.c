/* What an application agreed to: bounds of the members of a definition that matter to a person. */
#include "query.h"

enum bound { AT_MOST, AT_LEAST, EQUAL, BOUNDS };

/* The members of each bound, with the first bytes that a value may have. 0 stands for null. */
typedef struct {
  char member[14], forms[4];
  unsigned char bound, may_be_null;
} pin;

static const pin pins[] = {
    {"epsilon", "0", AT_MOST, 0},   {"record_charge", "0", AT_MOST, 0}, {"budget", "0", AT_MOST, 0},
    {"renew", "0", AT_LEAST, 1},    {"period", "0", AT_LEAST, 0},       {"pane", "0", AT_LEAST, 0},
    {"answers", "\"", EQUAL, 0},    {"noise", "\"", EQUAL, 0},          {"digest", "\"", EQUAL, 0},
    {"oracle", "\"{", EQUAL, 0},    {"solution", "\"", EQUAL, 1},       {"table", "0{", EQUAL, 1},
    {"buckets", "0{", EQUAL, 1},    {"domain", "0[{", EQUAL, 1},        {"other", "tf", EQUAL, 1},
    {"attributes", "{", EQUAL, 1},  {"groups", "{", EQUAL, 1},          {"pairs", "[", EQUAL, 1},
};

static const pin *find_pin(hubbub_text key) {
  for (unsigned i = 0; i < sizeof pins / sizeof pins[0]; i++) {
    if (hb_json_is(key, hb_text(pins[i].member))) return pins + i;
  }
  return 0;
}

static int is_well_formed(const pin *member, hubbub_text value) {
  char kind = hb_json_kind(value);
  hb_decimal decimal;
  uint64_t seconds;
  if (kind == 0) return member->may_be_null;

  int has_form = 0;
  for (const char *form = member->forms; *form; form++) has_form |= *form == kind;
  if (member->bound == AT_LEAST) return hb_whole(value, HB_LONGEST, &seconds) && seconds > 0;
  if (member->bound == EQUAL) return has_form;
  return hb_decimal_of(value, &decimal) && !decimal.is_negative && decimal.digits > 0;
}

/* Whether each pinned member is known and has a form that binds something. */
HB_INSIDE int hb_pins_are_valid(hubbub_text pinned) {
  hubbub_text key, value;
  if (!pinned.at) return 1;
  pinned = hb_json_trim(pinned);
  if (!hb_json_is_valid(pinned, HB_MEMBERS) || hb_json_kind(pinned) != '{') return 0;

  hb_members members = hb_json_members(pinned);
  while (hb_json_next(&members, &key, &value)) {
    const pin *member = find_pin(key);
    if (!member || !is_well_formed(member, value)) return 0;
  }
  return 1;
}

/* Whether two values that nest no further are equal. A missing value is null. */
static int is_same_scalar(hubbub_text left, hubbub_text right) {
  char kind = hb_json_kind(left);
  hb_decimal left_number, right_number;
  if (kind != hb_json_kind(right)) return 0;
  if (kind == '"') return hb_json_order(left, right) == 0;
  if (kind != '0') return 1;

  if (!hb_decimal_of(left, &left_number) || !hb_decimal_of(right, &right_number)) return 0;
  return left_number.digits == right_number.digits && left_number.exponent == right_number.exponent &&
         (left_number.is_negative == right_number.is_negative || left_number.digits == 0);
}

/* Return the member of an object with the key of another one. */
static hubbub_text member_of(hubbub_text object, hubbub_text key) {
  hb_members members = hb_json_members(object);
  hubbub_text name, value, none = {0, 0};

  while (hb_json_next(&members, &name, &value)) {
    if (hb_json_order(name, key) == 0) return value;
  }
  return none;
}

static int is_same(hubbub_text left, hubbub_text right);

static int has_same_members(hubbub_text left, hubbub_text right) {
  hb_members members = hb_json_members(left);
  hubbub_text key, value;

  while (hb_json_next(&members, &key, &value)) {
    if (!is_same(value, member_of(right, key))) return 0;
  }
  return 1;
}

static int is_same_list(hubbub_text left, hubbub_text right) {
  hb_members left_members = hb_json_members(left), right_members = hb_json_members(right);
  hubbub_text key, value, other;

  while (hb_json_next(&left_members, &key, &value)) {
    if (!hb_json_next(&right_members, &key, &other) || !is_same(value, other)) return 0;
  }
  return !hb_json_next(&right_members, &key, &other);
}

/* Whether two values are equal as JSON. It calls itself at most 8 times, as objects nest. */
static int is_same(hubbub_text left, hubbub_text right) {
  char kind = hb_json_kind(left);
  if (kind != hb_json_kind(right)) return 0;
  if (kind == '{') return has_same_members(left, right) && has_same_members(right, left);

  return kind == '[' ? is_same_list(left, right) : is_same_scalar(left, right);
}

static int is_at_most(const hb_query *query, hubbub_text key, hubbub_text listed, hubbub_text limit) {
  hb_decimal listed_number, limit_number;
  if (!hb_decimal_of(listed, &listed_number) || !hb_decimal_of(limit, &limit_number)) return 0;
  uint64_t most = hb_decimal_bits(&limit_number), bits = hb_decimal_bits(&listed_number);
  if (listed_number.is_negative || listed_number.digits == 0 || bits > most) return 0;
  if (!hb_json_is(key, hb_text("record_charge"))) return 1;

  /* The listed charge is only a claim. */
  hb_integer amount;
  hb_charge_amount(&query->charge, &amount);
  return hb_round(&amount, -HB_UNIT, HB_NEAREST) <= most;
}

static int is_at_least(hubbub_text listed, hubbub_text limit) {
  uint64_t seconds = 0, least = 0;
  /* Null is a round that never ends, and only null is as long. */
  if (listed.size == 0 || hb_json_kind(limit) == 0) return listed.size == 0;

  return hb_whole(listed, HB_LONGEST, &seconds) && hb_whole(limit, HB_LONGEST, &least) && seconds >= least;
}

/* Whether the definition of a query is within the pins. */
HB_INSIDE int hb_pins_allow(const hb_query *query, hubbub_text pinned) {
  hubbub_text key, limit;
  if (!pinned.at) return 1;

  hb_members members = hb_json_members(hb_json_trim(pinned));
  while (hb_json_next(&members, &key, &limit)) {
    const pin *member = find_pin(key);
    hubbub_text listed = hb_listed(query->item, member->member);
    if (member->bound == AT_MOST && !is_at_most(query, key, listed, limit)) return 0;
    if (member->bound == AT_LEAST && !is_at_least(listed, limit)) return 0;
    if (member->bound == EQUAL && !is_same(listed, limit)) return 0;
  }
  return 1;
}
