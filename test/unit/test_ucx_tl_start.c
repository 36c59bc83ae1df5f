/* What ucx_tl tells UCX when it starts, and how it reads what UCX has found. */
#include <check.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "libunit.h"
#include "ucx_tl.h"

/* As ucp_context_print_info prints it; valid until the next call. */
static char *printed(const char *names)
{
    static char text[1024];
    char copy[256];
    int at = snprintf(text, sizeof(text),
                      "#\n# UCP context\n#\n#     component 0  :  self\n"
                      "#            md 0  :  component 0  self/tcp/x\n");
    int n = 0;

    snprintf(copy, sizeof(copy), "%s", names);
    for (char *rest, *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        at += snprintf(text + at, sizeof(text) - (size_t)at, "#      resource %d  :  md %d  dev %d  flags -- %s\n", n,
                       n, n, name);
        n++;
    }
    return text;
}

static const char *transports; /* that UCX has */

static void print_transports(const ucp_context_h context, FILE *stream)
{
    (void)context;
    fputs(printed(transports), stream);
}

START_TEST(transports_by_their_names)
{
    static const struct {
        const char *names;
        bool tcp, other, ud_verbs;
    } rows[] = {
        {"", false, false, false},
        {"self/memory sysv/memory posix/memory cma/memory", false, false, false},
        {"self/memory tcp/lo tcp/eth0 knem/memory xpmem/memory", true, false, false},
        {"self/memory tcp/eth0 rc_mlx5/mlx5_0:1 cma/memory", true, true, false},
        {"ud_verbs/mlx5_0:1 dc_mlx5/mlx5_0:1", false, true, true},
        {"tcp/eth0 rc_verbs/rxe0:1 ud_verbs/rxe0:1", true, true, true},
        /* an Ethernet also on a machine with GPUs */
        {"self/memory tcp/eth0 rocm_copy/rocm_cpy rocm_ipc/rocm_ipc cma/memory", true, false, false},
        {"tcp/eth0 cuda_copy/cuda cuda_ipc/cuda gdr_copy/cuda", true, false, false},
        {"tcp/eth0 ze_copy/GPU0 ze_ipc/GPU0 ze_gdr/GPU0", true, false, false},
        {"rocm_ipc/rocm_ipc rc_verbs/mlx5_0:1", false, true, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        dma_ucx_transports_t found = dma_ucx_transports_parse(printed(rows[i].names));

        ck_assert_msg(found.tcp == rows[i].tcp && found.other == rows[i].other && found.ud_verbs == rows[i].ud_verbs,
                      "%s", rows[i].names);
    }
}
END_TEST

/* An adapter has several transports. UCX warns if a device is named twice. */
START_TEST(a_device_is_named_once)
{
    static const struct {
        const char *names, *devices;
    } rows[] = {
        {"tcp/wan0 rc_verbs/rxe0:1 ud_verbs/rxe0:1", "wan0,rxe0:1"},
        {"rc_verbs/mlx5_1:1 ud_verbs/mlx5_1:1 rc_mlx5/mlx5_11:1 dc_mlx5/mlx5_1:1", "mlx5_1:1,mlx5_11:1"},
        {"rc_verbs/mlx5_11:1 ud_verbs/mlx5_11:1 rc_verbs/mlx5_1:1 ud_verbs/mlx5_1:1", "mlx5_11:1,mlx5_1:1"},
        {"rc_verbs/mlx5_1:1 rc_verbs/mlx5_1:11 rc_verbs/mlx5_1:1 rc_verbs/x_mlx5_1:1", "mlx5_1:1,mlx5_1:11,x_mlx5_1:1"},
        {"self/memory tcp/lo rc_verbs/a rc_verbs/a cma/memory ud_verbs/a", "a"},
    };
    const dma_ucx_unwanted_t nothing = {0};
    char devices[DMA_UCX_DEVICES_BYTES];
    __typeof__(ucp_context_print_info) *print;
    unsigned excluded;
    const char *why;

    ck_assert_int_eq(dma_ucx_load(&why), DMA_OK);
    print = dma_ucx_api.ucp_context_print_info;
    dma_ucx_api.ucp_context_print_info = print_transports;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        transports = rows[i].names;
        ck_assert_int_eq(dma_ucx_devices_without(NULL, &nothing, devices, &excluded), DMA_OK);
        ck_assert_str_eq(devices, rows[i].devices);
    }
    dma_ucx_api.ucp_context_print_info = print;
}
END_TEST

