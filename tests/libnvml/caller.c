/*
 * Calls what it is told on standard input: one line for each call, with the name of the function and its arguments.
 * n123 is a number or a handle, b00ff the bytes of a buffer. The answer is a line with the code and the bytes of each
 * buffer afterwards.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1 << 16, ARGUMENTS = 6 };

typedef int (*function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static void fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static unsigned char *bytes(const char *hex, size_t *size)
{
    *size = strlen(hex) / 2;
    unsigned char *found = calloc(*size + 1, 1);
    for (size_t i = 0; i < *size; i++)
        if (sscanf(hex + 2 * i, "%2hhx", &found[i]) != 1)
            fail("not hexadecimal");
    return found;
}

int main(void)
{
    static char line[LINE];
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!nvml)
        fail(dlerror());
    while (fgets(line, sizeof line, stdin)) {
        uintptr_t values[ARGUMENTS] = {0};
        unsigned char *buffers[ARGUMENTS] = {0};
        size_t sizes[ARGUMENTS] = {0};
        int count = 0;
        char *word = strtok(line, " \n");
        function called = (function)dlsym(nvml, word);

        if (!called)
            fail(word);
        for (; (word = strtok(NULL, " \n")) && count < ARGUMENTS; count++) {
            if (*word == 'b')
                values[count] = (uintptr_t)(buffers[count] = bytes(word + 1, &sizes[count]));
            else
                values[count] = strtoull(word + 1, NULL, 10);
        }
        printf("%d", called(values[0], values[1], values[2], values[3], values[4], values[5]));
        for (int i = 0; i < count; i++) {
            if (!buffers[i])
                continue;
            printf(" ");
            for (size_t k = 0; k < sizes[i]; k++)
                printf("%02x", buffers[i][k]);
            free(buffers[i]);
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
