/*
 * coll_dma_accept: tries on a node what the engine sdma does there, and records what is proven. See accept.h, and the manual
 * page coll_dma_accept.1.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "tools/accept/accept.h"

/* Exit statuses. */
enum { ALL_RIGHT, SOMETHING_FAILED, WRONG_USE, STOPPED };

static const char *const providers[ACCEPT_PROVIDERS] = {"kfd", "rocr"};

static const char help[] =
    "usage: coll_dma_accept [OPTION...]\n"
    "Tries on a node with AMD Instinct GPUs what the engine sdma of coll/dma does, the least dangerous first: packets "
    "on\n"
    "each GPU and link, then collectives under mpirun, whose times it measures. It writes what is proven into the "
    "record\n"
    "that MPI jobs read. A check may hang or reset a GPU: use a node without other jobs.\n"
    "\n"
    "  --record FILE      the record [" DMA_RECORD_FILE ", or coll_dma_record]\n"
    "  --report FILE      also write what is printed into this file\n"
    "  --gpus LIST        only these GPUs, by their number in this program's list, for example 0,2-3\n"
    "  --provider NAME    only queues of this provider: kfd or rocr\n"
    "  --packets-only     no collectives\n"
    "  --mpirun COMMAND   mpirun and its options, with spaces between them [mpirun]\n"
    "  --job-seconds N    limit of a job of mpirun [120]\n"
    "  --repeat N         how often a job with waiting packets is killed [10]\n"
    "  --jobs N           jobs at once on the same GPUs, at most 15 [8]; 0: this is not tried\n"
    "  --largest BYTES    largest block whose time is measured [16777216]; 0: none is\n"
    "  --packet BYTES     largest packet that is tried at the end, for the report alone [1073741824]; 0: none is\n"
    "  --seconds N        in which a GPU must answer [5]; a check is ended after 8 times as long\n"
    "  --kernel-log FILE  the kernel's log [/dev/kmsg]; what it says of a GPU during a check fails the check\n"
    "  --sysfs DIR        the kernel's description of the GPUs [" DMA_TOPO_ROOT ", or coll_dma_sysfs]\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 all checks passed, 1 some failed, 2 wrong use or nothing to check, 3 stopped, because going on "
    "would\n"
    "be dangerous.\n";

void accept_say(accept_t *a, const char *format, ...)
{
    FILE *const to[] = {stdout, a->report};

    for (int i = 0; i < 2 && to[i]; i++) {
        va_list args;

        va_start(args, format);
        vfprintf(to[i], format, args);
        va_end(args);
        fflush(to[i]); /* the node may not survive the next check */
    }
}

/* ---- options ---- */

static int wrong(const char *what, const char *text)
{
    fprintf(stderr, "coll_dma_accept: %s%s%s\n", what, text ? ": " : "", text ? text : "");
    return WRONG_USE;
}

/* "0,2-3" */
static bool parse_gpus(const char *text, uint64_t *mask)
{
    *mask = 0;
    do {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;

        if (end == text || *text < '0' || *text > '9') {
            return false;
        }
        if (*end == '-') {
            text = end + 1;
            last = strtoul(text, &end, 10);
            if (end == text || *text < '0' || *text > '9') {
                return false;
            }
        }
        if (last >= ACCEPT_GPUS || first > last || (*end && *end != ',')) {
            return false;
        }
        for (; first <= last; first++) {
            *mask |= UINT64_C(1) << first;
        }
        text = end + (*end == ',');
    } while (*text);
    return true;
}

/* The value of an MCA parameter in the environment, as mpirun would take it. */
static const char *parameter(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value && *value ? value : otherwise;
}

static bool parse_number(const char *text, uint64_t most, uint64_t *number)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    *number = value;
    return *text >= '0' && *text <= '9' && !*end && value <= most;
}

static bool is_provider(const char *name)
{
    for (int p = 0; p < ACCEPT_PROVIDERS; p++) {
        if (!strcmp(name, providers[p])) {
            return true;
        }
    }
    return false;
}

static bool parse_seconds(const char *text, double *seconds)
{
    char *end;

    *seconds = strtod(text, &end);
    return end != text && !*end && *seconds >= 0.5 && *seconds <= 3600;
}

static bool set_option(accept_options_t *o, int option, const char *value)
{
    switch (option) {
    case 'r':
        o->record = value;
        return true;
    case 't':
        o->report = value;
        return true;
    case 'g':
        return parse_gpus(value, &o->gpus);
    case 'p':
        o->provider = value;
        return is_provider(value);
    case 's':
        return parse_seconds(value, &o->seconds);
    case 'J':
        return parse_seconds(value, &o->job_seconds);
    case 'P':
        o->packets_only = true;
        return true;
    case 'm':
        o->mpirun = value;
        return true;
    case 'n':
        return parse_number(value, 1000, &o->repeat);
    case 'j':
        return parse_number(value, ACCEPT_JOBS, &o->jobs);
    case 'l':
        return parse_number(value, UINT64_C(1) << 28, &o->largest);
    case 'b':
        return parse_number(value, UINT64_C(1) << 30, &o->packet);
    case 'k':
        o->log = value;
        return true;
    case 'y':
        o->sysfs = value;
        return true;
    default:
        return false;
    }
}

