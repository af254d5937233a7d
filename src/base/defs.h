/* The few macros every file may rely on, and the assertion that stays on in release.
 *
 * ASSERT is for our own mistakes only: a wrong lock or a lost job is worse than a restart that
 * replays from disk.  What a peer sends or what the disk answers is never asserted on. */
#ifndef WEIR_BASE_DEFS_H
#define WEIR_BASE_DEFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_CHECK              __attribute__((warn_unused_result))
#define PRINTF(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))
/* The variable has its value where it is declared: an early return cleans up, too. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define TAKE_PTR(p)                                                                                \
        __extension__({                                                                            \
                __typeof__(p) take_ = (p);                                                         \
                (p) = NULL;                                                                        \
                take_;                                                                             \
        })
#define DEFINE_CLEANUP(type, fn)                                                                   \
        static inline void fn##p(type **p)                                                         \
        {                                                                                          \
                if (*p)                                                                            \
                        *p = fn(*p);                                                               \
        }

#define ARRAY_LEN(a)                    (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)((uintptr_t)(ptr)-offsetof(type, member)))
#define ALIGN_UP(n, to)                 (((n) + ((to)-1)) & ~((__typeof__(n))(to)-1))

#define KIB                             (1024ULL)
#define MIB                             (1024ULL * 1024)
#define NS_PER_MS                       1000000LL
#define NS_PER_S                        1000000000LL
#define MS_PER_S                        1000LL

/* Prints the place, the claim, the last diagnostic lines and a backtrace, then aborts. */
_Noreturn void panic(const char *file, int line, const char *func, const char *claim);

#define ASSERT(e) ((e) ? (void)0 : panic(__FILE__, __LINE__, __func__, #e))

/* True in debug and sanitizer builds: modules check their invariants each turn (x_check). */
#if defined(WEIR_DEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_CHECKED true
#else
#define IS_CHECKED false
#endif

/* Allocation of small fixed internal things: panics when memory is out.  Anything whose size a
 * client chooses goes through malloc and an ERR_NOMEM answer instead. */
void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));

#endif
