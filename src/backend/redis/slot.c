/* See slot.h. */
#include "backend/redis/slot.h"

#include "base/check.h"
#include "port/segments.h"

/* Part of the keys: never change these. */
static const char *const tags[] = {
    "0",    "1ro",  "2cq",  "3bc",  "4ea",  "5hw",  "6ds",  "7tf",  "8zd",  "9ye",  "10ga",
    "11ph", "12w",  "13fr", "14t",  "15hg", "16ou", "17is", "18l",  "19t",  "20ip", "21fm",
    "22ql", "23mm", "24h",  "25vs", "26a",  "27se", "28s",  "29fe", "30h",  "31jn", "32pn",
    "33zy", "34kq", "35gh", "36pc", "37ao", "38c",  "39ak", "40d",  "41lh", "42mr", "43qa",
    "44nh", "45m",  "46sg", "47es", "48pf", "49dt", "50ob", "51rh", "52n",  "53cl", "54da",
    "55i",  "56r",  "57of", "58up", "59sy", "60ea", "61cb", "62a",  "63zc"};
_Static_assert(sizeof(tags) / sizeof(tags[0]) == SEGMENTS_MAX, "a tag for each segment");

const char *slot_tag(uint32_t segment)
{
    CHECK(segment < SEGMENTS_MAX);
    return tags[segment];
}

/* CRC-16/XMODEM, bit by bit: tags are short and computed once. */
uint32_t slot_of(struct span tag)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < tag.len; i++) {
        crc ^= (uint32_t)(uint8_t)tag.at[i] << 8;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc << 1 ^ ((crc & 0x8000) != 0 ? 0x1021U : 0)) & 0xffff;
        }
    }
    return crc % REDIS_SLOTS;
}
