/* Sends the spans of attempts to a collector of OpenTelemetry: OTLP over HTTP, in JSON.
 *
 *      loop --attempt--> buffer of at most queue_limit spans --batch--> thread --POST--> collector
 *
 * The loop never waits: it packs an attempt behind a lock that the thread holds only to swap two
 * buffers.  When the buffer is full, or the collector refuses a batch or does not answer, spans are
 * dropped and counted; the log says so once a minute. */
#ifndef WEIR_TELEMETRY_EXPORTER_H
#define WEIR_TELEMETRY_EXPORTER_H

#include "base/err.h"
#include "core/attempt.h"

struct exporter_options {
        const char *url;     /* NULL: nothing is exported */
        const char *headers; /* lines "Name: value"; NULL: none */
        const char *ca_file; /* NULL: those of the system */
        const char *service;
        double sample;
        uint32_t queue_limit; /* spans */
};

struct exporter;

/* Loop thread only, all of them.  The options are copied.  `instance` names this weir on its
 * machine. */
struct exporter *exporter_new(const char *version, const char *instance);
/* Starts the thread when there is a first url.  Spans that wait go to the new url. */
void exporter_set(struct exporter *e, const struct exporter_options *o);
/* For core_set_tracer(); NULL while nothing is exported. */
struct tracer *exporter_tracer(struct exporter *e);
/* Tries for some seconds to send what waits. */
struct exporter *exporter_free(struct exporter *e);

/* Is this a line of `headers`? */
bool exporter_is_header(struct slice line);

#endif
