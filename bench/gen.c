/* gen: the load generator of `make bench`, the same for every peer.
 *
 *   gen --proto weir|list|stream|beanstalk|weir-lock|redis-lock (--port N | --unix PATH)
 *       [--conns N] [--depth N] [--payload BYTES | --json] [--many] [--batch] [--next] [--single]
 *       [--record FILE] [--pid PID] [--dir DIR] [--warm S] PHASE...
 *
 * A phase is put:SECONDS, put#COUNT, drain:SECONDS, drain, cycle:SECONDS, cycle#COUNT,
 * latency#SAMPLES[@GAP_US] or, with the lock protocols, lock:SECONDS; phases run one after the
 * other on the same connections, so a drain finds what a put before it has left.  Each prints one
 * line of JSON.  The exit code is 1 when the server closed, answered anything unexpected, or lost,
 * changed or doubled a job. */
#include "gen.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arg.h"

static const struct proto *const protos[] = {
        &proto_weir,      &proto_list,      &proto_stream,
        &proto_beanstalk, &proto_weir_lock, &proto_redis_lock,
};

static const struct proto *find_proto(const char *name)
{
        for (size_t i = 0; i < sizeof(protos) / sizeof(protos[0]); i++) {
                if (strcmp(protos[i]->name, name) == 0)
                        return protos[i];
        }
        die("no protocol called %s", name);
}

static void set_option(struct run *run, int opt)
{
        if (opt == 'p')
                run->proto = find_proto(optarg);
        else if (opt == 'h')
                snprintf(run->host, sizeof(run->host), "%s", optarg);
        else if (opt == 'P')
                run->port = number_arg(optarg, 1, 65535);
        else if (opt == 'u')
                run->socket_path = optarg;
        else if (opt == 'c')
                run->n_conns = number_arg(optarg, 1, CONNS_MAX);
        else if (opt == 'd')
                run->depth = number_arg(optarg, 1, DEPTH_MAX);
        else if (opt == 's')
                run->payload = number_arg(optarg, PAYLOAD_MIN, PAYLOAD_MAX);
        else if (opt == 'i')
                run->pid = (pid_t)number_arg(optarg, 1, 1u << 30);
        else if (opt == 'D')
                sample_find_disk(optarg, run->disk, sizeof(run->disk));
        else if (opt == 'm')
                run->is_many = true;
        else if (opt == 'b')
                run->is_batch = true;
        else if (opt == 'n')
                run->is_next = true;
        else if (opt == 'o')
                run->is_single = true;
        else if (opt == 'j')
                run->is_json = true;
        else if (opt == 'r')
                run->record = record_open(optarg);
        else
                exit(2);
}

static void parse_options(struct run *run, int argc, char **argv, double *warm_s)
{
        static const struct option options[] = {
                {"proto", required_argument, NULL, 'p'},
                {"host", required_argument, NULL, 'h'},
                {"port", required_argument, NULL, 'P'},
                {"conns", required_argument, NULL, 'c'},
                {"depth", required_argument, NULL, 'd'},
                {"payload", required_argument, NULL, 's'},
                {"many", no_argument, NULL, 'm'},
                {"batch", no_argument, NULL, 'b'},
                {"next", no_argument, NULL, 'n'},
                {"single", no_argument, NULL, 'o'},
                {"json", no_argument, NULL, 'j'},
                {"record", required_argument, NULL, 'r'},
                {"pid", required_argument, NULL, 'i'},
                {"dir", required_argument, NULL, 'D'},
                {"warm", required_argument, NULL, 'w'},
                {"unix", required_argument, NULL, 'u'},
                {NULL, 0, NULL, 0},
        };
        int opt;
        while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (opt == 'w')
                        *warm_s = strtod(optarg, NULL);
                else
                        set_option(run, opt);
        }
        if (!run->proto || (!run->port && !run->socket_path) || optind == argc)
                die("--proto, --port or --unix, and a phase are needed");
        if (run->is_single && (run->proto != &proto_weir || run->is_next))
                die("--single is for the protocol weir without --next");
        if (run->is_json && (run->proto != &proto_weir || run->is_many))
                die("--json is for the protocol weir without --many");
        if (run->record && !run->is_json)
                die("--record needs --json");
}

/* {"n":"0000000000","pad":"abc..."}: JSON, so that no peer can take it for something else. */
static char *make_template(unsigned payload)
{
        static const char head[] = "{\"n\":\"0000000000\",\"pad\":\"";
        size_t head_len = sizeof(head) - 1;
        char *p = malloc(payload + 1);
        if (!p)
                die("out of memory");
        memcpy(p, head, head_len);
        for (size_t i = head_len; i < payload; i++)
                p[i] = (char)('a' + i % 26);
        memcpy(p + payload - 2, "\"}", 3);
        return p;
}

static void run_phase(struct run *run, const char *phase, double warm_s)
{
        size_t word = strcspn(phase, ":#");
        char kind = phase[word];
        const char *value = kind ? phase + word + 1 : "";
        double seconds = kind == ':' ? strtod(value, NULL) : 0;
        unsigned count = kind == '#' ? (unsigned)strtoul(value, NULL, 10) : 0;
        warm_s = kind == ':' ? warm_s : 0;

        run->put_limit = count ? run->next_number + count : NUMBERS_MAX;
        if (run->put_limit > NUMBERS_MAX)
                die("more jobs than numbers");
        bool is_lock_proto = !run->proto->put, is_lock = strncmp(phase, "lock", word) == 0;
        if (is_lock != is_lock_proto)
                die("%s does not do %s", run->proto->name, phase);
        if (is_lock && seconds > 0) {
                engine_run(run, WORK_LOCK, seconds, warm_s);
        } else if (strncmp(phase, "put", word) == 0 && (seconds > 0 || count > 0)) {
                engine_run(run, WORK_PUT, seconds, warm_s);
        } else if (strncmp(phase, "cycle", word) == 0 && (seconds > 0 || count > 0)) {
                engine_run(run, WORK_CYCLE, seconds, warm_s);
        } else if (strncmp(phase, "drain", word) == 0) {
                engine_run(run, WORK_DRAIN, seconds, warm_s);
        } else if (strncmp(phase, "latency", word) == 0 && count > 0) {
                const char *gap = strchr(value, '@');
                latency_run(run, count, gap ? number_arg(gap + 1, 0, 1000000) : 5000);
        } else {
                die("no phase called %s", phase);
        }
}

int main(int argc, char **argv)
{
        static struct run run = {.host = "127.0.0.1", .n_conns = 1, .depth = 1, .payload = 200};
        double warm_s = 0.05;
        parse_options(&run, argc, argv, &warm_s);
        run.template = make_template(run.payload);
        run.seen = calloc(NUMBERS_MAX / 64, sizeof(*run.seen));
        run.conns = calloc(run.n_conns, sizeof(*run.conns));
        if (!run.seen || !run.conns)
                die("out of memory");
        for (unsigned i = 0; i < run.n_conns; i++)
                conn_open(&run.conns[i], &run, i);
        for (int i = optind; i < argc; i++)
                run_phase(&run, argv[i], warm_s);
        if (run.record)
                record_close(run.record);
        return 0;
}
