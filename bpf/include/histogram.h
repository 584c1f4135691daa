/* H2 histograms: 2^3 buckets an octave over all of u64. The daemon's twin is pipeline.histogram. */
#pragma once

#define H2_BUCKETS 496

/* Values below 16 have a bucket each; above, the top bit and the three bits after it tell the bucket.
 * BPF has no instruction for the top bit, so it is found by halving. All in 64 bits: a 32-bit shift puts
 * everything from 2^31 on into wrong buckets. */
static __always_inline u32 h2_bucket(u64 value)
{
    if (value < 16)
        return value;
    u32 power = 0;
    u64 rest = value;
    if (rest >> 32) {
        power += 32;
        rest >>= 32;
    }
    if (rest >> 16) {
        power += 16;
        rest >>= 16;
    }
    if (rest >> 8) {
        power += 8;
        rest >>= 8;
    }
    if (rest >> 4) {
        power += 4;
        rest >>= 4;
    }
    if (rest >> 2) {
        power += 2;
        rest >>= 2;
    }
    power += rest >> 1;
    return (power - 2) * 8 + ((value >> (power - 3)) & 7);
}
