/* `weir doctor`: checks a set-up and says what to fix. */
#ifndef WEIR_SERVE_DOCTOR_H
#define WEIR_SERVE_DOCTOR_H

#include "base/buf.h"

int doctor_main(int argc, char **argv);

/* ---- what its two files share ---- */

enum verdict { VERDICT_FINE, VERDICT_WARN, VERDICT_BAD };

#define FINDINGS_MAX 512

struct finding {
        enum verdict verdict;
        const char *name; /* "disk sync" */
        char text[400];
        char fix[400]; /* what to do; empty when it is fine */
};

struct doctor {
        struct finding findings[FINDINGS_MAX];
        size_t n;
        bool has_asked; /* a server for its state, which is the same at each door */
};

/* `fix` may be NULL.  What does not fit any more is left out: there are never that many. */
void doctor_tell(struct doctor *d, enum verdict verdict, const char *name, const char *fix,
                 const char *fmt, ...) PRINTF(5, 6);

/* The machine: doctor_system.c. */
bool doctor_check_folder(struct doctor *d, const char *data); /* false: nothing can be written */
void doctor_check_sync(struct doctor *d, const char *data);
void doctor_check_space(struct doctor *d, const char *data);
void doctor_check_files(struct doctor *d);
/* What is in the folder: doctor_data.c. */
void doctor_check_data(struct doctor *d, const char *data);
void doctor_check_clock(struct doctor *d);
void doctor_check_zones(struct doctor *d);

#endif
