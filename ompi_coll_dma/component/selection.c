/*
 * Adds the components that coll/dma needs to an include list that names dma (`mpirun --mca coll dma`).
 *
 * Every communicator needs about 50 collective functions, and coll/dma serves a few of them. So MPI_Init would fail with dma
 * alone in the list. The user means "use dma", so such a list gets the components that serve the other functions. Any other
 * selection stays as it is.
 *
 * This runs inside the register function of the component. At that time the framework has loaded the components of the list and
 * registers them one by one; later it opens those in the list. Hence three steps: load the missing components, register them if
 * the framework's loop will not do so, and write the longer list into the MCA parameter "coll".
 */
#include "coll_dma.h"

static const char *const required[] = {"tuned", "basic", "libnbc", "self", "inter", NULL};

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

/* Appends the named components to the framework's list. The loader reads the names from framework_selection. */
static void load_components(mca_base_framework_t *framework, char **names)
{
    char *selection = framework->framework_selection;

    framework->framework_selection = opal_argv_join(names, ',');
    if (framework->framework_selection) {
        /* Prints which components it cannot find, and loads the others. */
        (void)mca_base_component_find(NULL, framework, false, true);
        free(framework->framework_selection);
    }
    framework->framework_selection = selection;
}

static void register_components_after(mca_base_framework_t *framework, opal_list_item_t *item)
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

static int set_selection(const mca_base_framework_t *framework, char **names)
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
    bool dma_is_last = 0 == strcmp(last_name, "dma");
    char **names = NULL, **missing = NULL;
    int rc = OPAL_SUCCESS, before;

    if (framework->framework_selection && '^' != framework->framework_selection[0]) {
        names = opal_argv_split(framework->framework_selection, ',');
    }
    /* Tools such as ompi_info load all components, so dma need not be in the list. */
    mca_coll_dma_component.named = in_list(names, "dma");
    if (!mca_coll_dma_component.named) {
        goto out;
    }

    for (int i = 0; required[i]; i++) {
        if (!is_loaded(framework, required[i])) {
            opal_argv_append_nosize(&missing, required[i]);
        }
    }
    if (missing) {
        load_components(framework, missing);
        if (dma_is_last) {
            register_components_after(framework, last);
        }
    }

    before = opal_argv_count(names);
    for (int i = 0; required[i]; i++) {
        if (!in_list(names, required[i]) && is_loaded(framework, required[i])) {
            opal_argv_append_nosize(&names, required[i]);
        }
    }
    if (opal_argv_count(names) > before) {
        rc = set_selection(framework, names);
    }
out:
    opal_argv_free(missing);
    opal_argv_free(names);
    return rc;
}
