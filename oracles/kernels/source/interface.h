enum { INTERFACE = 1 };

size_t add_bits(const uint8_t *rows, size_t count, size_t width, int64_t *counts, size_t size, const int64_t *bins,
                size_t least, size_t most, int64_t *marks, uint64_t *scratch, size_t levels);
void row_ones(const uint8_t *rows, size_t count, size_t width, int64_t *ones);
void add_values(const uint8_t *values, size_t count, size_t width, int64_t *counts);
void add_hashes(const uint8_t *reports, size_t count, size_t width, size_t hashes, size_t bits, int64_t *signs,
                int64_t *marks);
