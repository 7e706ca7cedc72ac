/* The questions of a query, and the oracle of each. */
#include "query.h"

typedef struct {
  const hb_query *query;
  hubbub_text name; /* of the attribute or pair, in UTF-8; empty if there is one question */
  hb_integer e;
} context;

/* Return what a member says of a part: the member itself, or its member with the part's name. */
static hubbub_text own(const context *part, const char *member) {
  hubbub_text value = hb_listed(part->query->item, member);

  return part->query->solution == HB_SINGLE ? value : hb_json_member(value, part->name);
}

/* Whether a string is the decimal form of an integer. */
static int lists(hubbub_text thresholds, const char *name, uint64_t value) {
  char text[20];
  size_t from = sizeof text;
  do {
    text[--from] = (char)('0' + value % 10);
    value /= 10;
  } while (value > 0);

  hubbub_text digits = {text + from, sizeof text - from};
  return hb_json_is(hb_listed(thresholds, name), digits);
}

/* Read an integer of 64 bits that is a string. */
static int read_integer(hubbub_text string, uint64_t *value) {
  hubbub_text digits = hb_json_inside(string);
  *value = 0;
  if (digits.size == 0 || digits.size > 20 || digits.at[0] == '0') return 0;

  for (size_t i = 0; i < digits.size; i++) {
    unsigned digit = (unsigned)(uint8_t)digits.at[i] - '0';
    if (digit > 9 || *value > (UINT64_MAX - digit) / 10) return 0;
    *value = 10 * *value + digit;
  }
  return 1;
}

/* Whether the listed table is that of so many buckets. */
static int accept_table(const context *part, hb_oracle *oracle, hubbub_text points) {
  hubbub_text thresholds = own(part, "thresholds");
  hb_table table = {hb_oracle_buckets(oracle), 0, 0, 0};
  uint64_t count;
  if (oracle->kind == HB_SUB || table.buckets < 2 || table.buckets > HB_BUCKETS || !hb_whole(points, HB_BUCKETS, &count)) return 0;

  table.points = (unsigned)count;
  if (!read_integer(hb_listed(thresholds, "hi"), &table.hi)) return 0;
  if (!read_integer(hb_listed(thresholds, "lo"), &table.lo) || !hb_table_fits(&table, &part->e)) return 0;
  hb_oracle_table(oracle, &table);
  return 1;
}

/* Whether the listed integers are those of this choice of the oracle. */
static int accept(const context *part, hb_oracle *oracle) {
  hubbub_text thresholds = own(part, "thresholds"), points = own(part, "table"), buckets = own(part, "buckets");
  uint64_t count;
  if (buckets.size > 0 && (!hb_whole(buckets, 2048, &count) || count != (uint64_t)1 << oracle->rows)) return 0;

  if (points.size > 0) return accept_table(part, oracle, points);
  if (oracle->kind != HB_SUE && oracle->kind != HB_OUE) return lists(thresholds, "T", oracle->threshold);
  return lists(thresholds, "T_p", oracle->threshold) && lists(thresholds, "T_q", oracle->other);
}

/* Read the settings of sub: how many buckets a report names, and the family of its maps. */
static int read_maps(const context *part, hb_oracle *oracle) {
  static const char families[][6] = {"full", "short", "line"};
  hubbub_text rows = own(part, "rows");
  unsigned family = 0;
  while (family < HB_ROWS_FREE && !hb_json_is(rows, hb_text(families[family]))) family++;

  oracle->family = (enum hb_family)family;
  return family < HB_ROWS_FREE && hb_whole(own(part, "subset"), 64, &oracle->members) && oracle->members > 0;
}

static int read_oracle(const context *part, hb_oracle *oracle, uint64_t size) {
  static const char names[HB_KINDS][6] = {"grr",  "sue",   "oue", "ss",   "blh", "olh",
                                          "full", "short", "hr",  "haar", "sub"};
  hubbub_text name = own(part, "oracle");
  unsigned kind = 0;
  while (kind < HB_KINDS && !hb_json_is(name, hb_text(names[kind]))) kind++;
  if (kind == HB_KINDS || !hb_oracle_begin(oracle, (enum hb_kind)kind, size)) return 0;
  if (kind == HB_SUB && !read_maps(part, oracle)) return 0;

  /* The number of rows or of ones is the one to which the listed integers belong. */
  for (unsigned choice = 0; choice < HB_ROW_COUNT; choice++) {
    if (hb_oracle_choice(oracle, choice, part->query->own_epsilon, &part->e) && accept(part, oracle)) return 1;
  }
  return 0;
}

