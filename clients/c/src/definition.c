/* The definition of a query, as a gateway lists it, checked before a client uses it. */
#include "query.h"

/* A query must fit into the memory that a host gives. The array has a negative size if it does not. */
typedef char fits[sizeof(hb_query) <= HUBBUB_QUERY_BYTES ? 1 : -1];

/* Return a member of the item. */
HB_INSIDE hubbub_text hb_listed(hubbub_text item, const char *member) { return hb_json_member(item, hb_text(member)); }

/* Return the query in the memory of a host, or null if it must not be used. */
HB_INSIDE const hb_query *hb_query_of(const hubbub_query *query) {
  const hb_query *own = (const hb_query *)(const void *)query;

  return query && own->seal == HB_SEAL ? own : 0;
}

HB_INSIDE void hb_charge_amount(const hb_charge *charge, hb_integer *amount) {
  hb_exact(amount, charge->epsilon);
  hb_scale(amount, charge->times);
}

/* Return the item of a name. Of one name the newest definition is the last. */
static hubbub_text find_item(hubbub_text body, hubbub_text name) {
  hubbub_text queries = hb_listed(body, "queries"), item = {0, 0}, key, value;
  hb_members members = hb_json_members(queries);
  if (hb_json_kind(queries) != '[') return hb_json_is(hb_listed(body, "name"), name) ? body : item;

  while (hb_json_next(&members, &key, &value)) {
    if (hb_json_is(hb_listed(value, "name"), name)) item = value;
  }
  return item;
}

/* Read a number above 0 within the limits of all charges. */
static int read_amount(hubbub_text item, const char *member, uint64_t most, uint64_t *bits) {
  hb_decimal decimal;
  if (!hb_decimal_of(hb_listed(item, member), &decimal) || decimal.is_negative || decimal.digits == 0) return 0;

  *bits = hb_decimal_bits(&decimal);
  return *bits >= hb_ratio_of_ten(1, -40) && *bits <= most;
}

static int read_seconds(hubbub_text item, const char *member, int64_t *seconds) {
  uint64_t value;
  if (!hb_whole(hb_listed(item, member), HB_LONGEST, &value) || value == 0) return 0;

  *seconds = (int64_t)value;
  return 1;
}

static int read_numbers(hb_query *query) {
  hubbub_text item = query->item;
  int has_rounds = hb_listed(item, "renew").size > 0;

  query->renew = 0;
  return read_amount(item, "epsilon", hb_ratio_of_ten(16, 0), &query->epsilon) &&
         read_amount(item, "budget", hb_ratio_of_ten(1, 50), &query->budget) &&
         (!has_rounds || read_seconds(item, "renew", &query->renew)) && read_seconds(item, "period", &query->period) &&
         read_seconds(item, "pane", &query->pane);
}

/* Return the place of a string in a list of names, or -1. */
static int place_of(hubbub_text string, const char names[][6], int count) {
  for (int i = 0; i < count; i++) {
    if (hb_json_is(string, hb_text(names[i]))) return i;
  }
  return -1;
}

static int read_kinds(hb_query *query) {
  static const char answers[][6] = {"life", "once", "fresh"}, solutions[][6] = {"smp", "spl"};
  int answer = place_of(hb_listed(query->item, "answers"), answers, 3);
  int solution = place_of(hb_listed(query->item, "solution"), solutions, 2);
  int has_attributes = hb_listed(query->item, "attributes").size > 0;
  if (answer < 0 || (has_attributes && solution < 0)) return 0;

  query->answers = (enum hb_answers)answer;
  query->solution = has_attributes ? (enum hb_solution)(HB_SMP + solution) : HB_SINGLE;
  return 1;
}

/* Add a member of the canonical form. */
static int add_member(hb_sha256 *hash, hubbub_text item, const char *member, int is_first) {
  hubbub_text value = hb_listed(item, member);
  if (value.size == 0) return 1;

  hb_canonical_plain(hash, is_first ? "{\"" : ",\"");
  hb_canonical_plain(hash, member);
  hb_canonical_plain(hash, "\":");
  int is_epsilon = hb_same(hb_text(member), hb_text("epsilon"));
  return is_epsilon ? hb_canonical_float(hash, value) : hb_canonical(hash, value);
}

/* Whether the digest is that of all members that give a report its meaning. */
static int read_digest(hb_query *query) {
  static const char *const members[] = {"attributes", "buckets", "domain", "epsilon", "name",    "oracle",
                                        "other",      "pairs",   "pane",   "rows",    "solution", "subset", "table"};
  static const char hex[] = "0123456789abcdef";
  hubbub_text item = query->item, domain = hb_listed(item, "domain");
  hb_sha256 hash;
  uint8_t digest[32];
  char text[16];
  hb_sha256_begin(&hash);

  int has_other = domain.size > 0 && hb_json_kind(domain) != '{', is_first = 1;
  for (unsigned i = 0; i < sizeof members / sizeof members[0]; i++) {
    if (i == 6 && !has_other) continue;
    if (!add_member(&hash, item, members[i], is_first)) return 0;
    if (hb_listed(item, members[i]).size > 0) is_first = 0;
    if (i == 3) hb_canonical_plain(&hash, ",\"format\":1");
  }
  hb_canonical_plain(&hash, "}");
  hb_sha256_end(&hash, digest);
  memcpy(query->digest, digest, 8);

  for (unsigned i = 0; i < 16; i++) text[i] = hex[digest[i / 2] >> (i % 2 ? 0 : 4) & 15];
  hubbub_text own = {text, sizeof text};
  return hb_json_is(hb_listed(item, "digest"), own);
}

