/* Tests the hash of names (hash.c) with values from other implementations. */
#include "../../src/core/hash.h"
#include "harness.h"

/* Each value was computed twice: by a second implementation written from the SipHash paper, and,
 * for the zero key, by Python 3.11, whose hash of bytes is SipHash-1-3 with a key that
 * PYTHONHASHSEED=0 makes zero:
 *
 *   hash("…".encode("utf-16-le", "surrogatepass")) & (1 << 64) - 1
 *
 * The other key is the paper's, the bytes 0 to 15. Python does not hash the empty name. */
struct vector {
  uint16_t units[5];
  size_t length;
  uint64_t zero, paper;
};

static const struct vector vectors[] = {
    {{0}, 0, UINT64_C(0xd1fba762150c532c), UINT64_C(0xabac0158050fc4dc)},
    {{'a'}, 1, UINT64_C(0x9b310fba2c6d84d2), UINT64_C(0x2c9ff5d5524e4e9f)},
    {{'a', 'b'}, 2, UINT64_C(0x2c6ea1c831fe18f3), UINT64_C(0xeb62619547d45e8c)},
    {{'a', 'b', 'c'}, 3, UINT64_C(0xc24f63cbd86a33e3), UINT64_C(0x283fd7684ca85010)},
    {{'a', 'b', 'c', 'd'}, 4, UINT64_C(0xcac139f1a7b39f3a), UINT64_C(0x67875d8cc70b800b)},
    {{0}, 1, UINT64_C(0x558f3fd350ea8cef), UINT64_C(0x32720a1055fdc02d)},
    {{0, 0}, 2, UINT64_C(0xcc2247b79ac48af0), UINT64_C(0x009fe5e6a916d7de)},
    {{0xd800}, 1, UINT64_C(0x523f8e2048440329), UINT64_C(0x0201477fa088bac0)},
    {{0xdc00}, 1, UINT64_C(0x9dacd2c7406b757b), UINT64_C(0x5921937253e64869)},
    {{0xffff, 0xffff, 0xffff, 0xffff},
     4,
     UINT64_C(0x2f205be2fec8e38d),
     UINT64_C(0x823f307311453347)},
    {{0xd83d, 0xde00, 'a', 0xd83d, 0x7f},
     5,
     UINT64_C(0x19c8f56833977ec8),
     UINT64_C(0x4ee3c86f491fb38b)},
};

static void check(const uint16_t *units, size_t length, uint64_t zero, uint64_t paper)
{
  static const uint64_t zero_key[2] = {0, 0};
  static const uint64_t paper_key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
  CHECK(wlk_hash(zero_key, units, length) == zero && wlk_hash(paper_key, units, length) == paper);
}

TEST(hash, "the hash of a name is SipHash-1-3 of its UTF-16LE, with its length in bytes modulo 256")
{
  uint16_t name[131];
  for (size_t i = 0; i < 131; i++) name[i] = (uint16_t)(i * 257);
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
    check(vectors[i].units, vectors[i].length, vectors[i].zero, vectors[i].paper);
  check(NULL, 0, vectors[0].zero, vectors[0].paper);
  check(name, 127, UINT64_C(0xdc6eeedf3fb8d28e), UINT64_C(0x2a01f90fd7caaa06));
  check(name, 128, UINT64_C(0x332cbb0e27e8541d), UINT64_C(0x681686e437b79fe5));
  check(name, 131, UINT64_C(0xd94a68d30374a90f), UINT64_C(0xc1cab3bbdd88f86d));
}
