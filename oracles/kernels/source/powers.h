/* Rows of a map that one or two words give, by powers of x in a field. */

/* Multiplies by x in the field of 2^bits elements. */
INLINE uint64_t times_x(uint64_t word, size_t bits, uint64_t polynomial)
{
    return word << 1 ^ (word >> (bits - 1)) * polynomial;
}

/* Stores row j at rows[j]: bit i is bit j of a x^i + b x^(2i), in the field of 2^bits elements. */
INLINE void rows_of_powers(uint64_t a, uint64_t b, size_t hashes, size_t bits, uint64_t polynomial, uint64_t *rows)
{
    for (size_t j = 0; j < hashes; j++)
        rows[j] = 0;
    for (size_t i = 0; i < bits; i++) {
        uint64_t column = a ^ b;
        for (size_t j = 0; j < hashes; j++)
            rows[j] |= (column >> j & 1) << i;
        a = times_x(a, bits, polynomial);
        b = times_x(times_x(b, bits, polynomial), bits, polynomial);
    }
}
