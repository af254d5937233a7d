/* The main of a fuzz target that was built without libFuzzer: gives the target each file of the
 * command line, once.  Every input stands in memory of exactly its size, so that reading past it is
 * seen by the sanitizers. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Seconds that one input may take; on a busy machine too. */
#define INPUT_SECONDS 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
        FILE *f = fopen(path, "rb");
        if (!f || fseek(f, 0, SEEK_END) != 0) {
                perror(path);
                return 1;
        }
        long size = ftell(f);
        rewind(f);
        uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
        if (size < 0 || !data || fread(data, 1, (size_t)size, f) != (size_t)size) {
                perror(path);
                return 1;
        }
        (void)fclose(f); /* only read from */
        fprintf(stderr, "%s\n", path);
        alarm(INPUT_SECONDS);
        (void)LLVMFuzzerTestOneInput(data, (size_t)size); /* always 0; a finding ends the program */
        alarm(0);
        free(data);
        return 0;
}

int main(int argc, char **argv)
{
        for (int i = 1; i < argc; i++)
                if (replay_file(argv[i]) != 0)
                        return 1;
        return 0;
}