/* ---- the size of the job ---- */

static __typeof__(ucp_init_version) *init_version;
static ucp_params_t told;

static ucs_status_t note_params(unsigned major, unsigned minor, const ucp_params_t *params, const ucp_config_t *config,
                                ucp_context_h *context)
{
    told = *params;
    return init_version(major, minor, params, config, context);
}

/* Without a hint UCX counts on one peer, and uses a transport that needs a connection's memory for each of thousands. */
START_TEST(tells_how_many_processes_there_are)
{
    dma_ucx_config_t config = {.keepalive_seconds = 15, .processes = 32768, .local_processes = 8};
    const char *why;
    dma_ucx_t *net;

    ck_assert_int_eq(dma_ucx_load(&why), DMA_OK);
    init_version = dma_ucx_api.ucp_init_version;
    dma_ucx_api.ucp_init_version = note_params;
    ck_assert_int_eq(dma_ucx_create(&config, &net), DMA_OK);
    dma_ucx_destroy(net);
    ck_assert_uint_eq(told.field_mask & (UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_ESTIMATED_NUM_PPN),
                      UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_ESTIMATED_NUM_PPN);
    ck_assert_uint_eq(told.estimated_num_eps, 32768);
    ck_assert_uint_eq(told.estimated_num_ppn, 8);
}
END_TEST

/* ---- the order of messages ---- */

static char settings[1 << 16]; /* of the last context */

static ucs_status_t note_settings(unsigned major, unsigned minor, const ucp_params_t *params,
                                  const ucp_config_t *config, ucp_context_h *context)
{
    void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD);
    __typeof__(ucp_config_print) *print = (__typeof__(ucp_config_print) *)dlsym(library, "ucp_config_print");
    FILE *stream = fmemopen(settings, sizeof(settings), "w");

    print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG);
    fclose(stream);
    dlclose(library);
    return init_version(major, minor, params, config, context);
}

/* The settings of a context that is created in this environment, in `settings`. */
static void create_with(const char *name, const char *value)
{
    dma_ucx_config_t config = {.keepalive_seconds = 15, .processes = 1, .local_processes = 1};
    const char *why;
    dma_ucx_t *net;

    unsetenv("UCX_TLS");
    ck_assert_int_eq(setenv(name, value, 1), 0);
    ck_assert_int_eq(dma_ucx_load(&why), DMA_OK);
    init_version = dma_ucx_api.ucp_init_version;
    dma_ucx_api.ucp_init_version = note_settings;
    ck_assert_int_eq(dma_ucx_create(&config, &net), DMA_OK);
    dma_ucx_destroy(net);
    dma_ucx_api.ucp_init_version = init_version;
    unsetenv(name);
}

/* With two of them, messages that are sent at the same time could overtake each other. */
START_TEST(small_messages_have_one_rail)
{
    create_with("UCX_MAX_EAGER_RAILS", "2");
    ck_assert_msg(strstr(settings, "MAX_EAGER_LANES=1\n") || strstr(settings, "MAX_EAGER_RAILS=1\n"), "%s", settings);
}
END_TEST

/* ---- shared memory ---- */

