/* make crash: the real binary, real load, real SIGKILL, again and again on the same folder.
 *
 * A cycle is: load, death, restart, comparison.  Deaths:
 *
 *   random     SIGKILL 20-500 ms after the load began
 *   syscall    strace kills at the n-th call of one chosen system call, from the very start of
 *              the process on; when it does not come within the time, SIGKILL as above
 *   starting   SIGKILL while the server still recovers, then a start that must succeed
 *   graceful   SIGTERM under load: must end by itself with exit code 0 within 2 s
 *
 * After the last cycle everything is worked off, the server is stopped and started once more, and
 * every job ever enqueued is looked at.  Same seed, same dice; the moment of a kill is the
 * machine's.  Output: comments, then one "ok" or "not ok" line; exit 1 when anything was lost,
 * doubled, invented or otherwise wrong. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "model.h"
#include "server.h"
#include "verify.h"

#define SECOND_US 1000000LL
/* These only end a hang. */
#define START_PATIENCE   (120 * SECOND_US)
#define DRAIN_PATIENCE   (180 * SECOND_US)
#define TERM_LIMIT       (2 * SECOND_US) /* of the server's own time, under load */
#define BUSY             10              /* a busy machine may make it so many times as long */
#define FULL_LOOK_CYCLES 50              /* every so many cycles the whole list is compared */
#define SAMPLE           200

enum death { DEATH_RANDOM, DEATH_SYSCALL, DEATH_STARTING, DEATH_GRACEFUL, DEATH_COUNT };
static const char *const death_names[] = {"random", "syscall", "starting", "graceful"};

/* Where to kill, and up to which count of calls (strace counts per thread). */
static const struct {
        const char *calls;
        uint32_t max;
} kill_points[] = {
        {"pwrite64", 400},
        {"fdatasync", 400},
        {"pwrite64", 12},
        {"fdatasync", 12},
        {"fsync", 4},
        {"rename,renameat,renameat2", 3},
        {"unlink,unlinkat", 3},
        {"ftruncate,fallocate", 4},
        {"openat", 30},
        {"pread64", 60},
        {"write,writev,sendto,sendmsg", 600},
        {"read,readv,recvfrom,recvmsg", 600},
        {"epoll_wait,epoll_pwait", 600},
        {"futex", 300},
        {"mmap,munmap", 60},
        {"fcntl", 60},
};

static struct {
        long cycles, seconds;
        uint64_t seed;
        bool keep, is_quick; /* quick: also with lives that are shorter, for fewer jobs */
        char binary[4096], folder[4096], data[4200], stderr_path[4200];
} options = {.cycles = 300};

static struct server server;
static uint64_t deaths[DEATH_COUNT], syscall_hits, full_looks;
static int64_t worst_start_us, down_us;

static _Noreturn void give_up(const char *why)
{
        printf("# folder kept: %s, seed %" PRIu64 "\n", options.folder, options.seed);
        printf("not ok - crash: %s\n", why);
        if (server.pid)
                kill(server.pid, SIGKILL);
        exit(1);
}

static struct server_options start_options(const char *kill_at)
{
        return (struct server_options){.binary = options.binary,
                                       .data = options.data,
                                       .stderr_path = options.stderr_path,
                                       .kill_at = kill_at};
}

static void start_plain(void)
{
        struct server_options o = start_options(NULL);
        if (server_start(&server, &o, START_PATIENCE) != 1)
                give_up("the server does not start again");
        if (server.start_us > worst_start_us)
                worst_start_us = server.start_us;
        fence_floor = max_fence;
}

static void end_by_kill(void)
{
        kill(server.pid, SIGKILL);
        (void)server_wait(&server, SECOND_US);
        down_us = steady_us();
}

static int64_t random_life_us(void)
{
        return 20000 + dice_below(options.is_quick ? 130000 : 480000);
}

static void check_kill_status(int status, const char *what)
{
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
                printf("# wait status %#x after %s; see %s\n", status, what, options.stderr_path);
                give_up("the server died by itself");
        }
}

static void load_and_kill(int64_t life_us)
{
        if (!load_open(server.host, server.port) && !server.pid)
                give_up("cannot connect");
        bool is_alive = load_run(steady_us() + life_us);
        int status = 0;
        if (is_alive || !server_is_dead(&server, &status)) {
                kill(server.pid, SIGKILL);
                status = server_wait(&server, 5 * SECOND_US);
        }
        check_kill_status(status, "load");
        down_us = steady_us();
        load_finish(SECOND_US); /* What the kernel still holds was sent: it counts. */
        load_close();
}

