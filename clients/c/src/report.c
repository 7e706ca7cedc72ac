/* The report of an answer. */
#include "query.h"

static int find_value(const hubbub_value *values, size_t count, hubbub_text name, size_t *place) {
  unsigned matches = 0;

  for (size_t i = 0; i < count; i++) {
    if (!hb_json_is(name, values[i].attribute)) continue;
    *place = i;
    matches++;
  }
  return matches == 1;
}

/* Set the positions of an answer and its pairs, or the chunks of a string. Return 0 if it is no answer. */
HB_INSIDE int hb_positions_of(const hb_query *query, const hubbub_value *values, size_t count, hubbub_normal normal,
                              uint64_t *positions) {
  if (count != query->singles) return 0;
  if (query->solution == HB_SINGLE) {
    if (values->attribute.size > 0) return 0;
    if (query->part[0].kind != HB_TEXTS) return hb_position_of(query->part, values, normal, positions);
    return values->kind == HUBBUB_TEXT && hb_chunks_of(&query->strings, values->text, normal, positions);
  }

  for (unsigned i = 0; i < query->singles; i++) {
    size_t place = 0;
    if (!find_value(values, count, query->part[i].name, &place)) return 0;
    if (!hb_position_of(query->part + i, values + place, normal, positions + i)) return 0;
  }
  for (unsigned i = query->singles; i < query->parts; i++) {
    const hb_part *pair = query->part + i, *second = query->part + pair->second;
    positions[i] = positions[pair->first] * (second->named + (second->has_other != 0)) + positions[pair->second];
  }
  return 1;
}

typedef struct {
  const hb_query *query;
  const hb_hmac *mac;
  hb_stream stream;
  hb_source source;
} drawing;

/* Begin a stream of the answer. */
static hb_source *begin_stream(drawing *draws, unsigned attribute, enum hb_purpose purpose, int64_t class) {
  draws->stream.attribute = attribute;
  draws->stream.purpose = purpose;
  draws->stream.class = class;
  hb_source_begin(&draws->source, draws->mac, draws->query->digest, &draws->stream);
  return &draws->source;
}

/* Write the report of a part. */
static void write_part(drawing *draws, unsigned number, const uint64_t *positions, uint8_t *report, uint8_t *work) {
  const hb_query *query = draws->query;
  int is_string = query->part[0].kind == HB_TEXTS;
  const hb_oracle *oracle = &query->part[is_string ? 0 : number].oracle;
  uint64_t position = is_string ? hb_cell_of(query, positions, number) : positions[number], rows[HB_ROW_COUNT] = {0};

  if (hb_is_hashing(oracle)) hb_rows_of(oracle, begin_stream(draws, number, HB_ROWS, 0), rows);
  uint64_t class = hb_class_of(oracle, position, rows);
  /* A table decides all classes together, so its stream must not depend on the class. */
  hb_source *source = begin_stream(draws, number, HB_ANSWER, oracle->has_table ? -1 : (int64_t)class);
  hb_report(oracle, class, rows, source, report, work);
  hb_wipe(rows, sizeof rows);
}

/* Write the report of an answer's positions. `number` is the round, or for fresh that of earlier answers. */
HB_INSIDE void hb_report_of(const hb_query *query, const hb_hmac *mac, int64_t number, const uint64_t *positions,
                            uint8_t *report, uint8_t *work) {
  drawing draws;
  memset(&draws, 0, sizeof draws);
  draws.query = query;
  draws.mac = mac;
  draws.stream.mode = query->answers == HB_FRESH;
  draws.stream.number = number;
  memset(report, 0, (size_t)query->width);

  if (query->part[0].kind == HB_TEXTS || query->solution == HB_SMP) {
    hb_source *source = begin_stream(&draws, 0, HB_ATTRIBUTE, 0);
    int is_string = query->part[0].kind == HB_TEXTS;
    unsigned part = is_string ? hb_string_part(&query->strings, source) : (unsigned)hb_below(source, query->parts);
    hb_store(report, part, 2);
    write_part(&draws, part, positions, report + 2, work);
  } else {
    for (unsigned i = 0; i < query->parts; i++) {
      write_part(&draws, i, positions, report, work);
      report += query->part[i].oracle.width;
    }
  }
  hb_wipe(&draws, sizeof draws);
}

/* Return the number of a group, from 1 on. 0: the query does not list it. */
HB_INSIDE uint32_t hb_group_of(const hb_query *query, hubbub_text group) {
  hb_members groups = hb_json_members(hb_listed(query->item, "groups"));
  hubbub_text key, list, value;
  uint32_t number = 0;
  if (!group.at || !hb_json_next(&groups, &key, &list)) return 0;

  hb_members names = hb_json_members(list);
  while (hb_json_next(&names, &key, &value)) {
    number++;
    if (hb_json_is(value, group)) return number <= 255 ? number : 0;
  }
  return 0;
}
