/* The part of `weir mutex` that is about locks in the options table of a WordPress site. */
#ifndef WEIR_CLI_MUTEX_SITE_H
#define WEIR_CLI_MUTEX_SITE_H

#include "cli/listing.h"

/* The site that --wordpress names; NULL: it was not given, and weir's own locks are meant. */
const char *mutex_site(const struct cli *cli);

int mutex_site_list(struct cli *cli, struct problem *p) MUST_CHECK;
int mutex_site_acquire(struct cli *cli, struct problem *p) MUST_CHECK;
int mutex_site_release(struct cli *cli, struct problem *p) MUST_CHECK;

#endif
