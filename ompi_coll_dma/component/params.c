/*
 * Registers the MCA parameters of include/dma/params_table.h.
 *
 * Open MPI gets each parameter as a string, and the component parses it. Open MPI's own parsers differ between the series:
 * 4.1 takes "garbage" as 0 without a message and "-1" as a size of 2^64 - 1, and a value that does not fit an unsigned int
 * makes MPI_Init fail. Here every value outside its bounds gets one line and the default is used.
 */
#include "coll_dma.h"

static char *texts[DMA_PARAM_COUNT]; /* Open MPI stores the values here, in the order of the table, and owns them */

/* Every process checks its values; the first process of each node prints, so that a wrong value does not fill the screen. */
static void read_param(dma_params_t *params, const dma_param_t *param, const char *text)
{
    char why[DMA_PARAM_TEXT_BYTES];

    if (text && DMA_OK != dma_param_set(params, param, text, why) &&
        (0 == ompi_process_info.my_local_rank || UINT16_MAX == ompi_process_info.my_local_rank)) {
        opal_output(0, "coll/dma: %s", why);
    }
}

/* Open MPI copies the help text. The levels of a table row are MPI's, which Open MPI's constants also count. */
static int register_param(const dma_param_t *param, char **text)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    char allowed[DMA_PARAM_TEXT_BYTES / 2], help[2 * DMA_PARAM_TEXT_BYTES];

    dma_param_describe(param, allowed, sizeof(allowed));
    snprintf(help, sizeof(help), "%s (%s)", param->help, allowed);
    return mca_base_component_var_register(&component->super.collm_version, param->name, help, MCA_BASE_VAR_TYPE_STRING,
                                           NULL, 0, 0, (mca_base_var_info_lvl_t)(param->level - 1),
                                           MCA_BASE_VAR_SCOPE_READONLY, text);
}

static bool is_set(int index)
{
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;

    return OPAL_SUCCESS == mca_base_var_get_value(index, NULL, &source, NULL) && MCA_BASE_VAR_SOURCE_DEFAULT != source;
}

int mca_coll_dma_register_params(void)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;

    dma_params_default(&component->params);
    for (size_t i = 0; i < DMA_PARAM_COUNT; i++) {
        const dma_param_t *param = &dma_param_table[i];
        int index;

        texts[i] = (char *)param->initial;
        index = register_param(param, &texts[i]);
        if (index < 0) {
            return index;
        }
        read_param(&component->params, param, texts[i]);
        if (0 == strcmp(param->name, "net_first_calls")) {
            component->first_calls_set = is_set(index);
        }
    }
    return OMPI_SUCCESS;
}

void mca_coll_dma_params(dma_params_t *params)
{
    *params = mca_coll_dma_component.params;
    params->local_procs = (uint32_t)ompi_process_info.num_local_peers + 1;
    params->yield = opal_progress_yield_when_idle;
}