static void cycle_random(void)
{
        load_and_kill(random_life_us());
}

static void cycle_syscall(void)
{
        end_by_kill();
        size_t i = dice_below(sizeof(kill_points) / sizeof(kill_points[0]));
        char kill_at[128];
        (void)snprintf(kill_at, sizeof(kill_at), "%s:when=%u", kill_points[i].calls,
                       1 + dice_below(kill_points[i].max));
        struct server_options o = start_options(kill_at);
        int rc = server_start(&server, &o, START_PATIENCE);
        if (rc < 0)
                give_up("the traced server did not start");
        fence_floor = max_fence;
        if (rc == 0) {
                syscall_hits++;
                return; /* Killed on its way up. */
        }
        int64_t life_us = random_life_us();
        int64_t begin = steady_us();
        load_and_kill(life_us);
        syscall_hits += down_us - begin < life_us;
}

static void cycle_starting(void)
{
        load_and_kill(random_life_us());
        struct server_options o = start_options(NULL);
        server_spawn(&server, &o);
        int64_t until = steady_us() + dice_below(30000);
        while (steady_us() < until)
                (void)poll(NULL, 0, 1);
        int status = 0;
        if (server_is_dead(&server, &status))
                check_kill_status(status, "starting");
        else
                end_by_kill();
}

/* How long something on this machine has waited for a processor, the disk or memory; 0 where the
 * kernel does not tell. */
static int64_t stalled_us(void)
{
        static const char *const files[] = {"/proc/pressure/cpu", "/proc/pressure/io",
                                            "/proc/pressure/memory"};
        int64_t sum = 0;
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                char line[256];
                FILE *f = fopen(files[i], "re");
                const char *total =
                        f && fgets(line, sizeof(line), f) ? strstr(line, "total=") : NULL;
                if (total)
                        sum += strtoll(total + strlen("total="), NULL, 10);
                if (f)
                        (void)fclose(f);
        }
        return sum;
}

/* The status of a server that was told to end; -1: it took longer than limit_us of its own time. */
static int ended_within(int64_t limit_us, int64_t begin_us, int64_t stalled_before_us)
{
        int status = 0;
        while (!server_is_dead(&server, &status)) {
                int64_t took = steady_us() - begin_us;
                if (took > BUSY * limit_us ||
                    (took > limit_us && took - (stalled_us() - stalled_before_us) > limit_us))
                        return server_wait(&server, 0);
                (void)poll(NULL, 0, 5);
        }
        return status;
}

static void cycle_graceful(void)
{
        if (!load_open(server.host, server.port))
                give_up("cannot connect");
        if (!load_run(steady_us() + random_life_us()))
                give_up("the server closed a connection under load");
        int64_t begin = steady_us(), stalled = stalled_us();
        kill(server.pid, SIGTERM);
        load_finish(BUSY * TERM_LIMIT); /* until the connections are closed */
        int status = ended_within(TERM_LIMIT, begin, stalled);
        down_us = steady_us();
        if (status != 0)
                complain(WRONG, "SIGTERM under load: wait status %#x after %" PRId64 " ms", status,
                         (down_us - begin) / 1000);
        load_close();
}

static enum death choose_death(void)
{
        uint32_t roll = dice_below(100);
        if (roll < 35)
                return DEATH_SYSCALL;
        if (roll < 43)
                return DEATH_STARTING;
        return roll < 48 ? DEATH_GRACEFUL : DEATH_RANDOM;
}

static void run_cycle(long number)
{
        static void (*const cycles[])(void) = {cycle_random, cycle_syscall, cycle_starting,
                                               cycle_graceful};
        enum death death = choose_death();
        uint64_t id_floor = max_id;
        deaths[death]++;
        cycles[death]();
        start_plain();
        if (!verify_cycle(server.host, server.port, id_floor, SAMPLE))
                give_up("comparing stopped");
        if (number % FULL_LOOK_CYCLES == 0) {
                full_looks++;
                if (!verify_all(server.host, server.port))
                        give_up("comparing stopped");
                printf("# %ld cycles, %" PRIu64 " acknowledged, %" PRIu64 " comparisons\n", number,
                       tally.acked, tally.checked);
                fflush(stdout);
        }
        if (!is_all_well())
                give_up("the server's account is not what the clients were told");
}

