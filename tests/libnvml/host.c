/*
 * A program that is no Python and knows nothing of the simulation. It loads the library by its name, as go-nvml does but
 * with its symbols kept apart, and does what its first argument says. It prints what it sees.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *nvml;

static int call(const char *symbol, void *a, void *b, void *c, void *d)
{
    int (*function)(void *, void *, void *, void *) = (int (*)(void *, void *, void *, void *))dlsym(nvml, symbol);
    return function ? function(a, b, c, d) : -1;
}

static void *number(unsigned long value)
{
    return (void *)value;
}

static void load(int flags)
{
    nvml = dlopen("libnvidia-ml.so.1", flags);
    if (!nvml) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
}

static void *first_card(void)
{
    void *card = NULL;
    int code = call("nvmlDeviceGetHandleByIndex_v2", number(0), &card, NULL, NULL);
    if (code) {
        fprintf(stderr, "no first card: %d\n", code);
        exit(1);
    }
    return card;
}

/* What every function says before anything is initialised, in a session, and after it. */
static void phases(void)
{
    unsigned count = 77;
    const char *(*text)(int) = (const char *(*)(int))dlsym(nvml, "nvmlErrorString");

    printf("%d ", call("nvmlDeviceGetCount_v2", &count, NULL, NULL, NULL));
    printf("%d %u | ", call("nvmlDeviceGetFanSpeed", NULL, NULL, NULL, NULL), count);
    printf("%d ", call("nvmlInit_v2", NULL, NULL, NULL, NULL));
    printf("%d ", call("nvmlDeviceGetCount", &count, NULL, NULL, NULL));
    printf("%d %u | ", call("nvmlDeviceGetFanSpeed", NULL, NULL, NULL, NULL), count);
    printf("%d ", call("nvmlShutdown", NULL, NULL, NULL, NULL));
    printf("%d ", call("nvmlShutdown", NULL, NULL, NULL, NULL));
    printf("%d | ", call("nvmlDeviceGetCount_v2", &count, NULL, NULL, NULL));
    printf("%s, ", text(19));
    printf("%s\n", text(4711));
}

/* Loading, using and unloading many times, in both scopes. Texts that were handed out stay. */
static void reload(void)
{
    for (int round = 0; round < 20; round++) {
        unsigned count = 0;
        const char *kept = ((const char *(*)(int))dlsym(nvml, "nvmlErrorString"))(19);
        dlclose(nvml);
        if (strcmp(kept, "In use by another client"))
            exit(1);
        load(RTLD_NOW | (round % 2 ? RTLD_GLOBAL : RTLD_LOCAL));
        if (call("nvmlInit", NULL, NULL, NULL, NULL) || call("nvmlDeviceGetCount", &count, NULL, NULL, NULL) || !count ||
            call("nvmlShutdown", NULL, NULL, NULL, NULL))
            exit(1);
    }
    puts("reloaded");
}

static void *short_thread(void *result)
{
    char uuid[96] = "";
    int code = call("nvmlInitWithFlags", number(0), NULL, NULL, NULL);
    void *card = first_card();
    code |= call("nvmlDeviceGetUUID", card, uuid, number(sizeof uuid), NULL);
    code |= call("nvmlShutdown", NULL, NULL, NULL, NULL);
    *(int *)result = code || strncmp(uuid, "GPU-", 4);
    return NULL;
}

/* Threads of the program, all of which are the first. */
static void threads(int number_of_threads)
{
    pthread_t started[number_of_threads];
    int results[number_of_threads], failed = 0;

    for (int i = 0; i < number_of_threads; i++)
        pthread_create(&started[i], NULL, short_thread, &results[i]);
    for (int i = 0; i < number_of_threads; i++) {
        pthread_join(started[i], NULL);
        failed += results[i] != 0;
    }
    printf("%d failed\n", failed);
}

/* Create GPU instances of a profile wherever they fit, and destroy all but those that another round may keep. */
static void *worker(void *arguments)
{
    int rounds = ((int *)arguments)[0], *kept = &((int *)arguments)[1];
    void *card = first_card();

    for (int i = 0; i < rounds; i++) {
        void *instance = NULL;
        int code = call("nvmlDeviceCreateGpuInstance", card, number(19), &instance, NULL);
        if (code == 23)
            continue;
        if (code || (i % 3 && call("nvmlGpuInstanceDestroy", instance, NULL, NULL, NULL)))
            exit(2);
        *kept += i % 3 == 0;
    }
    return NULL;
}

static void work(int rounds, int number_of_threads)
{
    pthread_t started[number_of_threads];
    int arguments[number_of_threads][2], kept = 0;

    for (int i = 0; i < number_of_threads; i++) {
        arguments[i][0] = rounds;
        arguments[i][1] = 0;
        pthread_create(&started[i], NULL, worker, arguments[i]);
    }
    for (int i = 0; i < number_of_threads; i++) {
        pthread_join(started[i], NULL);
        kept += arguments[i][1];
    }
    printf("%d\n", kept);
}

/* A child without a program of its own, of a process with one thread. */
static void forked(void)
{
    void *card = first_card(), *instance = NULL;
    int status = 0;

    fflush(stdout);
    if (!fork())
        _exit(call("nvmlDeviceCreateGpuInstance", card, number(19), &instance, NULL));
    wait(&status);
    printf("%d %d\n", status, call("nvmlDeviceCreateGpuInstance", card, number(19), &instance, NULL));
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";

    load(RTLD_NOW | RTLD_LOCAL);
    if (!strcmp(what, "phases")) {
        phases();
        return 0;
    }
    if (!strcmp(what, "threads")) {
        threads(atoi(arguments[2]));
        return 0;
    }
    int code = call("nvmlInit_v2", NULL, NULL, NULL, NULL);
    if (code) {
        printf("%d\n", code);
        return 0;
    }
    if (!strcmp(what, "reload"))
        reload();
    if (!strcmp(what, "work"))
        work(atoi(arguments[2]), atoi(arguments[3]));
    if (!strcmp(what, "fork"))
        forked();
    return call("nvmlShutdown", NULL, NULL, NULL, NULL);
}
