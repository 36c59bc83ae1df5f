/*
 * `mpirun --mca coll dma`, taken literally.
 *
 * The value is an include list. Every communicator needs some 50 functions and we serve a few of them, so with nothing
 * else in the list MPI_Init would fail. What the user means is "use dma", so a list that names dma gets the components
 * that serve the rest, below us; any other selection stays as it is.
 *
 * This runs inside our register function: the framework has loaded the components of the list, registers them one by
 * one, and will then filter by the list once more when it opens them. Hence three steps: load what is missing,
 * register it where the framework's own loop will not come by, and write the longer list into the parameter "coll".
 */
#include "coll_dma.h"

static const char *const needed[] = {"tuned", "basic", "libnbc", "self", "inter", NULL};

static bool in_list(char *const *names, const char *name)
{
    for (; names && *names; names++) {
        if (0 == strcmp(*names, name)) {
            return true;
        }
    }
    return false;
}

static bool is_loaded(const mca_base_framework_t *framework, const char *name)
{
    mca_base_component_list_item_t *item;

    OPAL_LIST_FOREACH(item, &framework->framework_components, mca_base_component_list_item_t)
    {
        if (0 == strcmp(item->cli_component->mca_component_name, name)) {
            return true;
        }
    }
    return false;
}

/* Appends the named components to the framework's list. The selection is what the loader goes by. */
static void load(mca_base_framework_t *framework, char **names)
{
    char *selection = framework->framework_selection;

    framework->framework_selection = opal_argv_join(names, ',');
    if (framework->framework_selection) {
        /* Says itself what it cannot find; the others are loaded nevertheless. */
        (void)mca_base_component_find(NULL, framework, false, true);
        free(framework->framework_selection);
    }
    framework->framework_selection = selection;
}

static void register_after(mca_base_framework_t *framework, opal_list_item_t *item)
{
    opal_list_item_t *next;

    for (item = opal_list_get_next(item); item != opal_list_get_end(&framework->framework_components); item = next) {
        const mca_base_component_t *component = ((mca_base_component_list_item_t *)item)->cli_component;

        next = opal_list_get_next(item);
        if (component->mca_register_component_params && OPAL_SUCCESS != component->mca_register_component_params()) {
            opal_list_remove_item(&framework->framework_components, item);
            OBJ_RELEASE(item);
        }
    }
}

static int widen(const mca_base_framework_t *framework, char **names)
{
    char *selection = opal_argv_join(names, ',');
    int rc = OPAL_ERR_OUT_OF_RESOURCE;

    if (selection) {
        rc = mca_base_var_find("ompi", "coll", NULL, NULL);
        if (rc >= 0) {
            rc = mca_base_var_set_value(rc, selection, strlen(selection) + 1, MCA_BASE_VAR_SOURCE_SET, NULL);
        }
        opal_output_verbose(MCA_BASE_VERBOSE_COMPONENT, framework->framework_output,
                            "coll:dma: selection is now %s (%d)", framework->framework_selection, rc);
    }
    free(selection);
    return rc;
}

int mca_coll_dma_extend_selection(void)
{
    mca_base_framework_t *framework = &ompi_coll_base_framework;
    opal_list_item_t *last = opal_list_get_last(&framework->framework_components);
    const char *last_name = ((mca_base_component_list_item_t *)last)->cli_component->mca_component_name;
    bool we_are_last = 0 == strcmp(last_name, "dma");
    char **names = NULL, **absent = NULL;
    int rc = OPAL_SUCCESS, before;

    if (framework->framework_selection && '^' != framework->framework_selection[0]) {
        names = opal_argv_split(framework->framework_selection, ',');
    }
    /* Tools load every component, whatever the list says. */
    if (!in_list(names, "dma")) {
        goto out;
    }

    for (int i = 0; needed[i]; i++) {
        if (!is_loaded(framework, needed[i])) {
            opal_argv_append_nosize(&absent, needed[i]);
        }
    }
    if (absent) {
        load(framework, absent);
        if (we_are_last) {
            register_after(framework, last);
        }
    }

    before = opal_argv_count(names);
    for (int i = 0; needed[i]; i++) {
        if (!in_list(names, needed[i]) && is_loaded(framework, needed[i])) {
            opal_argv_append_nosize(&names, needed[i]);
        }
    }
    if (opal_argv_count(names) > before) {
        rc = widen(framework, names);
    }
out:
    opal_argv_free(absent);
    opal_argv_free(names);
    return rc;
}
