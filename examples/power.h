/*
 * For power.c: lowers the highest clock of the cores (cpufreq), or else the power cap of the packages (RAPL), while calls are under
 * way that take long, and restores it. A child waits for the end of the process and restores the values then, whatever has
 * ended it, kill -9 included.
 */
#ifndef EXAMPLE_POWER_H
#define EXAMPLE_POWER_H

#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { CAPS = 1024 };
static struct {
    int fd;
    long high, low;
} caps[CAPS];
static int ncaps, dry; /* dry: some must not be written, so none is */

static long read_number(const char *path)
{
    FILE *file = fopen(path, "r");
    long n = -1;

    if (file) {
        n = fscanf(file, "%ld", &n) == 1 ? n : -1;
        fclose(file);
    }
    return n;
}

static void write_caps(int low)
{
    for (int i = 0; i < ncaps && !dry; i++) {
        char text[32];
        int n = snprintf(text, sizeof text, "%ld\n", low ? caps[i].low : caps[i].high);

        if (pwrite(caps[i].fd, text, (size_t)n, 0) != n) {
            perror("power: a cap is not written");
        }
    }
}

/* The files of a pattern, unless there are some already. */
static void find_caps(const char *folder, const char *pattern, int percent)
{
    char path[512];
    glob_t found;

    snprintf(path, sizeof path, "%s/%s", folder, pattern);
    if (ncaps || glob(path, 0, NULL, &found)) {
        return;
    }
    for (size_t i = 0; i < found.gl_pathc && ncaps < CAPS; i++) {
        caps[ncaps].high = read_number(found.gl_pathv[i]);
        if (caps[ncaps].high > 0) {
            caps[ncaps].low = caps[ncaps].high / 100 * percent;
            caps[ncaps].fd = open(found.gl_pathv[i], O_WRONLY | O_CLOEXEC);
            dry |= caps[ncaps].fd < 0;
            printf("power: %s: %ld, in long calls %ld%s\n", found.gl_pathv[i], caps[ncaps].high, caps[ncaps].low,
                   caps[ncaps].fd < 0 ? ": dry run, it cannot be written" : "");
            ncaps++;
        }
    }
    globfree(&found);
}

/* mpirun's signals do not reach the child, and it keeps no output open. */
static void guard_caps(void)
{
    int ends[2];
    char byte;

    fflush(stdout);
    if (!dry && ncaps && !pipe(ends) && fork() == 0) {
        setsid();
        for (int fd = 0; fd < 3; fd++) {
            close(fd);
        }
        close(ends[1]);
        while (read(ends[0], &byte, 1) < 0) {
        }
        write_caps(0);
        _exit(0);
    }
}

enum { LONG_CALLS = 64 };
static double threshold_us = 1000;
static _Atomic unsigned long long long_calls[LONG_CALLS]; /* that are under way; 0: none */
static _Atomic int enabled, lowered;
static sem_t changed;

/* A listener may not wait, so this thread writes the files. */
static void *manage_caps(void *arg)
{
    int is_low = 0;

    while (!sem_wait(&changed)) {
        int want = 0;

        for (int i = 0; i < LONG_CALLS; i++) {
            want |= enabled && long_calls[i];
        }
        if (want != is_low) {
            write_caps(is_low = want);
            lowered += want;
        }
    }
    return arg;
}

/* The listeners. `call` is a number that only the begin and the end of one call have in common. */
static void call_begins(unsigned long long call, double predicted_us)
{
    for (int i = 0; i < LONG_CALLS && predicted_us >= threshold_us; i++) {
        unsigned long long none = 0;

        if (atomic_compare_exchange_strong(&long_calls[i], &none, call)) {
            sem_post(&changed);
            return;
        }
    }
}

static void call_ends(unsigned long long call)
{
    for (int i = 0; i < LONG_CALLS; i++) {
        unsigned long long it = call;

        if (atomic_compare_exchange_strong(&long_calls[i], &it, 0)) {
            sem_post(&changed);
        }
    }
}

/* Joules of all packages since some moment; less than 0: they cannot be read. */
static double read_joules(const char *folder)
{
    char path[512];
    double sum = 0;
    glob_t found;

    snprintf(path, sizeof path, "%s/class/powercap/intel-rapl:[0-9]*/energy_uj", folder);
    if (glob(path, 0, NULL, &found)) {
        return -1;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        long uj = read_number(found.gl_pathv[i]);

        sum = uj < 0 || sum < 0 ? -1 : sum + (double)uj * 1e-6;
    }
    globfree(&found);
    return sum;
}

#endif
