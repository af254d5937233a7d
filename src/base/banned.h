/* Included by every .c through the compiler's -include: functions nobody here may call. */
#ifndef WEIR_BASE_BANNED_H
#define WEIR_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol gets system localtime gmtime    \
        popen

#endif
