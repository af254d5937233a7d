/* libcurl's transfers on the worker's loop.  Loop thread only. */
#ifndef WEIR_WORK_CURL_LOOP_H
#define WEIR_WORK_CURL_LOOP_H

#include <curl/curl.h>
#include <uv.h>

#include "base/err.h"

struct curl_loop;

/* Called once when a transfer has ended; it is out of the loop then, and the easy handle is the
 * caller's again.  ctx is its CURLOPT_PRIVATE. */
typedef void (*curl_loop_done_fn)(void *ctx, CURLcode result);

/* max_kept: connections kept open for the next request. */
int curl_loop_new(uv_loop_t *loop, size_t max_kept, curl_loop_done_fn done, struct curl_loop **ret,
                  struct problem *p) MUST_CHECK;
bool curl_loop_add(struct curl_loop *c, CURL *easy) MUST_CHECK;
void curl_loop_remove(struct curl_loop *c, CURL *easy); /* `done` is not called any more */
void curl_loop_close(struct curl_loop *c);              /* no transfers are left; frees itself */

#endif