static uint64_t size_of(const hb_part *part) { return part->named + (part->has_other != 0); }

/* Add the attributes, in the order of the points of their names. */
static int add_attributes(hb_query *query, hubbub_text attributes) {
  hb_members members = hb_json_members(attributes);
  hubbub_text name, about;

  while (hb_json_next(&members, &name, &about)) {
    unsigned place = query->parts;
    if (place == HUBBUB_PARTS || hb_json_kind(name) != '"') return 0;
    for (; place > 0 && hb_json_order(query->part[place - 1].name, name) > 0; place--) {
      query->part[place] = query->part[place - 1];
    }
    hb_part *part = query->part + place;
    memset(part, 0, sizeof *part);
    part->name = name;
    query->parts++;
    if (!hb_read_domain(part, hb_listed(about, "domain"), hb_listed(about, "other"))) return 0;
    if (part->kind == HB_TEXTS) return 0;
  }
  query->singles = query->parts;
  return query->parts > 0;
}

static int find_attribute(const hb_query *query, hubbub_text name, unsigned *place) {
  for (unsigned i = 0; i < query->singles; i++) {
    *place = i;
    if (hb_json_kind(name) == '"' && hb_json_order(query->part[i].name, name) == 0) return 1;
  }
  return 0;
}

/* Add the pairs. A pair has a value for each two values of its attributes. */
static int add_pairs(hb_query *query, hubbub_text pairs) {
  hb_members members = hb_json_members(pairs);
  hubbub_text key, pair, first, second;

  while (hb_json_next(&members, &key, &pair)) {
    hb_members names = hb_json_members(pair);
    if (query->parts == HUBBUB_PARTS || hb_json_count(pair) != 2) return 0;
    hb_json_next(&names, &key, &first);
    hb_json_next(&names, &key, &second);

    hb_part *part = query->part + query->parts++;
    memset(part, 0, sizeof *part);
    part->is_pair = 1;
    if (!find_attribute(query, first, &part->first) || !find_attribute(query, second, &part->second)) return 0;
    part->kind = HB_SIZE;
    uint64_t left = size_of(query->part + part->first), right = size_of(query->part + part->second);
    if (left > UINT32_MAX || right > UINT32_MAX) return 0;
    part->named = left * right;
  }
  return 1;
}

/* Copy the name of a part: of a pair the names of both attributes with a star between them. */
static int name_part(const hb_query *query, const hb_part *part, char name[HUBBUB_NAME], hubbub_text *text) {
  hubbub_text first = part->is_pair ? query->part[part->first].name : part->name;
  text->at = name;
  text->size = hb_json_copy(first, name, HUBBUB_NAME);
  if (!part->is_pair || text->size >= HUBBUB_NAME) return text->size <= HUBBUB_NAME;

  name[text->size++] = '*';
  text->size += hb_json_copy(query->part[part->second].name, name + text->size, HUBBUB_NAME - text->size);
  return text->size <= HUBBUB_NAME;
}

/* Return the epsilon of each attribute. spl divides it, rounded down. */
static uint64_t epsilon_of(const hb_query *query) {
  hb_integer amount;
  if (query->solution != HB_SPL) return query->epsilon;

  hb_exact(&amount, query->epsilon);
  hb_divide_small(&amount, query->singles);
  return hb_round(&amount, -HB_UNIT, HB_DOWN);
}

/* Read all questions of a query. */
HB_INSIDE int hb_read_parts(hb_query *query) {
  hubbub_text attributes = hb_listed(query->item, "attributes"), domain = hb_listed(query->item, "domain");
  if (query->solution != HB_SINGLE) {
    if (domain.size > 0 || !add_attributes(query, attributes)) return 0;
    if (!add_pairs(query, hb_listed(query->item, "pairs"))) return 0;
  } else {
    query->singles = query->parts = 1;
    if (!hb_read_domain(query->part, domain, hb_listed(query->item, "other"))) return 0;
    if (query->part[0].kind == HB_TEXTS && !hb_read_strings(&query->strings, domain)) return 0;
  }
  query->own_epsilon = epsilon_of(query);

  context part = {query, {0, 0}, {{0}}};
  hb_exponential_of(&part.e, query->own_epsilon, 0);
  for (unsigned i = 0; i < query->parts; i++) {
    char name[HUBBUB_NAME];
    if (!name_part(query, query->part + i, name, &part.name)) return 0;
    if (!read_oracle(&part, &query->part[i].oracle, size_of(query->part + i))) return 0;
  }
  return 1;
}