/* Inside a node nothing is sent, and the queues for it need memory. A choice of the user is kept. */
START_TEST(shared_memory_only_if_the_user_says_so)
{
    create_with("UCX_WARN_UNUSED_ENV_VARS", "n");
    ck_assert_msg(strstr(settings, "_TLS=^sm\n"), "%s", settings);
    create_with("UCX_TLS", "tcp,posix");
    ck_assert_msg(strstr(settings, "_TLS=tcp,posix\n"), "%s", settings);
    create_with("COLL_DMA_UCX_TLS", "tcp,sysv");
    ck_assert_msg(strstr(settings, "_TLS=tcp,sysv\n"), "%s", settings);
}
END_TEST

/* ---- InfiniBand ---- */

static __typeof__(ucp_config_modify) *config_modify;
static const char *noted;    /* the end of a setting's name, */
static char value_noted[64]; /* and what UCX is told; "": nothing */

static ucs_status_t note_setting(ucp_config_t *config, const char *name, const char *value)
{
    if (strlen(name) >= strlen(noted) && !strcmp(name + strlen(name) - strlen(noted), noted)) {
        snprintf(value_noted, sizeof(value_noted), "%s", value);
    }
    return config_modify(config, name, value);
}

static const char *setting_with(const char *setting, const char *name, const char *value)
{
    const char *why;

    noted = setting;
    value_noted[0] = '\0';
    ck_assert_int_eq(dma_ucx_load(&why), DMA_OK);
    config_modify = dma_ucx_api.ucp_config_modify;
    dma_ucx_api.ucp_config_modify = note_setting;
    create_with(name, value);
    dma_ucx_api.ucp_config_modify = config_modify;
    return value_noted;
}

/* A choice of the user is kept. */
START_TEST(infiniband_only_where_there_is_a_device)
{
    const char *expected = dma_ucx_has_infiniband(DMA_UCX_INFINIBAND) ? "" : "^ib,rdmacm";

    ck_assert_str_eq(setting_with("MODULES", "UCX_WARN_UNUSED_ENV_VARS", "n"), expected);
    ck_assert_str_eq(setting_with("MODULES", "UCX_MODULES", "*"), "");
}
END_TEST

/* On adapters without mlx5 UD drops all packets of IPv4, unless it does not compare addresses. A choice of the user is kept. */
START_TEST(addresses_are_not_compared_in_vain)
{
    const char *expected = dma_ucx_has_mlx5(DMA_UCX_INFINIBAND) ? "" : "n", *why;
    __typeof__(ucp_context_print_info) *print;

    ck_assert_int_eq(dma_ucx_load(&why), DMA_OK);
    print = dma_ucx_api.ucp_context_print_info;
    dma_ucx_api.ucp_context_print_info = print_transports;
    transports = "tcp/eth0 rc_verbs/eth0 ud_verbs/eth0";
    ck_assert_str_eq(setting_with("ETH_DGID_CHECK", "UCX_WARN_UNUSED_ENV_VARS", "n"), expected);
    ck_assert_str_eq(setting_with("ETH_DGID_CHECK", "UCX_UD_VERBS_ETH_DGID_CHECK", "y"), "");
    transports = "tcp/eth0";
    ck_assert_str_eq(setting_with("ETH_DGID_CHECK", "UCX_WARN_UNUSED_ENV_VARS", "n"), "");
    dma_ucx_api.ucp_context_print_info = print;
}
END_TEST

/* Does a file of this process's memory have such a name? */
static bool is_mapped(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool found = false;

    ck_assert(maps);
    while (fgets(line, sizeof(line), maps)) {
        found = found || strstr(line, name);
    }
    fclose(maps);
    return found;
}

START_TEST(nothing_for_infiniband_is_loaded_in_vain)
{
    create_with("UCX_WARN_UNUSED_ENV_VARS", "n");
    ck_assert(is_mapped("libucp"));
    ck_assert(dma_ucx_has_infiniband(DMA_UCX_INFINIBAND) || !is_mapped("libuct_ib"));
    ck_assert(dma_ucx_has_infiniband(DMA_UCX_INFINIBAND) || !is_mapped("librdmacm"));
}
END_TEST