/* Returns -1: go on; otherwise an exit status. */
static int read_options(accept_options_t *o, int argc, char **argv)
{
    static const struct option names[] = {
        {"record", required_argument, NULL, 'r'},
        {"report", required_argument, NULL, 't'},
        {"gpus", required_argument, NULL, 'g'},
        {"provider", required_argument, NULL, 'p'},
        {"packets-only", no_argument, NULL, 'P'},
        {"mpirun", required_argument, NULL, 'm'},
        {"job-seconds", required_argument, NULL, 'J'},
        {"repeat", required_argument, NULL, 'n'},
        {"jobs", required_argument, NULL, 'j'},
        {"largest", required_argument, NULL, 'l'},
        {"seconds", required_argument, NULL, 's'},
        {"packet", required_argument, NULL, 'b'},
        {"kernel-log", required_argument, NULL, 'k'},
        {"sysfs", required_argument, NULL, 'y'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {0},
    };
    int option, index;

    *o = (accept_options_t){.sysfs = parameter("OMPI_MCA_coll_dma_sysfs", DMA_TOPO_ROOT),
                            .record = parameter("OMPI_MCA_coll_dma_record", DMA_RECORD_FILE),
                            .log = "/dev/kmsg",
                            .mpirun = "mpirun",
                            .gpus = UINT64_MAX,
                            .repeat = 10,
                            .jobs = 8,
                            .largest = 16777216,
                            .packet = UINT64_C(1) << 30,
                            .seconds = 5,
                            .job_seconds = 120};
    while ((option = getopt_long(argc, argv, "", names, &index)) != -1) {
        if (option == 'h' || option == 'v') {
            fputs(option == 'h' ? help : "coll_dma_accept (coll/dma) " DMA_VERSION "\n", stdout);
            return ALL_RIGHT;
        }
        if (option == '?') {
            return WRONG_USE;
        }
        if (!set_option(o, option, optarg)) {
            return wrong(names[index].name, optarg);
        }
    }
    return optind < argc ? wrong("unknown argument", argv[optind]) : -1;
}

/* ---- what there is ---- */

static void add_subjects(accept_t *a)
{
    for (uint32_t gpu = 0; gpu < a->topo->ngpus; gpu++) {
        for (int p = 0; p < ACCEPT_PROVIDERS && accept_is_chosen(a, gpu); p++) {
            if (!a->options->provider || !strcmp(a->options->provider, providers[p])) {
                a->subjects[a->nsubjects++] = (accept_subject_t){.gpu = gpu, .provider = providers[p]};
            }
        }
    }
}

static void introduce(accept_t *a)
{
    struct utsname name = {.release = "-"};
    time_t now = time(NULL);
    struct tm at;

    if (gethostname(a->host, sizeof(a->host)) || !a->host[0]) {
        snprintf(a->host, sizeof(a->host), "unknown");
    }
    a->host[sizeof(a->host) - 1] = '\0';
    strftime(a->date, sizeof(a->date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &at));
    (void)uname(&name);
    accept_say(a, "coll_dma_accept %s on %s, %s, kernel %s\n", DMA_VERSION, a->host, a->date, name.release);
    accept_say(a, "kernel's log: %s%s\n", a->options->log,
               a->kernel.fd < 0 ? " cannot be read, so that faults and resets are noticed only by what they break"
                                : "");
    for (uint32_t i = 0; i < a->topo->ngpus; i++) {
        const dma_topo_gpu_t *gpu = &a->topo->gpus[i];

        accept_say(a, "GPU %u: %04x:%02x:%02x.%x, node %u, device %#x, gfx %u, firmware %u, %u + %u engines\n", i,
                   gpu->domain, gpu->location >> 8, gpu->location >> 3 & 31, gpu->location & 7, gpu->node,
                   gpu->device_id, gpu->version, gpu->firmware, gpu->host_engines, gpu->xgmi_engines);
    }
    add_subjects(a);
}

static bool any_works(const accept_t *a)
{
    bool any = false;

    for (size_t i = 0; i < a->nsubjects; i++) {
        any = any || a->subjects[i].usable;
    }
    return any;
}

/* What the record has now, and what that means. */
static int conclude(accept_t *a)
{
    bool saved = accept_save(a);

    accept_say(a, "%u checks failed%s\n", a->failed, a->stopped ? ", and not all were made" : "");
    if (!any_works(a)) {
        accept_say(a, "The engine sdma works on no GPU.\n");
    }
    if (saved) {
        accept_say(a, "The record is %s. Jobs use it with: --mca coll_dma_record %s\n", a->options->record,
                   a->options->record);
    }
    return a->stopped ? STOPPED : a->failed || !saved || !any_works(a) ? SOMETHING_FAILED : ALL_RIGHT;
}

static int run(accept_t *a)
{
    introduce(a);
    if (a->nsubjects == 0) {
        return wrong("there is no such GPU", NULL);
    }
    if (!accept_save_begin(a)) {
        return WRONG_USE;
    }
    accept_stage1(a);
    if (!a->options->packets_only && !a->stopped) {
        accept_stage2(a);
    }
    if (!a->stopped && accept_save(a)) {
        accept_large(a);
    }
    return conclude(a);
}

int main(int argc, char **argv)
{
    accept_options_t options;
    static accept_t a;
    const char *reason = "no memory";
    int status = read_options(&options, argc, argv);

    if (status >= 0) {
        return status;
    }
    a.options = &options;
    if (dma_topo_read(options.sysfs, &a.topo, &reason) != DMA_OK) {
        return wrong(options.sysfs, reason);
    }
    if (a.topo->ngpus > ACCEPT_GPUS) {
        status = wrong(options.sysfs, "there are more than 64 GPUs");
    } else if (options.report && !(a.report = fopen(options.report, "we"))) {
        status = wrong(options.report, strerror(errno));
    } else {
        accept_kernel_open(&a.kernel, options.log);
        status = run(&a);
    }
    if (a.report && fclose(a.report)) {
        status = wrong(options.report, strerror(errno));
    }
    dma_topo_free(a.topo);
    return status;
}
