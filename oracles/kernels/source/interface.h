enum { INTERFACE = 7 };

size_t vector_bits(void);
size_t bits_scratch(size_t count, size_t width);
size_t add_bits(const uint8_t *rows, size_t count, size_t width, int64_t *counts, size_t size, const int64_t *bins,
                size_t least, size_t most, int64_t *marks, uint8_t *scratch, size_t bits);
void row_ones(const uint8_t *rows, size_t count, size_t width, int64_t *ones);
void add_values(const uint8_t *values, size_t count, size_t width, int64_t *counts);
void add_hashes(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits, int64_t *signs,
                int64_t *marks);
void add_short(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits, uint64_t polynomial,
               int64_t *signs, int64_t *marks);
void add_subsets(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits, uint64_t polynomial,
                 const int64_t *table, size_t members, size_t head, int64_t *signs, int64_t *marks);
void add_codes(const uint8_t *reports, size_t count, size_t width, size_t hashes, const int64_t *table, size_t members,
               size_t head, const int64_t *powers, const int64_t *logs, int64_t *counts, int64_t *marks);
void find_dependent(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits, uint8_t *flags);

int can_walk(void);
uint32_t crc32c(const uint8_t *data, size_t size);
size_t walk(const uint8_t *data, size_t size, size_t at, int checked, int64_t from, size_t room, int64_t *offsets,
            int64_t *times, int64_t *places, int64_t *sizes, size_t *found, int64_t *next,
            size_t *part);
size_t tell_kinds(const uint8_t *data, size_t count, const int64_t *places, const int64_t *sizes, int16_t *kinds,
                  uint64_t *ids, int64_t *firsts, size_t most, int16_t *slots, size_t bits);
void gather(const uint8_t *data, size_t count, const int64_t *places, const int64_t *sizes, uint8_t *into);

int knows_id(const uint64_t *table, size_t bits, const uint64_t *key, uint64_t id);
int learn_ids(uint64_t *table, size_t bits, const uint64_t *key, const uint64_t *ids, size_t count);

void shuffle_pieces(const uint8_t *const *pieces, const size_t *counts, size_t number, size_t width,
                    const uint32_t *key, uint8_t *into);