START_TEST(a_device_is_seen)
{
    char folder[] = "/tmp/coll-dma-infiniband.XXXXXX", device[64], inner[80], driver[100];

    ck_assert(!dma_ucx_has_infiniband("/nowhere/infiniband"));
    ck_assert(mkdtemp(folder));
    ck_assert(!dma_ucx_has_infiniband(folder));
    snprintf(device, sizeof(device), "%s/mlx5_0", folder);
    ck_assert_int_eq(mkdir(device, 0700), 0);
    ck_assert(dma_ucx_has_infiniband(folder) && !dma_ucx_has_mlx5(folder));
    snprintf(inner, sizeof(inner), "%s/device", device);
    snprintf(driver, sizeof(driver), "%s/driver", inner);
    ck_assert_int_eq(mkdir(inner, 0700), 0);
    ck_assert_int_eq(symlink("../../../bus/pci/drivers/bnxt_en", driver), 0);
    ck_assert(!dma_ucx_has_mlx5(folder));
    ck_assert_int_eq(unlink(driver), 0);
    ck_assert_int_eq(symlink("../../../bus/pci/drivers/mlx5_core", driver), 0);
    ck_assert(dma_ucx_has_mlx5(folder));
    ck_assert_int_eq(unlink(driver), 0);
    ck_assert_int_eq(rmdir(inner), 0);
    ck_assert_int_eq(rmdir(device), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

/* ---- probes ---- */

/* This layer finds out whether a peer is alive, unless the user has told the kernel how to probe. */
START_TEST(the_kernel_probes_for_longer)
{
    dma_ucx_config_t config = {.keepalive_seconds = 10, .processes = 1, .local_processes = 1};
    dma_ucx_t *net;

    create_with("UCX_WARN_UNUSED_ENV_VARS", "n");
    ck_assert_msg(strstr(settings, "KEEPCNT=127\n"), "%s", settings);
    create_with("UCX_TCP_KEEPCNT", "3");
    ck_assert_msg(!strstr(settings, "KEEPCNT="), "%s", settings);
    ck_assert_int_eq(dma_ucx_create(&config, &net), DMA_OK);
    ck_assert_uint_eq(net->watch.limit_ms, 10000);
    dma_ucx_destroy(net);
    ck_assert_int_eq(setenv("UCX_TCP_KEEPIDLE", "inf", 1), 0);
    ck_assert_int_eq(dma_ucx_create(&config, &net), DMA_OK);
    ck_assert_uint_eq(net->watch.limit_ms, 0);
    ck_assert_int_eq(net->watch.keepalive.kernel_count, net->watch.keepalive.count);
    dma_ucx_destroy(net);
    unsetenv("UCX_TCP_KEEPIDLE");
}
END_TEST

/* ---- addresses that other hosts have, too ---- */

START_TEST(an_interface_is_excluded)
{
    dma_ucx_config_t config = {.keepalive_seconds = 15, .processes = 1, .local_processes = 1};
    const uint32_t loopback = htonl(INADDR_LOOPBACK);
    const dma_ucx_unwanted_t nothing = {0};
    dma_ucx_unwanted_t unwanted;
    char devices[DMA_UCX_DEVICES_BYTES], expected[DMA_UCX_DEVICES_BYTES + 20];
    unsigned excluded;
    const char *why;
    size_t bytes;
    dma_ucx_t *net;

    ck_assert(dma_ucx_interface_has("lo", &loopback, 1) && !dma_ucx_interface_has("lo0", &loopback, 1));
    ck_assert_int_eq(dma_ucx_load(&why), DMA_OK);
    init_version = dma_ucx_api.ucp_init_version;
    dma_ucx_api.ucp_init_version = note_settings;
    ck_assert_int_eq(dma_ucx_create(&config, &net), DMA_OK);
    if (dma_ucx_devices_without(net->ucx.context, &nothing, devices, &excluded) == DMA_OK) {
        snprintf(expected, sizeof(expected), ",%s,", devices);
        ck_assert_msg(!strstr(expected, ",lo,"), "%s", devices);
        snprintf(expected, sizeof(expected), "NET_DEVICES=%s\n", devices);
        ck_assert_msg(!excluded || strstr(settings, expected), "%s", settings);
        dma_ucx_get_address(net, &bytes);
        settings[0] = '\0';
        ck_assert_int_eq(dma_ucx_exclude(net, net->ucx.place.addresses, 1), DMA_OK);
        ck_assert_str_eq(settings, ""); /* peers may use the address */
    } else {
        ck_assert_int_eq(dma_ucx_exclude(net, &loopback, 1), DMA_UNSUPPORTED);
    }
    dma_ucx_destroy(net);
    /* all interfaces that it listens on: none is left, unless there is a network without an address */
    ck_assert_int_eq(dma_ucx_create(&config, &net), DMA_OK);
    unwanted = (dma_ucx_unwanted_t){.addresses = net->ucx.place.addresses, .n = net->ucx.place.naddresses};
    settings[0] = '\0';
    if (dma_ucx_devices_without(net->ucx.context, &unwanted, devices, &excluded) == DMA_OK) {
        ck_assert_uint_ge(excluded, unwanted.n);
        ck_assert_int_eq(dma_ucx_exclude(net, unwanted.addresses, unwanted.n), DMA_OK);
        snprintf(expected, sizeof(expected), "NET_DEVICES=%s\n", devices);
        ck_assert_msg(strstr(settings, expected), "%s", settings);
    } else {
        ck_assert_int_eq(dma_ucx_exclude(net, unwanted.addresses, unwanted.n), DMA_UNSUPPORTED);
    }
    dma_ucx_destroy(net);
    dma_ucx_api.ucp_init_version = init_version;
}
END_TEST

START_TEST(a_place_has_the_addresses_in_use)
{
    dma_ucx_config_t config = {.keepalive_seconds = 15, .processes = 1, .local_processes = 1};
    dma_net_place_t place, again;
    size_t bytes;
    dma_ucx_t *net, *other;

    ck_assert_int_eq(dma_ucx_create(&config, &other), DMA_OK);
    dma_ucx_get_place(other, &again);
    dma_ucx_destroy(other);
    ck_assert_int_eq(dma_ucx_create(&config, &net), DMA_OK);
    dma_ucx_get_place(net, &place);
    dma_ucx_get_address(net, &bytes);
    ck_assert_uint_eq(place.address_bytes, bytes);
    ck_assert_uint_eq(place.space, again.space);
    for (uint32_t i = 0; i < place.naddresses; i++) {
        ck_assert_uint_ne(ntohl(place.addresses[i]) >> 24, IN_LOOPBACKNET);
        ck_assert_uint_ne(place.addresses[i], INADDR_ANY);
    }
    dma_ucx_destroy(net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ucx_tl_start");

    unit_test(suite, transports_by_their_names, 4);
    unit_test(suite, a_device_is_named_once, 4);
    unit_test(suite, tells_how_many_processes_there_are, 10);
    unit_test(suite, small_messages_have_one_rail, 10);
    unit_test(suite, shared_memory_only_if_the_user_says_so, 20);
    unit_test(suite, infiniband_only_where_there_is_a_device, 20);
    unit_test(suite, addresses_are_not_compared_in_vain, 30);
    unit_test(suite, nothing_for_infiniband_is_loaded_in_vain, 20);
    unit_test(suite, a_device_is_seen, 20);
    unit_test(suite, the_kernel_probes_for_longer, 20);
    unit_test(suite, an_interface_is_excluded, 20);
    unit_test(suite, a_place_has_the_addresses_in_use, 10);
    return unit_main(suite);
}