static void finish(void)
{
        if (!verify_drain(server.host, server.port, DRAIN_PATIENCE))
                give_up("draining stopped");
        if (!verify_all(server.host, server.port))
                give_up("comparing stopped");
        int64_t begin = steady_us(), stalled = stalled_us();
        kill(server.pid, SIGTERM);
        int status = ended_within(5 * SECOND_US, begin, stalled);
        if (status != 0)
                complain(WRONG, "SIGTERM: wait status %#x", status);
        start_plain();
        if (!verify_all(server.host, server.port))
                give_up("comparing stopped");
        verify_conservation();
        kill(server.pid, SIGTERM);
        (void)server_wait(&server, 5 * SECOND_US);
}

static void report(long cycles, int64_t took_us)
{
        printf("# deaths:");
        for (int i = 0; i < DEATH_COUNT; i++)
                printf(" %s %" PRIu64, death_names[i], deaths[i]);
        printf(" (%" PRIu64 " at the chosen call); slowest start %" PRId64 " ms; %" PRIu64
               " full comparisons\n",
               syscall_hits, worst_start_us / 1000, full_looks + 2);
        printf("# enqueues never answered: %" PRIu64 " (%" PRIu64 " done, %" PRIu64 " not done)\n",
               tally.in_doubt, tally.found, tally.not_found);
        printf("# cycles %ld  acknowledged operations checked %" PRIu64 "  comparisons %" PRIu64
               "  lost %" PRIu64 "  doubled %" PRIu64 "  invented %" PRIu64 "  wrong %" PRIu64
               "  seed %" PRIu64 "  %.1f s\n",
               cycles, tally.acked, tally.checked, tally.lost, tally.doubled, tally.invented,
               tally.wrong, options.seed, (double)took_us / 1e6);
}

static void parse_options(int argc, char **argv)
{
        static const struct option longs[] = {
                {"cycles", required_argument, NULL, 'c'}, {"seconds", required_argument, NULL, 's'},
                {"seed", required_argument, NULL, 'r'},   {"binary", required_argument, NULL, 'b'},
                {"folder", required_argument, NULL, 'f'}, {"keep", no_argument, NULL, 'k'},
                {"quick", no_argument, NULL, 'q'},        {NULL, 0, NULL, 0}};
        options.seed = (uint64_t)time(NULL) ^ (uint64_t)getpid() << 20;
        for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
                if (c == 'c')
                        options.cycles = strtol(optarg, NULL, 10);
                else if (c == 's')
                        options.seconds = strtol(optarg, NULL, 10);
                else if (c == 'r')
                        options.seed = strtoull(optarg, NULL, 10);
                else if (c == 'b')
                        (void)snprintf(options.binary, sizeof(options.binary), "%s", optarg);
                else if (c == 'f')
                        (void)snprintf(options.folder, sizeof(options.folder), "%s", optarg);
                else if (c == 'k')
                        options.keep = true;
                else if (c == 'q')
                        options.cycles = 20, options.is_quick = true;
                else
                        exit(2);
        }
        if (!options.binary[0] || !options.folder[0]) {
                (void)fprintf(stderr, "usage: crash --binary WEIR --folder EMPTY-FOLDER [--cycles "
                                      "N] [--seconds N] [--seed N] [--quick]\n");
                exit(2);
        }
        (void)snprintf(options.data, sizeof(options.data), "%s/data", options.folder);
        (void)snprintf(options.stderr_path, sizeof(options.stderr_path), "%s/stderr",
                       options.folder);
}

int main(int argc, char **argv)
{
        parse_options(argc, argv);
        (void)signal(SIGPIPE, SIG_IGN);
        dice_seed(options.seed);
        printf("# seed %" PRIu64 ", folder %s\n", options.seed, options.folder);
        int64_t begin = steady_us();
        start_plain();
        long cycles = 0;
        while (options.seconds ? steady_us() - begin < options.seconds * SECOND_US
                               : cycles < options.cycles)
                run_cycle(++cycles);
        finish();
        report(cycles, steady_us() - begin);
        if (!is_all_well())
                give_up("the server's account is not what the clients were told");
        printf("ok - crash: %ld kill cycles, %" PRIu64 " acknowledged operations, 0 lost, "
               "0 doubled, 0 invented\n",
               cycles, tally.acked);
        return 0;
}
