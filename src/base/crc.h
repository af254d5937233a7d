/* CRC-32C (Castagnoli), hardware instruction where the CPU has it, table otherwise. */
#ifndef WEIR_BASE_CRC_H
#define WEIR_BASE_CRC_H

#include "base/defs.h"

/* crc32c(0, "123456789", 9) == 0xe3069283; chain by passing the last result. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

#endif
