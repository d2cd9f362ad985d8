#include "hash.h"

struct sip {
  uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate_left(uint64_t x, unsigned bits)
{
  return (x << bits) | (x >> (64 - bits));
}

static inline void sip_round(struct sip *s)
{
  s->v0 += s->v1;
  s->v2 += s->v3;
  s->v1 = rotate_left(s->v1, 13) ^ s->v0;
  s->v3 = rotate_left(s->v3, 16) ^ s->v2;
  s->v0 = rotate_left(s->v0, 32);
  s->v2 += s->v1;
  s->v0 += s->v3;
  s->v1 = rotate_left(s->v1, 17) ^ s->v2;
  s->v3 = rotate_left(s->v3, 21) ^ s->v0;
  s->v2 = rotate_left(s->v2, 32);
}

static inline void sip_compress(struct sip *s, uint64_t word)
{
  s->v3 ^= word;
  sip_round(s);
  s->v0 ^= word;
}

/* The result is the same on machines of either byte order. */
static inline uint64_t little_endian(const uint16_t *units, size_t count)
{
  uint64_t word = 0;
  for (size_t i = 0; i < count; i++) word |= (uint64_t)units[i] << (16 * i);
  return word;
}

uint64_t wlk_hash(const uint64_t key[2], const uint16_t *name, size_t length)
{
  struct sip s = {
      key[0] ^ UINT64_C(0x736f6d6570736575),
      key[1] ^ UINT64_C(0x646f72616e646f6d),
      key[0] ^ UINT64_C(0x6c7967656e657261),
      key[1] ^ UINT64_C(0x7465646279746573),
  };
  size_t whole = length & ~(size_t)3;
  for (size_t i = 0; i < whole; i += 4) sip_compress(&s, little_endian(name + i, 4));

  /* The highest byte of the last word is the length in bytes, modulo 256. */
  uint64_t last = ((uint64_t)length * 2) << 56;
  if (length > whole) last |= little_endian(name + whole, length - whole);
  sip_compress(&s, last);

  s.v2 ^= 0xff;
  for (int i = 0; i < 3; i++) sip_round(&s);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
