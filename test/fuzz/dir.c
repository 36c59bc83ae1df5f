/* A directory for inputs that are read as files: see fuzz.h. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

static char dir[64];
static pid_t owner;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type;
    return ftw->level ? remove(path) : 0;
}

void fuzz_clear(void)
{
    nftw(fuzz_dir(), remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void remove_dir(void)
{
    if (getpid() == owner) {
        fuzz_clear();
        rmdir(dir);
    }
}

const char *fuzz_dir(void)
{
    if (!*dir) {
        strcpy(dir, "/dev/shm/fuzz-XXXXXX");
        FUZZ_MUST(mkdtemp(dir));
        owner = getpid();
        atexit(remove_dir);
    }
    return dir;
}

int fuzz_write(const char *name, const void *data, size_t bytes)
{
    char path[256];
    FILE *file;

    if (*name == '/' || strstr(name, "..") ||
        snprintf(path, sizeof(path), "%s/%s", fuzz_dir(), name) >= (int)sizeof(path)) {
        return 0;
    }
    for (char *slash = strchr(path + strlen(dir) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    if (!(file = fopen(path, "w"))) {
        return 0;
    }
    fwrite(data, 1, bytes, file);
    fclose(file);
    return 1;
}
