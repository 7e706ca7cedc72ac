/* UTF-8: each text from outside is read point by point, and a malformed one is noticed. */
#include "text.h"

/* Take the next point of a text. */
HB_INSIDE int32_t hb_point(hubbub_text *rest) {
  static const int32_t least[4] = {0, 0x80, 0x800, 0x10000};
  if (rest->size == 0) return HB_END;

  uint8_t lead = (uint8_t)rest->at[0];
  unsigned more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
  if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || rest->size <= more) return HB_MALFORMED;

  int32_t point = more == 0 ? lead : lead & (0x3f >> more);
  for (unsigned i = 1; i <= more; i++) {
    uint8_t byte = (uint8_t)rest->at[i];
    if (byte >> 6 != 2) return HB_MALFORMED;
    point = point << 6 | (byte & 0x3f);
  }
  if (point < least[more] || point > 0x10ffff || point >> 11 == 0xd800 >> 11) return HB_MALFORMED;
  rest->at += 1 + more;
  rest->size -= 1 + more;
  return point;
}

/* Write a point, and return its bytes, at most four. */
HB_INSIDE unsigned hb_put_point(char *to, int32_t point) {
  unsigned more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  static const uint8_t leads[4] = {0, 0xc0, 0xe0, 0xf0};

  to[0] = (char)(leads[more] | point >> (6 * more));
  for (unsigned i = 1; i <= more; i++) to[i] = (char)(0x80 | (point >> (6 * (more - i)) & 0x3f));
  return 1 + more;
}

HB_INSIDE int hb_is_utf8(hubbub_text text) {
  int32_t point = 0;

  while (point >= 0) point = hb_point(&text);
  return point == HB_END;
}

HB_INSIDE int hb_same(hubbub_text left, hubbub_text right) {
  return left.size == right.size && (left.size == 0 || memcmp(left.at, right.at, left.size) == 0);
}

/* Return the text of a literal. */
HB_INSIDE hubbub_text hb_text(const char *literal) {
  hubbub_text text = {literal, 0};

  /* The bound keeps compilers from calling strlen, which a small machine may lack. */
  while (text.size < HUBBUB_NAME && literal[text.size]) text.size++;
  return text;
}