/* Set the charge of a sum: of equal epsilons it is exact, and with a table it is rounded up. */
static int sum_charges(hb_query *query, const hb_integer *total) {
  uint64_t classes = 0;
  int has_table = 0;
  for (unsigned i = 0; i < query->parts; i++) {
    classes += query->part[i].oracle.classes;
    has_table |= query->part[i].oracle.has_table;
  }

  query->charge.epsilon = has_table ? hb_round(total, -HB_UNIT, HB_UP) : query->own_epsilon;
  query->charge.times = has_table ? 1 : (uint32_t)classes;
  return classes <= UINT32_MAX;
}

static hb_charge charge_of(const hb_query *query, const hb_oracle *oracle) {
  hb_charge charge = {query->own_epsilon, (uint32_t)oracle->classes};

  if (oracle->has_table) {
    charge.epsilon = hb_table_bound(&oracle->table, query->own_epsilon);
    charge.times = 1;
  }
  return charge;
}

/* Compute the charge of a first answer: the largest of the parts, or for spl their sum. */
static int read_charge(hb_query *query) {
  hb_integer amount, best, total;
  query->charge.epsilon = query->epsilon;
  query->charge.times = 1;
  if (query->answers != HB_LIFE) return 1;

  hb_set(&best, 0);
  hb_set(&total, 0);
  for (unsigned i = 0; i < query->parts; i++) {
    if (query->part[i].oracle.classes > UINT32_MAX) return 0;
    hb_charge charge = charge_of(query, &query->part[i].oracle);
    hb_charge_amount(&charge, &amount);
    hb_add(&total, &amount);
    if (hb_compare(&amount, &best) <= 0) continue;
    best = amount;
    query->charge = charge;
  }
  return query->solution != HB_SPL || sum_charges(query, &total);
}

/* Compute the width of a report, and compare the listed one. */
static int read_width(hb_query *query) {
  uint64_t widest = 0, total = 0, listed;
  for (unsigned i = 0; i < query->parts; i++) {
    uint64_t width = query->part[i].oracle.width;
    total += width;
    if (width > widest) widest = width;
  }

  int has_number = query->solution == HB_SMP || query->part[0].kind == HB_TEXTS;
  query->width = has_number ? 2 + widest : total;
  return hb_whole(hb_listed(query->item, "width"), UINT16_MAX, &listed) && listed == query->width;
}

int hubbub_open(hubbub_query *opaque, hubbub_text body, hubbub_text name, hubbub_text pinned) {
  hb_query *query = (hb_query *)(void *)opaque;
  if (!query) return HUBBUB_MISUSE;
  memset(query, 0, sizeof *query);
  if (!body.at || !name.at || name.size == 0 || name.size > HUBBUB_NAME || !hb_pins_are_valid(pinned)) {
    return HUBBUB_MISUSE;
  }

  body = hb_json_trim(body);
  if (!hb_json_is_valid(body, HB_MEMBERS)) return HUBBUB_NOT_ALLOWED;
  query->item = find_item(body, name);
  query->name = name;
  if (query->item.size == 0 || !read_numbers(query) || !read_kinds(query)) return HUBBUB_NOT_ALLOWED;
  if (!read_digest(query) || !hb_read_parts(query) || !read_charge(query) || !read_width(query)) {
    return HUBBUB_NOT_ALLOWED;
  }
  if (!hb_pins_allow(query, pinned)) return HUBBUB_NOT_ALLOWED;

  query->seal = HB_SEAL;
  return HUBBUB_OK;
}

hubbub_text hubbub_item(const hubbub_query *opaque) {
  const hb_query *query = hb_query_of(opaque);
  hubbub_text none = {0, 0};

  return query ? query->item : none;
}

size_t hubbub_frame_room(const hubbub_query *opaque) {
  const hb_query *query = hb_query_of(opaque);

  return query ? 40 + (size_t)query->width : 0;
}

size_t hubbub_work_room(const hubbub_query *opaque) {
  const hb_query *query = hb_query_of(opaque);
  size_t room = 0;

  for (unsigned i = 0; query && i < query->parts; i++) {
    const hb_oracle *oracle = &query->part[i].oracle;
    if (oracle->kind == HB_SS && 4 * oracle->size > room) room = (size_t)(4 * oracle->size);
  }
  return room;
}
